"""What holds wherever buckets are kept. Rates are so slow that none fills during a test, unless it waits for that."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.ratelimit.limits import SharedBuckets
from gateway.ratelimit.outcome import LimitOutcome
from gateway.ratelimit.rules import LimitPlan, bounds
from tests.unit.ratelimit.model import calendar_rule, parts, remaining, rule

pytestmark = pytest.mark.anyio

DAILY: dict[str, Any] = {"count": 1, "per_s": 86400}


async def test_a_burst_passes_and_the_next_request_does_not(buckets: SharedBuckets) -> None:
    plan = LimitPlan((rule(**DAILY, burst=3),))
    taken = [await buckets.take(plan, parts()) for _ in range(4)]
    assert [outcome.refused is None for outcome in taken] == [True, True, True, False]
    assert [remaining(outcome) for outcome in taken] == [[2], [1], [0], [0]]
    assert 86390 <= taken[-1].retry_after_s <= 86400


async def test_however_many_ask_at_once_the_burst_is_what_passes(buckets: SharedBuckets) -> None:
    plan = LimitPlan((rule(**DAILY, burst=300),))
    taken = await asyncio.gather(*(buckets.take(plan, parts()) for _ in range(1000)))
    assert sum(outcome.refused is None for outcome in taken) == 300


async def test_a_request_that_one_limit_refuses_is_not_counted_by_others(buckets: SharedBuckets) -> None:
    plan = LimitPlan((rule("wide", **DAILY, parts=("ip",), burst=1000), rule("narrow", **DAILY, burst=2)))
    asked = [buckets.take(plan, parts(f"key:{number % 10}")) for number in range(200)]
    taken = await asyncio.gather(*asked)
    assert sum(outcome.refused is None for outcome in taken) == 20
    wide = await buckets.take(LimitPlan(plan.rules[:1]), parts())
    assert remaining(wide) == [1000 - 20 - 1]
    refused = await buckets.take(plan, parts("key:1"))
    assert remaining(refused) == [1000 - 20 - 1, 0]


async def test_requests_of_one_turn_may_have_different_limits(buckets: SharedBuckets) -> None:
    one, other = rule("one", **DAILY, burst=1), rule("other", **DAILY, parts=("tool", "ip"), burst=3)
    plans = [LimitPlan((one,)), LimitPlan((other,)), LimitPlan((one, other)), LimitPlan((other, one))]
    asked = [buckets.take(plan, parts(caller)) for plan, caller in zip(plans, "abba", strict=True)]
    taken = await asyncio.gather(*asked)
    assert [outcome.refused and outcome.refused.name for outcome in taken] == [None, None, None, "one"]
    assert [remaining(outcome) for outcome in taken] == [[0], [2], [0, 1], [1, 0]]


async def test_a_month_is_counted_together_with_other_limits_or_not_at_all(buckets: SharedBuckets) -> None:
    plan = LimitPlan(
        (calendar_rule("month", 150, "monthly"), calendar_rule("day", 200, "daily"), rule(**DAILY, burst=100))
    )
    taken = await asyncio.gather(*(buckets.take(plan, parts(f"key:{number % 2}")) for number in range(400)))
    assert sum(outcome.refused is None for outcome in taken) == 200
    assert {remaining(outcome)[2] for outcome in taken if outcome.refused is not None} == {0}
    assert remaining(await buckets.take(LimitPlan(plan.rules[:2]), parts("key:1"))) == [49, 99]
    quota = LimitPlan(plan.rules[:1])
    last = [await buckets.take(quota, parts("key:1")) for _ in range(50)][-1]
    assert last.refused is quota.rules[0]
    assert abs(last.retry_after_s - (bounds("month", int(time.time()) // 86400)[1] - time.time())) < 60


async def test_a_bucket_fills_with_time(buckets: SharedBuckets) -> None:
    plan = LimitPlan((rule(count=20, burst=1),))
    assert (await buckets.take(plan, parts())).refused is None
    refused = 0
    async with asyncio.timeout(10):
        while (await buckets.take(plan, parts())).refused is not None:
            refused += 1
            await asyncio.sleep(0.001)
    assert refused > 0


async def test_a_caller_that_leaves_during_its_take_disturbs_no_other(buckets: SharedBuckets) -> None:
    plan = LimitPlan((rule(**DAILY, burst=1000),))
    tasks = [asyncio.create_task(_take(buckets, plan)) for _ in range(200)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    taken = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, LimitOutcome) for outcome in taken[1::2])
    (left,) = remaining(await _take(buckets, plan))
    assert 799 <= left <= 899  # those that left may have been counted


async def _take(buckets: SharedBuckets, plan: LimitPlan) -> LimitOutcome:
    return await buckets.take(plan, parts())
