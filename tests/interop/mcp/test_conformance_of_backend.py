"""The official conformance suite of MCP as the tool server behind a gateway, which is the client that it judges."""

from __future__ import annotations

import sys

import pytest

from tests.interop.mcp.programs import HERE, conformance

CLIENT = f"{sys.executable} -m tests.interop.mcp.conformance_client"


@pytest.mark.alone
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_it_meets_the_requirements_of_a_revision_but_for_what_it_does_not_do(revision: str) -> None:
    baseline = HERE / f"backend-{revision}.yml"
    done = conformance("client", "--command", CLIENT, "--requirements", revision, "--expected-failures", str(baseline))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_gets_tokens_with_credentials_of_its_own() -> None:
    """An extension (OAuth client credentials), required by no revision."""
    done = conformance("client", "--command", CLIENT, "--scenario", "auth/client-credentials-basic")
    assert done.returncode == 0, done.stdout + done.stderr
