"""Every implementation of the state, opened the same way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from gateway.state.address import Address
from gateway.state.connections import connect
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits
from gateway.state.redis import RedisState
from gateway.state.replica_sync import Timing
from gateway.state.sealing import Sealer
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import DEADLINE_S, KEYS, POLL_S

HASTY = Timing(lease_s=0.5, beat_s=0.1, settle_in_s=0.3, poll_s=5.0)  # a poll that never helps: wake-ups have to

OpenState = Callable[[StateLimits], Awaitable[State]]
OpenReplica = Callable[..., Awaitable[RedisState]]


class Clock:
    """Seconds that pass a little with every look, so that waiting for an expiry takes no time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.04
        return self.now


@pytest.fixture
async def open_replica(redis_server: RedisServer) -> AsyncIterator[OpenReplica]:
    """Opens replicas that share a Redis."""
    async with AsyncExitStack() as opened:

        async def open_(
            limits: StateLimits | None = None, keys: list[str] = KEYS, timing: Timing = HASTY
        ) -> RedisState:
            sealer = Sealer(keys, "state")
            state = RedisState(connect(Address.parse(redis_server.url)), limits or StateLimits(), sealer, timing=timing)
            opened.push_async_callback(state.aclose)
            await state.start()
            async with asyncio.timeout(DEADLINE_S):
                while not state.is_up:  # noqa: ASYNC110 - a busy machine takes longer than `start` waits
                    await asyncio.sleep(POLL_S)
            return state

        yield open_


@pytest.fixture(params=["memory", "redis"])
async def open_state(request: pytest.FixtureRequest, open_replica: OpenReplica) -> OpenState:
    """Opens one state of each kind with certain limits."""
    if request.param == "redis":
        return open_replica

    async def open_memory(limits: StateLimits) -> State:
        return MemoryState(limits, Clock())

    return open_memory


@pytest.fixture
async def state(open_state: OpenState) -> State:
    return await open_state(StateLimits())
