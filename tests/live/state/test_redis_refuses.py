"""Redis that answers and takes nothing more, and Redis that is back with the data of some time ago."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from redis import Redis

from gateway.state.port import Created, StateUnavailable
from gateway.state.recent import MAX_BYTES
from gateway.state.redis import RedisState
from tests.contract.state.calls import (
    ACCEPTED,
    DISPATCHING,
    UNKNOWN,
    began,
    call,
    judges,
    orphans,
    state_of,
    until,
)
from tests.contract.state.server import RedisServer
from tests.live.state.conftest import Replicas

pytestmark = pytest.mark.anyio

RESULT_BYTES = 1 << 20
REFUSALS = [
    ("maxmemory", 1, "maxmemory"),
    ("min-replicas-to-write", 1, "NOREPLICAS"),
]  # setting, its value, what Redis says


@contextmanager
def refusing(server: RedisServer, setting: str, value: int) -> Iterator[Redis]:
    """A Redis that answers and refuses whatever would be written."""
    with server.connect() as redis:
        redis.config_set(setting, value)
        yield redis
        redis.config_set(setting, 0)


def up(*states: RedisState, are: bool = True) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return all(state.is_up is are for state in states)

    return ask


def leases_that_last(redis: Redis) -> int:
    seconds, microseconds = redis.time()
    return int(redis.zcount("toolgate:replicas", seconds * 1000 + microseconds // 1000, "+inf"))


@pytest.mark.parametrize(("setting", "value", "says"), REFUSALS)
async def test_a_redis_that_refuses_writes_counts_as_away_and_the_log_says_why(
    setting: str,
    value: int,
    says: str,
    redis_server: RedisServer,
    replicas: Replicas,
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = await replicas.open()
    key = (await began(state, to=ACCEPTED)).key
    with refusing(redis_server, setting, value) as redis, caplog.at_level(logging.WARNING, "gateway.state"):
        for ask in (lambda: state.begin(call()), lambda: state.settle(key, b"outcome")):
            with pytest.raises(StateUnavailable):
                await ask()
        await until(up(state, are=False), "the state says that it is away")

        async def is_over() -> bool:
            return leases_that_last(redis) == 0

        await until(is_over, "several heartbeats have been refused")
        assert not state.is_up
    told = [(record.getMessage(), vars(record)["detail"]) for record in caplog.records]
    assert [message for message, _ in told] == ["the state cannot be reached"]
    assert says in told[0][1]
    await until(up(state), "the state is back")
    assert await state.settle(key, b"outcome")
    assert isinstance(await state.begin(call()), Created)


@pytest.mark.parametrize(("setting", "value"), [refusal[:2] for refusal in REFUSALS])
async def test_nobody_is_dead_because_redis_refused_everybody_s_heartbeat(
    setting: str, value: int, redis_server: RedisServer, replicas: Replicas
) -> None:
    states = [await replicas.open() for _ in range(5)]
    for state in states:
        await judges(state, await replicas.open())
    keys = [(await began(state, to=DISPATCHING)).key for state in states]
    with refusing(redis_server, setting, value) as redis:

        async def is_over() -> bool:
            return leases_that_last(redis) == 0

        await until(is_over, "every lease has run out")
    with redis_server.connect() as redis:

        async def all_are_back() -> bool:
            for state in states:
                with suppress(StateUnavailable):
                    assert not await state.claim_orphans(100)
            return leases_that_last(redis) == len(states)

        await until(all_are_back, "every replica has its lease again")
    await until(up(*states), "every replica has Redis again")
    assert {await state_of(states[0], key) for key in keys} == {DISPATCHING}


async def test_calls_that_run_again_in_data_of_long_ago_are_taken_up_by_who_held_them(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    """Redis comes back with a snapshot. What ended since then, too long ago to be remembered, would run for a day."""
    state = await replicas.open()
    accepted, dispatching = await began(state, to=ACCEPTED), await began(state, to=DISPATCHING)
    running = await began(state, to=ACCEPTED)
    with redis_server.connect() as redis:
        redis.save()
    for ended in (accepted, dispatching):
        assert await state.settle(ended.key, b"outcome")
    for _ in range(MAX_BYTES // RESULT_BYTES + 1):  # so many results later that those are not told again
        assert await state.settle((await began(state)).key, bytes(RESULT_BYTES))
    redis_server.kill()
    redis_server.start()
    with redis_server.connect() as redis:
        assert redis.hget(f"toolgate:{{{dispatching.key}}}:call", "state") == b"%d" % DISPATCHING
    claimed = await orphans(state, 2)
    assert {key: record.state for key, record in claimed.items()} == {
        accepted.key: ACCEPTED,
        dispatching.key: UNKNOWN,
    }
    assert claimed[accepted.key].replica == state.replica
    assert await state_of(state, running.key) is ACCEPTED
    assert not await state.claim_orphans(100)
