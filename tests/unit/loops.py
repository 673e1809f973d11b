"""For a conftest: every coroutine test of its folder runs on both event loops."""

from __future__ import annotations

import pytest


@pytest.fixture(
    scope="session",
    params=[("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    backend: tuple[str, dict[str, bool]] = request.param
    return backend
