"""Every implementation of the state, opened the same way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gateway.core.sealing import Sealer
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.cluster import ClusterStore
from gateway.redisclient.connections import connect
from gateway.redisclient.server_store import ServerStore
from gateway.redisclient.store import PartitionStore
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits
from gateway.state.redis import RedisState
from gateway.state.replica_sync import Timing
from tests.support.redis_cluster import RedisCluster
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


# A cluster runs the same script, and each replica costs a tenth of a second there. These tests touch all kinds of keys
# and channels: who is woken, and what replicas do for each other. All others are run on a cluster by `make test-soak`.
ON_CLUSTER = ("test_waiting", "test_replicas")
NOT_THERE = "test_claims_are_bounded_and_shared"  # has five replicas, each with as many leases as there are partitions


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests of replicas on a server and a cluster unless they name one, and those of any state in memory, too."""
    names, module = metafunc.fixturenames, metafunc.module.__name__.rpartition(".")[2]
    if "kind" not in names:
        return
    kinds: list[Any] = ["memory", "redis"] if "open_state" in names else ["redis"]
    if "redis_cluster" in names:
        kinds = ["cluster"]
    elif "redis_server" not in names and metafunc.function.__name__ != NOT_THERE:
        kinds.append(pytest.param("cluster", marks=() if module in ON_CLUSTER else pytest.mark.soak))
    metafunc.parametrize("kind", kinds, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Where the state is: "memory", "redis" or "cluster"."""
    kind: str = request.param
    return kind


@pytest.fixture
def open_store(kind: str, request: pytest.FixtureRequest) -> Callable[[], PartitionStore]:
    """Opens what replicas share, which begins without data."""
    if kind == "cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        return lambda: ClusterStore(RedisAddress.parse(cluster.url))
    server: RedisServer = request.getfixturevalue("redis_server")
    return lambda: ServerStore(connect(RedisAddress.parse(server.url)))


@pytest.fixture
async def open_replica(open_store: Callable[[], PartitionStore]) -> AsyncIterator[OpenReplica]:
    """Opens replicas that share a Redis."""
    async with AsyncExitStack() as opened:

        async def open_(
            limits: StateLimits | None = None, keys: list[str] = KEYS, timing: Timing = HASTY
        ) -> RedisState:
            state = RedisState(open_store(), limits or StateLimits(), Sealer(keys, "state"), timing=timing)
            opened.push_async_callback(state.aclose)
            await state.start()
            async with asyncio.timeout(DEADLINE_S):
                while not state.is_up:  # noqa: ASYNC110 - a busy machine takes longer than `start` waits
                    await asyncio.sleep(POLL_S)
            return state

        yield open_


@pytest.fixture
async def open_state(kind: str, open_replica: OpenReplica) -> OpenState:
    """Opens one state of each kind with certain limits."""
    if kind != "memory":
        return open_replica

    async def open_memory(limits: StateLimits) -> State:
        return MemoryState(limits, Clock())

    return open_memory


@pytest.fixture
async def state(open_state: OpenState) -> State:
    return await open_state(StateLimits())
