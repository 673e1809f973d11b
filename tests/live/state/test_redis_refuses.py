"""Redis that answers and takes nothing more, and Redis that is back with the data of some time ago."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from gateway.core.errors import StateUnavailable
from gateway.state.port import ACCEPTED, AWAITING_USER, DONE, Full, OutcomeTooLarge
from tests.live.state.conftest import Replicas
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import began, begins, call, state_of, until

pytestmark = pytest.mark.anyio

RESULT_BYTES = 1 << 20
NO_WRITES = ("min-replicas-to-write", 1)


@contextmanager
def refusing(server: RedisServer, setting: str, value: int) -> Iterator[Redis]:
    """A Redis that answers and refuses whatever would be written."""
    with server.connect() as redis:
        redis.config_set(setting, value)
        yield redis
        redis.config_set(setting, 0)


def leases(redis: Redis) -> float:
    """When the last of them ends."""
    return float(redis.zrange("toolgate:replicas", -1, -1, withscores=True)[0][1])


def leases_that_last(redis: Redis) -> int:
    seconds, microseconds = redis.time()
    return int(redis.zcount("toolgate:replicas", seconds * 1000 + microseconds // 1000, "+inf"))


async def test_a_redis_that_refuses_writes_counts_as_away_and_the_log_says_why(
    redis_server: RedisServer, replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    state = await replicas.open()
    key = (await began(state, to=ACCEPTED)).key
    with refusing(redis_server, *NO_WRITES) as redis, caplog.at_level(logging.WARNING, "gateway.state"):
        for ask in (lambda: state.begin(call()), lambda: state.settle(key, b"outcome")):
            with pytest.raises(StateUnavailable):
                await ask()
        await until(lambda: not state.is_up, "the state says that it is away")
        await until(lambda: leases_that_last(redis) == 0, "several heartbeats have been refused")
        assert not state.is_up
        assert state.trouble is not None
    found = [(record.getMessage(), vars(record)["detail"]) for record in caplog.records]
    assert [message for message, _ in found] == ["the state may lose calls", "the state cannot be reached"]
    assert "nothing is written to disk" in found[0][1]
    assert "NOREPLICAS" in found[1][1]
    await until(lambda: state.is_up, "the state is back")
    assert await state.settle(key, b"outcome")
    assert await begins(state)


async def test_a_redis_without_memory_takes_no_new_calls_and_loses_none_that_it_has(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    state = await replicas.open()
    keys = [(await began(state, to=ACCEPTED)).key for _ in range(3)]
    assert await state.settle(keys[0], b"outcome")
    with refusing(redis_server, "maxmemory", 1) as redis:
        await until(lambda: state.trouble is not None, "a heartbeat finds no memory left")
        refused = await state.begin(call())
        assert isinstance(refused, Full)
        assert refused.quota == "room"
        assert await state_of(state, keys[0]) is DONE
        with pytest.raises(OutcomeTooLarge):
            await state.settle(keys[1], bytes(RESULT_BYTES))
        assert await state.settle(keys[1], b"how it ended")
        assert await state.advance(keys[2], [ACCEPTED], AWAITING_USER, note=b"a consent")
        before = leases(redis)
        await until(lambda: leases(redis) > before, "heartbeats go on")
        assert state.is_up
    await until(lambda: begins(state), "there is memory again")
    assert state.trouble is None


async def test_a_caller_takes_no_more_of_redis_than_is_left_for_others(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    state = await replicas.open()
    with redis_server.connect() as redis:
        room = 12 * RESULT_BYTES
        redis.config_set("maxmemory", redis.info("memory")["used_memory"] + room)
        kept = []
        for principal, calls in (("greedy", 12), ("another", 3)):  # with more of them, Redis itself would be full
            for _ in range(calls):
                key = (await began(state, call(principal=principal), ACCEPTED)).key
                try:
                    assert await state.settle(key, bytes(RESULT_BYTES))
                    kept.append(principal)
                except OutcomeTooLarge:
                    assert await state.settle(key, b"how it ended")
        assert 3 <= kept.count("greedy") <= 6  # half of it, less what the server takes for itself
        assert kept.count("another") >= 1
        redis.config_set("maxmemory", 0)
