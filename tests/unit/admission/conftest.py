"""Queues are futures of a loop: every coroutine test here runs on both loops."""

from __future__ import annotations

import pytest

from tests.unit.admission.clock import Clock


@pytest.fixture(
    scope="session",
    params=[("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


@pytest.fixture
def clock() -> Clock:
    return Clock()
