"""Replicas on a Redis server that a test may kill and freeze."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from gateway.state.address import Address
from gateway.state.connections import connect
from gateway.state.port import StateLimits
from gateway.state.redis import RedisState
from gateway.state.sealing import Sealer
from tests.live.state.replica import TIMING
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import KEYS


class Replicas:
    """Opens replicas in this process."""

    def __init__(self, url: str, opened: AsyncExitStack) -> None:
        self._url = url
        self._opened = opened

    async def open(self) -> RedisState:
        state = RedisState(
            connect(Address.parse(self._url)),
            StateLimits(max_pending=10_000),
            Sealer(KEYS, "state"),
            timing=TIMING,
        )
        self._opened.push_async_callback(state.aclose)
        await state.start()
        return state


@pytest.fixture
async def replicas(redis_server: RedisServer) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as opened:
        yield Replicas(redis_server.url, opened)
