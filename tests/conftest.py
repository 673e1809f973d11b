"""Fixtures every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Coroutine tests run on uvloop, as the gateway does."""
    return "asyncio", {"use_uvloop": True}
