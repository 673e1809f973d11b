"""Redis killed, frozen and out of memory while limits are asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from gateway.core.errors import StateUnavailable
from gateway.ratelimit import MemoryBuckets, RateLimited, RateLimits
from gateway.ratelimit.outcome import LimitOutcome
from gateway.ratelimit.redis import RedisBuckets
from gateway.ratelimit.rules import LimitPlan
from gateway.redisclient.connections import BATCH_TIMEOUT_S
from tests.support.limit_clients import replica
from tests.support.redis_server import RedisServer
from tests.unit.ratelimit.model import parts, remaining, rule

pytestmark = pytest.mark.anyio

LIMIT = rule(count=1, per_s=86400, burst=5)
PLAN = LimitPlan((LIMIT,))
IP = "10.0.0.1"
LONG_S = 20.0


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not reached():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


async def test_while_redis_is_away_nothing_passes_and_no_caller_waits(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway.ratelimit")
    async with replica(redis_server.url) as buckets:
        assert (await buckets.take(PLAN, parts())).refused is None
        redis_server.kill()
        failed = await asyncio.gather(*(buckets.take(PLAN, parts()) for _ in range(300)), return_exceptions=True)
        assert all(isinstance(one, StateUnavailable) for one in failed)
        began = time.monotonic()
        for _ in range(100):
            with pytest.raises(StateUnavailable):
                await buckets.take(PLAN, parts())
        assert time.monotonic() - began < 20 * BATCH_TIMEOUT_S  # of the hundred that it would take to ask each time
        redis_server.start()
        await until(lambda: buckets.is_up)
        assert (await buckets.take(PLAN, parts())).refused is None
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]  # once for the whole outage
    assert "key:a" not in caplog.text


async def test_a_frozen_redis_costs_one_time_limit_and_no_more(redis_server: RedisServer) -> None:
    async with replica(redis_server.url) as buckets:
        gate = RateLimits([LIMIT], MemoryBuckets(time.monotonic_ns), buckets)
        await gate.spend("call", "key:a", IP, None)
        redis_server.freeze()
        began = time.monotonic()
        passed = await asyncio.gather(*(_passed(gate, 1) for _ in range(1000)))
        assert time.monotonic() - began < 20 * BATCH_TIMEOUT_S  # of a thousand
        assert sum(passed) == 5
        redis_server.thaw()
        await until(lambda: buckets.is_up)


async def test_a_redis_without_memory_counts_as_away_until_it_has_some(redis_server: RedisServer) -> None:
    async with replica(redis_server.url) as buckets:
        with redis_server.connect() as redis:
            await buckets.take(PLAN, parts())
            redis.config_set("maxmemory", 1)
            with pytest.raises(StateUnavailable):
                await buckets.take(PLAN, parts())
            assert not buckets.is_up
            redis.config_set("maxmemory", 0)
        await until(lambda: buckets.is_up)


async def test_a_redis_that_has_forgotten_the_script_gets_it_again(redis_server: RedisServer) -> None:
    async with replica(redis_server.url) as buckets:
        await buckets.take(PLAN, parts())
        with redis_server.connect() as redis:
            redis.script_flush()
        assert remaining(await buckets.take(PLAN, parts())) == [3]
        assert buckets.is_up


async def test_closing_fails_what_is_still_asked(redis_server: RedisServer) -> None:
    async with replica(redis_server.url) as buckets:
        await buckets.take(PLAN, parts())
        redis_server.freeze()
        asked = [asyncio.create_task(_take(buckets)) for _ in range(1000)]
        await asyncio.sleep(0)
        await buckets.aclose()
        taken = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, StateUnavailable) for one in taken)
        with pytest.raises(StateUnavailable):
            await buckets.take(PLAN, parts())


async def _passed(gate: RateLimits, times: int) -> int:
    passed = 0
    for _ in range(times):
        with suppress(RateLimited):
            await gate.spend("call", "key:a", IP, None)
            passed += 1
    return passed


async def _take(buckets: RedisBuckets) -> LimitOutcome:
    return await buckets.take(PLAN, parts())
