"""Buckets in memory: exact, all or nothing, and gone when they are full."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ratelimit import MemoryBuckets, Rule
from gateway.ratelimit.memory import SHARDS
from gateway.ratelimit.rules import LimitPlan
from tests.unit.ratelimit.model import Clock, TokenBuckets, calendar_rule, parts, rule

KEYS = st.sampled_from([("caller",), ("ip",), ("caller", "tool")])
RATES = st.builds(
    rule,
    name=st.uuids().map(str),
    parts=KEYS,
    count=st.integers(1, 1_000_000),
    per_s=st.sampled_from([1, 60, 3600, 86400]),
    burst=st.integers(1, 5),
)
QUOTAS = st.builds(
    calendar_rule,
    st.sampled_from(["day", "month"]),
    st.integers(1, 5),
    name=st.uuids().map(str),
    parts=KEYS,
)
RULES = st.lists(RATES | QUOTAS, min_size=1, max_size=3)
PAUSES_US = st.one_of(st.integers(0, 3), st.integers(0, 2_000_000), st.integers(0, 3_000_000_000_000))
STEPS = st.lists(st.tuples(PAUSES_US, st.sampled_from("ab"), st.sampled_from("xy")), max_size=40)


@given(RULES, STEPS)
@settings(max_examples=200, deadline=None)
def test_buckets_do_exactly_what_buckets_of_tokens_do(
    rules: Sequence[Rule], steps: Sequence[tuple[int, str, str]]
) -> None:
    clock = Clock(12345)
    buckets, model, plan = MemoryBuckets(clock, calendar=clock), TokenBuckets(clock), LimitPlan(tuple(rules))
    for pause_us, caller, tool in steps:
        clock.now_us += pause_us
        asked = parts(caller, tool=tool)
        expected = model.take(plan, asked)
        outcome = buckets.take(plan, asked)
        assert (outcome.refused is None) == expected
        assert list(outcome.debts) == [model.debt(rule, asked) for rule in rules]


@given(RATES, st.integers(0, 10_000_000))
def test_a_refusal_names_the_first_second_at_which_there_is_one_more(limit: Rule, pause_us: int) -> None:
    clock = Clock()
    buckets, plan = MemoryBuckets(clock), LimitPlan((limit,))
    while (outcome := buckets.take(plan, parts())).refused is None:
        clock.now_us += pause_us % (limit.per_s * 1_000_000 // limit.count or 1) // 2
    exact_us = -(-(outcome.debts[0] + limit.step - limit.depth) // limit.count // 1000)
    assert outcome.retry_after_s == -(-exact_us // 1_000_000)
    clock.now_us += exact_us - 1
    assert buckets.take(plan, parts()).refused is limit
    clock.now_us += 1
    assert buckets.take(plan, parts()).refused is None


def test_full_buckets_are_forgotten_and_their_memory_is_freed() -> None:
    clock = Clock()
    buckets, plan = MemoryBuckets(clock), LimitPlan((rule(),))
    for number in range(10_000):
        buckets.take(plan, parts(f"key:{number}"))
    held = _bytes(buckets)
    clock.now_us = 400_000
    for number in range(10):
        buckets.take(plan, parts(f"key:{number}"))
    _sweep(buckets)
    assert len(buckets) == 10_000  # none is full before half a second
    clock.now_us = 500_000
    _sweep(buckets)
    assert len(buckets) == 10  # those that were asked again
    clock.now_us = 1_500_000
    _sweep(buckets)
    assert len(buckets) == 0
    assert _bytes(buckets) < held / 20


def test_a_sweep_goes_on_however_the_buckets_change_meanwhile() -> None:
    clock = Clock()
    buckets = MemoryBuckets(clock)
    plans = [LimitPlan((rule(name),)) for name in ("a", "b", "c")]
    for number in range(500):
        buckets.take(plans[0], parts(f"key:{number}"))
    clock.now_us = 10_000_000
    for number, _ in enumerate(buckets.sweep()):
        buckets.take(plans[number % 3], parts(f"key:new{number}"))
    clock.now_us = 20_000_000
    _sweep(buckets)
    assert len(buckets) == 0


def test_a_sweep_never_looks_at_more_than_a_shard_at_a_time() -> None:
    buckets, plan = MemoryBuckets(Clock()), LimitPlan((rule(),))
    for number in range(2000):
        buckets.take(plan, parts(f"key:{number}"))
    assert sum(1 for _ in buckets.sweep()) == SHARDS


def test_at_the_cap_those_nearest_to_full_are_forgotten() -> None:
    clock = Clock()
    buckets, plan = MemoryBuckets(clock, max_shard=4), LimitPlan((rule(burst=100),))
    for _ in range(100):
        assert buckets.take(plan, parts("key:greedy")).refused is None
    for number in range(5000):
        clock.now_us += 10
        assert buckets.take(plan, parts(f"key:{number}")).refused is None
        assert len(buckets) <= 4 * SHARDS
    assert buckets.take(plan, parts("key:greedy")).refused is not None


def test_looking_for_an_exhausted_bucket_takes_and_keeps_nothing() -> None:
    limit = rule(burst=1)
    buckets, plan = MemoryBuckets(Clock()), LimitPlan((limit,))
    assert buckets.exhausted(limit, parts()) is None
    assert len(buckets) == 0
    assert buckets.take(plan, parts()).refused is None
    assert buckets.exhausted(limit, parts()) == limit.depth


def test_counts_of_a_window_are_kept_until_it_ends() -> None:
    clock = Clock(1_790_812_800_000_000 - 2_000_000)  # two seconds before the end of September 2026
    buckets, plan = MemoryBuckets(clock, calendar=clock), LimitPlan((calendar_rule("month", 3, parts=("ip",)),))
    limit = plan.rules[0]
    for _ in range(3):
        assert buckets.exhausted(limit, parts()) is None
        buckets.take(plan, parts())
    _sweep(buckets)
    assert buckets.exhausted(limit, parts()) == 2 * limit.step + 2_000_000_000
    clock.now_us += 2_000_000
    _sweep(buckets)
    assert len(buckets) == 0
    assert buckets.exhausted(limit, parts()) is None


def _sweep(buckets: MemoryBuckets) -> None:
    for _ in buckets.sweep():
        pass


def _bytes(buckets: MemoryBuckets) -> int:
    return sum(sys.getsizeof(shard) for shards in buckets.shards.values() for shard in shards)
