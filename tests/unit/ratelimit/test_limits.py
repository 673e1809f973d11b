"""The two phases: by address before authentication, and by caller and tool after it."""

from __future__ import annotations

import pytest

from gateway.core.errors import ErrorCode, GatewayError, StateUnavailable
from gateway.core.ports import Target
from gateway.ratelimit import MemoryBuckets, RateLimited, RateLimits, Rule
from gateway.ratelimit.limits import LOOKS_AT_ONE, LOOKS_OF_ADDRESS
from gateway.ratelimit.outcome import LimitOutcome
from gateway.ratelimit.rules import LimitPlan, Parts
from tests.unit.ratelimit.model import Clock, rule

pytestmark = pytest.mark.anyio

IP = "10.0.0.1"
WEB = Target("Search.Web", "1.2.0", "search", "search/*")


class Away:
    """Buckets that cannot be reached."""

    asked = 0

    async def take(self, plan: LimitPlan, parts: Parts) -> LimitOutcome:
        self.asked += 1
        raise StateUnavailable("away")

    async def aclose(self) -> None:
        pass


def limits(*rules: Rule, clock: Clock | None = None) -> RateLimits:
    return RateLimits(rules, MemoryBuckets(clock or Clock()))


async def test_looks_at_a_challenge_are_counted_by_challenge_and_by_address() -> None:
    clock = Clock()
    gate = limits(clock=clock)
    for _ in range(LOOKS_AT_ONE.burst):
        gate.admit_look(IP, "one")
    for ip in (IP, "10.0.0.2"):
        with pytest.raises(RateLimited) as caught:
            gate.admit_look(ip, "one")
        assert (caught.value.reason, caught.value.retry_after_s) == ("challenge-looks", 1)
    for number in range(LOOKS_AT_ONE.burst, LOOKS_OF_ADDRESS.burst):
        gate.admit_look(IP, f"challenge {number}")
    for challenge in ("another", None):
        with pytest.raises(RateLimited) as caught:
            gate.admit_look(IP, challenge)
        assert (caught.value.reason, caught.value.retry_after_s) == ("challenge-looks-address", 1)
    gate.admit_look("10.0.0.2", "another")
    clock.now_us += 1_000_000
    gate.admit_look(IP, "one")


async def test_the_first_phase_never_asks_redis() -> None:
    away = Away()
    gate = RateLimits([rule("address", parts=("ip",), burst=1)], MemoryBuckets(Clock()), away)
    gate.admit("call", IP)
    gate.verification_failed(IP)
    await gate.spend("call", "key:a", IP, None)  # no rule of the second phase: nothing to ask
    assert away.asked == 0


async def test_limits_that_cannot_be_checked_let_everything_pass_with_allow() -> None:
    gate = RateLimits([rule(burst=1)], MemoryBuckets(Clock()), Away(), on_failure="allow")
    assert [await gate.spend("call", "key:a", IP, None) for _ in range(3)] == [()] * 3


async def test_on_failure_can_be_changed_while_limits_are_in_use() -> None:
    gate = RateLimits([rule(burst=1)], MemoryBuckets(Clock()), Away(), on_failure="refuse").under(
        [rule(burst=1)], "allow"
    )
    assert await gate.spend("call", "key:a", IP, None) == ()


async def test_limits_that_cannot_be_checked_answer_unavailable_with_refuse() -> None:
    gate = RateLimits([rule()], MemoryBuckets(Clock()), Away(), on_failure="refuse")
    with pytest.raises(GatewayError) as caught:
        await gate.spend("call", "key:a", IP, None)
    assert (caught.value.code, caught.value.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 1.0)


async def test_each_limit_that_is_met_is_measured() -> None:
    clock, seen = Clock(), []
    rules = [rule("few", burst=2), rule("many", burst=10)]
    gate = RateLimits(rules, MemoryBuckets(clock), measure=lambda name, share: seen.append((name, share)))
    for _ in range(2):
        await gate.spend("call", "ada", IP, None)
    with pytest.raises(RateLimited):
        await gate.spend("call", "ada", IP, None)
    assert seen == [("few", 0.5), ("many", 0.1), ("few", 1.0), ("many", 0.2), ("few", 1.0), ("many", 0.2)]
    seen.clear()
    await gate.under([rule("few", burst=2)], "local").spend("call", "bob", IP, None)
    assert seen == [("few", 0.5)]
