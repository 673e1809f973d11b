"""The two phases: by address before authentication, and by caller and tool after it."""

from __future__ import annotations

import pytest

from gateway.errors import ErrorCode, GatewayError
from gateway.ports import Target
from gateway.ratelimit import Limits, MemoryBuckets, RateLimited, Rule
from gateway.ratelimit.limits import FAILED_VERIFICATIONS, LOOKS_AT_ONE, LOOKS_OF_ADDRESS
from gateway.ratelimit.outcome import Outcome
from gateway.ratelimit.rules import Parts, Plan
from gateway.state.port import StateUnavailable
from tests.unit.ratelimit.model import Clock, rule

pytestmark = pytest.mark.anyio

IP = "10.0.0.1"
WEB = Target("Search.Web", "1.2.0", "search", "search/*")


class Away:
    """Buckets that cannot be reached."""

    asked = 0

    async def take(self, plan: Plan, parts: Parts) -> Outcome:
        self.asked += 1
        raise StateUnavailable("away")

    async def aclose(self) -> None:
        pass


def limits(*rules: Rule, clock: Clock | None = None) -> Limits:
    return Limits(rules, MemoryBuckets(clock or Clock()))


async def test_limits_on_addresses_alone_are_of_the_first_phase_and_all_others_of_the_second() -> None:
    rules = [
        rule("address", parts=("ip",), burst=1),
        rule("caller", burst=2),
        rule("address-and-tool", parts=("ip",), tools=("*",), burst=5),
    ]
    gate = limits(*rules)
    first, second = gate.admit("call", IP), await gate.spend("call", "key:a", IP, WEB)
    assert dict(first)[b"ratelimit"] == b'"address";r=0;t=1'
    assert dict(second)[b"ratelimit"] == b'"caller";r=1;t=1, "address-and-tool";r=4;t=1'
    with pytest.raises(RateLimited) as caught:
        gate.admit("call", IP)
    assert caught.value.reason == "address"
    assert dict(gate.admit("call", "10.0.0.2"))[b"ratelimit"] == b'"address";r=0;t=1'
    await gate.spend("call", "key:a", IP, WEB)
    with pytest.raises(RateLimited) as caught:
        await gate.spend("call", "key:a", IP, WEB)
    assert caught.value.reason == "caller"


async def test_without_limits_everything_passes_and_nothing_is_said() -> None:
    gate = limits()
    assert (gate.admit("call", IP), await gate.spend("call", "key:a", IP, WEB)) == ((), ())


async def test_polls_do_not_use_up_what_calls_may() -> None:
    gate = limits(rule("calls", burst=1), rule("polls", burst=2, operations=frozenset({"poll"})))
    for _ in range(2):
        await gate.spend("poll", "key:a", IP, None)
    await gate.spend("call", "key:a", IP, None)
    for operation, refused_by in (("poll", "polls"), ("list", "calls")):
        with pytest.raises(RateLimited) as caught:
            await gate.spend(operation, "key:a", IP, None)  # type: ignore[arg-type]
        assert caught.value.reason == refused_by


async def test_an_address_that_fails_to_prove_itself_too_often_is_not_even_asked() -> None:
    clock = Clock()
    gate = limits(clock=clock)
    for _ in range(FAILED_VERIFICATIONS.burst):
        gate.admit("list", IP)
        gate.verification_failed(IP)
    with pytest.raises(RateLimited) as caught:
        gate.admit("call", IP)
    assert (caught.value.reason, caught.value.retry_after_s) == ("failed-verifications", 1)
    gate.verification_failed(IP)  # of a request that was under way
    assert gate.admit("call", "10.0.0.2") == ()
    clock.now_us += 100_000
    assert gate.admit("call", IP) == ()


async def test_the_limit_on_failures_can_be_replaced_and_counts_nothing_else() -> None:
    own = rule("own", parts=("ip",), count=1, per_s=60, burst=1, operations=frozenset({"failed_verification"}))
    gate = limits(own)
    for _ in range(5):
        gate.admit("call", IP)
        await gate.spend("call", "key:a", IP, None)
    gate.verification_failed(IP)
    with pytest.raises(RateLimited) as caught:
        gate.admit("call", IP)
    assert (caught.value.reason, caught.value.retry_after_s) == ("own", 60)


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


async def test_looks_count_as_polls_of_their_address_too_and_use_up_no_calls() -> None:
    gate = limits(rule("polls", parts=("ip",), burst=2, operations=frozenset({"poll"})), rule("calls", parts=("ip",)))
    for challenge in ("one", None):
        names = [header for header, _ in gate.admit_look(IP, challenge)]
        assert names == [b"ratelimit-policy", b"ratelimit"]
    with pytest.raises(RateLimited) as caught:
        gate.admit_look(IP, "two")
    assert caught.value.reason == "polls"
    gate.admit("call", IP)


async def test_the_first_phase_never_asks_what_is_shared() -> None:
    away = Away()
    gate = Limits([rule("address", parts=("ip",), burst=1)], MemoryBuckets(Clock()), away)
    gate.admit("call", IP)
    gate.verification_failed(IP)
    await gate.spend("call", "key:a", IP, None)  # no rule of the second phase: nothing to ask
    assert away.asked == 0


async def test_limits_that_cannot_be_checked_are_counted_here_by_default() -> None:
    gate = Limits([rule(burst=2)], MemoryBuckets(Clock()), Away())
    assert dict(await gate.spend("call", "key:a", IP, None))[b"ratelimit"] == b'"per-caller";r=1;t=1'
    await gate.spend("call", "key:a", IP, None)
    with pytest.raises(RateLimited):
        await gate.spend("call", "key:a", IP, None)
    await gate.spend("call", "key:b", IP, None)


async def test_limits_that_cannot_be_checked_let_everything_pass_with_allow() -> None:
    gate = Limits([rule(burst=1)], MemoryBuckets(Clock()), Away(), on_failure="allow")
    assert [await gate.spend("call", "key:a", IP, None) for _ in range(3)] == [()] * 3


async def test_on_failure_can_be_changed_while_limits_are_in_use() -> None:
    gate = Limits([rule(burst=1)], MemoryBuckets(Clock()), Away(), on_failure="refuse").under([rule(burst=1)], "allow")
    assert await gate.spend("call", "key:a", IP, None) == ()


async def test_limits_that_cannot_be_checked_answer_unavailable_with_refuse() -> None:
    gate = Limits([rule()], MemoryBuckets(Clock()), Away(), on_failure="refuse")
    with pytest.raises(GatewayError) as caught:
        await gate.spend("call", "key:a", IP, None)
    assert (caught.value.code, caught.value.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 1.0)


async def test_limits_can_be_closed_whether_started_or_not() -> None:
    await limits().aclose()
    gate = limits()
    await gate.start()
    await gate.aclose()
