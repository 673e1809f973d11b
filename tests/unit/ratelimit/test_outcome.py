"""What callers learn of limits: draft-ietf-httpapi-ratelimit-headers-10."""

from __future__ import annotations

import pytest

from gateway.ratelimit import MemoryBuckets, RateLimited, Rule
from gateway.ratelimit.outcome import LimitOutcome, headers
from gateway.ratelimit.rules import LimitPlan
from tests.unit.ratelimit.model import Clock, calendar_rule, parts, rule


def take(*rules: Rule, times: int = 1) -> LimitOutcome:
    buckets, plan = MemoryBuckets(Clock()), LimitPlan(rules)
    return [buckets.take(plan, parts()) for _ in range(times)][-1]


# (count, per_s, burst) -> quota and window; the window is whole seconds, never less than the rule needs
POLICIES = [
    ((50, 1, 100), b"q=100;w=2"),
    ((30, 60, 30), b"q=30;w=60"),
    ((1000, 3600, 1000), b"q=1000;w=3600"),
    ((5, 86400, 1), b"q=1;w=17280"),
    ((50, 1, 1), b"q=1;w=1"),  # sub-second windows are not supported (section 3.1.3)
    ((3, 1, 10), b"q=10;w=4"),
]


@pytest.mark.parametrize(("rate", "policy"), POLICIES)
def test_a_policy_is_the_burst_and_the_time_it_takes_to_come_back(rate: tuple[int, int, int], policy: bytes) -> None:
    count, per_s, burst = rate
    assert LimitPlan((rule(count=count, per_s=per_s, burst=burst),)).policy == (
        b"ratelimit-policy",
        b'"per-caller";' + policy,
    )


def test_a_quota_says_how_many_are_left_and_when_its_day_or_month_ends() -> None:
    clock = Clock(1_790_812_800_000_000 - 5_000_000)  # five seconds before the end of September 2026
    buckets, plan = (
        MemoryBuckets(clock, calendar=clock),
        LimitPlan((calendar_rule("month", 2), calendar_rule("day", 9, "d"))),
    )
    said = [dict(headers(buckets.take(plan, parts())))[b"ratelimit"] for _ in range(3)]
    assert said == [b'"quota";r=1;t=5, "d";r=8;t=5', b'"quota";r=0;t=5, "d";r=7;t=5', b'"quota";r=0;t=5']
    assert plan.policy[1] == b'"quota";q=2;w=2678400, "d";q=9;w=86400'  # a month may have 31 days


def test_several_limits_stand_in_one_list_in_the_order_of_the_file() -> None:
    found = dict(headers(take(rule("b", count=30, per_s=60, burst=30), rule("a", burst=10))))
    assert found[b"ratelimit-policy"] == b'"b";q=30;w=60, "a";q=10;w=5'
    assert found[b"ratelimit"] == b'"b";r=29;t=2, "a";r=9;t=1'


def test_without_limits_nothing_is_said() -> None:
    assert headers(take()) == ()


def test_a_refusal_shows_only_the_limits_that_refuse() -> None:
    """Retry-After must not be earlier than any `t` (section 6), and that of a limit with room means nothing here."""
    refused = take(rule("slow", count=1, per_s=60, burst=10), rule("fast", burst=1), times=2)
    assert refused.refused is not None
    assert refused.refused.name == "fast"
    found = dict(headers(refused))
    assert found[b"ratelimit-policy"] == b'"slow";q=10;w=600, "fast";q=1;w=1'
    assert found[b"ratelimit"] == b'"fast";r=0;t=1'
    assert refused.retry_after_s == 1


def test_of_several_limits_that_refuse_the_longest_wait_counts() -> None:
    refused = take(rule("second", count=1, burst=1), rule("minute", count=1, per_s=60, burst=1), times=2)
    assert refused.refused is not None
    assert (refused.refused.name, refused.retry_after_s) == ("minute", 60)
    assert dict(headers(refused))[b"ratelimit"] == b'"second";r=0;t=1, "minute";r=0;t=60'


def test_a_full_bucket_has_no_reset() -> None:
    limit = rule(burst=5)
    assert headers(LimitOutcome(LimitPlan((limit,)), (0,)))[1] == (b"ratelimit", b'"per-caller";r=5')


@pytest.mark.parametrize("rate", [rate for rate, _ in POLICIES])
@pytest.mark.parametrize("part", [0.0, 0.013, 0.9])
def test_a_refusal_says_what_the_limits_said(rate: tuple[int, int, int], part: float) -> None:
    """Asked after a part of the time that it takes until there is one more."""
    count, per_s, burst = rate
    clock = Clock()
    buckets, limit = MemoryBuckets(clock), rule(count=count, per_s=per_s, burst=burst)
    for _ in range(burst):
        buckets.take(LimitPlan((limit,)), parts())
    clock.now_us += int(part * 1_000_000 * per_s / count)
    outcome = buckets.take(LimitPlan((limit,)), parts())
    error = RateLimited(outcome)
    assert (error.retry_after_s, error.headers) == (outcome.retry_after_s, headers(outcome))
