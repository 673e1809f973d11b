"""The script by itself, on a real server whose clock the test moves: exact, forgetful, and safe from jumps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from gateway.ratelimit import MemoryBuckets, Rule
from gateway.ratelimit.outcome import LimitOutcome, headers
from gateway.ratelimit.redis import SCRIPT as SCRIPT_BYTES
from gateway.ratelimit.redis import encode, outcome
from gateway.ratelimit.rules import LimitPlan, Parts
from tests.support.limit_clients import replica
from tests.support.redis_server import RedisServer
from tests.unit.ratelimit.model import Clock, TokenBuckets, calendar_rule, parts, rule
from tests.unit.ratelimit.test_memory import RULES, STEPS

SCRIPT = SCRIPT_BYTES.decode()
START_US = 1_800_000_000_000_000
ON_SERVER_TIME = "local time = redis.call('TIME')"
ON_TEST_TIME = "local time = { 0, tonumber(ARGV[3]) }"
IN_TIME = "math.floor(lacks / 1000) + 1"
NEVER = "1e12"  # Redis drops keys by its own clock, which a test that moves another must not see


class ScriptedBuckets:
    """Runs the script with the time of a clock of ours."""

    def __init__(self, redis: Redis, clock: Clock, *, dropped: str = NEVER) -> None:
        assert ON_SERVER_TIME in SCRIPT
        assert IN_TIME in SCRIPT
        self._run = redis.register_script(SCRIPT.replace(ON_SERVER_TIME, ON_TEST_TIME).replace(IN_TIME, dropped))
        self._clock = clock

    def take(self, *asked: tuple[LimitPlan, Parts]) -> list[LimitOutcome]:
        self.last = self._ask([(plan, parts, []) for plan, parts in asked])
        return [outcome(plan, reply) for (plan, _), reply in zip(asked, self.last, strict=True)]

    def give_back(self, plan: LimitPlan, parts: Parts, reply: list[int]) -> None:
        """Gives back what was taken with this reply."""
        self._ask([(plan, parts, [reply[2::2]])])

    def _ask(self, asked: Sequence[tuple[LimitPlan, Parts, list[list[int]]]]) -> list[list[int]]:
        keys = [f"{rule.name}:{rule.identity(parts)}" for plan, parts, _ in asked for rule in plan.rules]
        operations = msgspec.msgpack.encode([[encode(plan), *lefts] for plan, _, lefts in asked])
        replies: list[list[int]] = self._run(keys, [b"", operations, self._clock.now_us])
        return replies


@pytest.fixture
def clock() -> Clock:
    return Clock(START_US)


@pytest.fixture
def buckets(redis_server: RedisServer, clock: Clock) -> ScriptedBuckets:
    return ScriptedBuckets(redis_server.connect(), clock)


@given(rules=RULES, steps=STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_script_does_exactly_what_buckets_of_tokens_do(
    redis_server: RedisServer, rules: Sequence[Rule], steps: Sequence[tuple[int, str, str]]
) -> None:
    clock = Clock(START_US)
    with redis_server.connect() as redis:
        redis.flushall()
        buckets, model, plan = ScriptedBuckets(redis, clock), TokenBuckets(clock), LimitPlan(tuple(rules))
        for pause_us, caller, tool in steps:
            clock.now_us += pause_us
            asked = parts(caller, tool=tool)
            expected = model.take(plan, asked)
            (outcome,) = buckets.take((plan, asked))
            assert (outcome.refused is None) == expected
            assert list(outcome.debts) == [model.debt(rule, asked) for rule in rules]


@given(rules=RULES, steps=STEPS, later_us=st.sampled_from([0, 3, 5_000_000, 86_400_000_000]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_given_back_was_never_taken(
    redis_server: RedisServer, rules: Sequence[Rule], steps: Sequence[tuple[int, str, str]], later_us: int
) -> None:
    """Also if it comes later: then a bucket may have filled, or another day have begun."""
    clock = Clock(START_US)
    with redis_server.connect() as redis:
        redis.flushall()
        buckets, model, plan = ScriptedBuckets(redis, clock), TokenBuckets(clock), LimitPlan(tuple(rules))
        for pause_us, caller, tool in steps[:10]:
            clock.now_us += pause_us
            asked = parts(caller, tool=tool)
            model.take(plan, asked)
            buckets.take((plan, asked))
        if buckets.take((plan, parts()))[0].refused is None:
            (reply,) = buckets.last
            clock.now_us += later_us
            buckets.give_back(plan, parts(), reply)
        look = LimitPlan((*rules, rule("none left", burst=1)))
        buckets.take((LimitPlan(look.rules[-1:]), parts()))  # so that looking takes nothing
        (outcome,) = buckets.take((look, parts()))
        assert list(outcome.debts[:-1]) == [model.debt(rule, parts()) for rule in rules]


def test_redis_keeps_a_bucket_until_it_is_full_and_no_longer(redis_server: RedisServer, clock: Clock) -> None:
    with redis_server.connect() as redis:
        buckets = ScriptedBuckets(redis, clock, dropped=IN_TIME)
        plan = LimitPlan((rule(count=3, per_s=60, burst=10),))
        for taken in (1, 2):
            buckets.take((plan, parts()))
            (key,) = redis.keys("per-caller:*")
            assert 20_000 * taken - 5_000 < redis.pttl(key) <= 20_000 * taken + 1


def test_a_clock_that_goes_backwards_costs_no_more_than_a_bucket(buckets: ScriptedBuckets, clock: Clock) -> None:
    plan = LimitPlan((rule(count=1, burst=3),))
    taken_before = sum(buckets.take((plan, parts()))[0].refused is None for _ in range(2))
    clock.now_us -= 3_600_000_000
    assert taken_before == 2
    first = buckets.take((plan, parts()))[0]
    assert (first.refused is not None, first.retry_after_s) == (True, 1)  # not an hour
    clock.now_us += 1_000_000
    assert [buckets.take((plan, parts()))[0].refused is None for _ in range(2)] == [True, False]


def test_a_clock_that_trembles_lets_no_more_through(buckets: ScriptedBuckets, clock: Clock) -> None:
    plan = LimitPlan((rule(count=10, burst=5),))
    passed = 0
    for step in range(1000):
        clock.now_us += 3_000 if step % 2 else -1_000
        passed += buckets.take((plan, parts()))[0].refused is None
    elapsed_us = clock.now_us - START_US
    assert passed <= 5 + elapsed_us * 10 // 1_000_000
    assert passed >= elapsed_us * 10 // 1_000_000


def test_a_limit_that_was_made_narrower_counts_at_once(buckets: ScriptedBuckets, clock: Clock) -> None:
    for _ in range(50):
        buckets.take((LimitPlan((rule(count=3, per_s=86400, burst=50),)), parts()))
    narrower = LimitPlan((rule(count=2, burst=4),))
    refused = buckets.take((narrower, parts()))[0]
    assert (refused.refused is not None, refused.retry_after_s) == (True, 1)
    clock.now_us += 500_000
    assert buckets.take((narrower, parts()))[0].refused is None


Taking = Callable[[LimitPlan], LimitOutcome]


@pytest.fixture(params=["memory", "redis"])
def take(request: pytest.FixtureRequest, buckets: ScriptedBuckets, clock: Clock) -> Taking:
    """Takes for one caller by the clock of the test."""
    if request.param == "memory":
        here = MemoryBuckets(clock, calendar=clock)
        return lambda plan: here.take(plan, parts())
    return lambda plan: buckets.take((plan, parts()))[0]


def test_each_month_has_its_length(take: Taking, clock: Clock) -> None:
    plan = LimitPlan((calendar_rule("month", 1),))
    for year, month in itertools.product((2028, 2029, 2099, 2100, 2101, 2400), range(1, 13, 2)):
        ends = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        clock.now_us = int(ends.timestamp()) * 1_000_000 - 1_500_000
        assert take(plan).refused is None
        clock.now_us += 500_000
        assert take(plan).retry_after_s == 1
        clock.now_us += 1_000_000
        assert take(plan).refused is None
        length_s = int((ends + timedelta(days=31)).replace(day=1).timestamp()) - int(ends.timestamp())
        assert take(plan).retry_after_s == length_s


def test_a_clock_that_trembles_at_midnight_begins_a_day_once(take: Taking, clock: Clock) -> None:
    plan = LimitPlan((calendar_rule("day", 3),))
    clock.now_us = 1_800_057_600_000_000
    midnight = clock.now_us - clock.now_us % 86_400_000_000
    passed = 0
    for step in range(200):
        clock.now_us = midnight + (-1_000_000 if step % 2 else 1_000_000)
        passed += take(plan).refused is None
    assert passed == 3
    clock.now_us = midnight - 7_200_000_000  # what was counted by a clock that went wrong is held against nobody
    assert take(plan).refused is None


def test_a_quota_that_was_made_smaller_counts_at_once(buckets: ScriptedBuckets) -> None:
    for _ in range(5):
        buckets.take((LimitPlan((calendar_rule("day", 10),)), parts()))
    refused = buckets.take((LimitPlan((calendar_rule("day", 2),)), parts()))[0]
    assert dict(headers(refused))[b"ratelimit"] == b'"quota";r=0;t=%d' % refused.retry_after_s
    assert 0 < refused.retry_after_s <= 86400


def test_a_quota_outlasts_a_change_of_the_operators_keys(redis_server: RedisServer) -> None:
    plan = LimitPlan((calendar_rule("month", 6),))

    async def taken(keys: list[str], times: int) -> int:
        async with replica(redis_server.url, keys) as shared:
            return sum([(await shared.take(plan, parts())).refused is None for _ in range(times)])

    old, new = ("an old key of at least thirty-two characters", "a new key of at least thirty-two characters")
    steps = [([old], 1), ([old, new], 1), ([new, old], 1), ([old, new], 1), ([new, old], 1), ([new], 9)]
    assert [asyncio.run(taken(keys, times)) for keys, times in steps] == [1, 1, 1, 1, 1, 1]


def test_a_malformed_bucket_counts_as_full(buckets: ScriptedBuckets, redis_server: RedisServer) -> None:
    limit = rule()
    with redis_server.connect() as redis:
        redis.set(f"{limit.name}:{limit.identity(parts())}", "nonsense")
    assert buckets.take((LimitPlan((limit,)), parts()))[0].refused is None


@pytest.mark.anyio
async def test_redis_learns_no_caller_no_address_and_no_tool(redis_server: RedisServer) -> None:
    limits = (rule(), rule("all", parts=("caller", "ip", "tool", "route")))
    asked = parts("jwt:https://issuer.example:canary-subject", "203.0.113.77", "Canary.Tool", "canary/Canary.*")
    with redis_server.connect() as redis:
        redis.flushall()
        async with replica(redis_server.url) as shared:
            await shared.take(LimitPlan(limits), asked)
        keys = sorted(key.decode() for key in redis.keys("*"))
        everything = " ".join([*keys, *(redis.get(key).decode() for key in keys)])
    assert [key.rpartition(":")[0] for key in keys] == ["toolgate:{limits}:all", "toolgate:{limits}:per-caller"]
    assert not [word for word in ("canary", "Canary", "issuer", "203.0") if word in everything]
