"""The demonstration tool servers as real processes, one of each kind for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.terminal import connected


@pytest.fixture(scope="session")
def otc() -> Iterator[httpx.Client]:
    with connected("gateway.demo.otc_server") as client:
        yield client


@pytest.fixture(scope="session")
def oxp() -> Iterator[httpx.Client]:
    with connected("gateway.demo.oxp_server") as client:
        yield client


@pytest.fixture(scope="session")
def mcp() -> Iterator[httpx.Client]:
    with connected("gateway.demo.mcp_server") as client:
        yield client


@pytest.fixture(scope="session")
def openapi() -> Iterator[httpx.Client]:
    with connected("gateway.demo.openapi_server") as client:
        yield client
