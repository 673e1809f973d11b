"""The official conformance suite of MCP against a gateway, in front of the tools that the suite looks for.

The suite fails on what is not in the baseline, and on what is there but passes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.interop.mcp.programs import HERE, conformance, tool_server
from tests.support import processes


@pytest.fixture(scope="module")
async def gateway(anyio_backend: object) -> AsyncIterator[str]:
    """Where callers of MCP find it; the suite wants to reach it as localhost."""
    with tool_server("fixtures.py") as url:
        backend = {"protocol": "mcp", "url": f"{url}/mcp", "toolkit": "test", "discovery": {"refresh": "1s"}}
        async with processes.gateway(processes.settings({"test": backend})) as running:
            yield f"{running.url.replace('127.0.0.1', 'localhost')}/mcp"


@pytest.mark.alone
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_it_meets_the_requirements_of_a_revision_but_for_what_it_does_not_declare(
    gateway: str, revision: str
) -> None:
    baseline = HERE / f"surface-{revision}.yml"
    done = conformance("server", "--url", gateway, "--requirements", revision, "--expected-failures", str(baseline))
    assert done.returncode == 0, done.stdout + done.stderr


NOT_REQUIRED = {"http-header-validation": "2026-07-28", "server-session-lifecycle": "2025-11-25"}


@pytest.mark.parametrize(("scenario", "revision"), NOT_REQUIRED.items())
async def test_it_passes_more_than_is_required(gateway: str, scenario: str, revision: str) -> None:
    done = conformance("server", "--url", gateway, "--scenario", scenario, "--spec-version", revision)
    assert done.returncode == 0, done.stdout + done.stderr
