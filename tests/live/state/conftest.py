"""Replicas on a Redis server that a test may kill and freeze."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from gateway.state.redis import RedisState
from tests.live.state.replica import replica_at
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import until


class Replicas:
    """Opens replicas in this process."""

    def __init__(self, url: str, opened: AsyncExitStack) -> None:
        self._url = url
        self._opened = opened

    async def open(self) -> RedisState:
        state = replica_at(self._url)
        self._opened.push_async_callback(state.aclose)
        await state.start()
        await until(lambda: not state._background, "it has read the settings of Redis")
        return state


@pytest.fixture
async def replicas(redis_server: RedisServer) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as opened:
        yield Replicas(redis_server.url, opened)
