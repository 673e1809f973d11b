"""The limits of one gateway, applied twice to a request: by its address alone, and once caller and tool are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, Protocol

from gateway.core.errors import ErrorCode, GatewayError, StateUnavailable
from gateway.core.ports import Target
from gateway.core.wire import Headers
from gateway.net.networks import network
from gateway.ratelimit.memory import MemoryBuckets
from gateway.ratelimit.outcome import LimitOutcome, RateLimited, headers
from gateway.ratelimit.rules import LimitPlan, LimitPlans, Operation, Part, Parts, Rule

SWEEP_S = 10.0  # full buckets are kept no longer; a sweep of a rule with 131,072 takes 5 ms, in steps of 0.1 ms
RETRY_S = 1.0  # while Redis is away: as often as it is looked for
OnFailure = Literal["local", "refuse", "allow"]


def _built_in(name: str, part: Part, operation: Operation, *, count: int, burst: int) -> Rule:
    return Rule(name=name, parts=(part,), count=count, per_s=1, burst=burst, operations=frozenset({operation}))


# What it costs to verify, 0.1 ms at most, stays under a thousandth of a processor. A few attempts of a caller whose
# token has just expired do not shut out others who share its address, or the proxy in front of all of them.
FAILED_VERIFICATIONS = _built_in("failed-verifications", "ip", "failed_verification", count=10, burst=100)
# Looks at challenges need no credential: these are always there. The first counts each challenge, as a `caller`: a
# program and a page look once a second, each of them twice.
LOOKS_AT_ONE = _built_in("challenge-looks", "caller", "poll", count=5, burst=20)
# A hundred users behind one address, for each of whom a page looks every other second.
LOOKS_OF_ADDRESS = _built_in("challenge-looks-address", "ip", "poll", count=50, burst=200)

# Steps of logins to the console, of which a login has two: for a team behind one address that comes to work.
LOGINS_OF_ADDRESS = _built_in("console-logins", "ip", "poll", count=2, burst=60)


class SharedBuckets(Protocol):
    """Where the buckets of the second phase are when not in this process."""

    async def take(self, plan: LimitPlan, parts: Parts) -> LimitOutcome:
        """Takes one from every bucket, or none from any. Raises StateUnavailable."""

    async def aclose(self) -> None: ...


class RateLimits:
    """The `ports.Limiter`: counts requests in two phases.

    The first phase has the rules that need nothing but an address, and the one on failed verifications, which is
    built in unless a rule is for that operation. Redis is never asked for them: a flood must not reach it.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        here: MemoryBuckets,  # keeps the first phase and, without `shared`, the second
        shared: SharedBuckets | None = None,
        *,
        # While `shared` is unavailable: `local` counts the second phase `here`, `refuse` refuses every request that it
        # would count, and `allow` lets them pass uncounted.
        on_failure: OnFailure = "local",
        # Takes the name of each rule that a request has met, and the share of its bucket that is used now.
        measure: Callable[[str, float], None] = lambda rule, share: None,
    ) -> None:
        failures = [rule for rule in rules if "failed_verification" in rule.operations] or [FAILED_VERIFICATIONS]
        counting = [rule for rule in rules if rule.operations != {"failed_verification"}]
        early = [rule for rule in counting if rule.parts == ("ip",) and not rule.needs_target]
        self._rules = tuple(rules)
        self._failures = [(rule, LimitPlan((rule,))) for rule in failures]
        self._early = LimitPlans(early)
        polls = self._early.of("poll").rules
        self._look = LimitPlan((*polls, LOOKS_OF_ADDRESS, LOOKS_AT_ONE))
        self._login = LimitPlan((LOGINS_OF_ADDRESS,))
        self._vain_look = LimitPlan((*polls, LOOKS_OF_ADDRESS))
        self._late = LimitPlans([rule for rule in counting if rule not in early])
        self._here = here
        self._shared = shared
        self._on_failure = on_failure
        self._measure = measure
        self._sweeping: asyncio.Task[None] | None = None

    def under(self, rules: Sequence[Rule], on_failure: OnFailure) -> RateLimits:
        """Other rules over the same buckets, which these limits continue to sweep and will close.

        A rule that is the same as one of these continues with its buckets.
        """
        continued = [next((own for own in self._rules if own.is_like(rule)), rule) for rule in rules]
        return RateLimits(continued, self._here, self._shared, on_failure=on_failure, measure=self._measure)

    def admit(self, operation: Operation, ip: str) -> Headers:
        """The first phase, before authentication. Raises RateLimited."""
        here = self._here
        for rule, plan in self._failures:
            if rule in here.shards:  # else no verification has failed lately, as nearly always
                debt = here.exhausted(rule, ("", network(ip), "", ""))
                if debt is not None:
                    raise RateLimited(LimitOutcome(plan, (debt,), rule))
        if not self._early.rules:
            return ()
        return self._pass(here.take(self._early.of(operation), ("", network(ip), "", "")))

    def admit_as(self, operation: Operation, ip: str, earlier: Operation) -> Headers:
        """Counts by its address a request that only its body shows to be this operation. Raises RateLimited.

        It has been `counted` as another before, by the rules on that.
        """
        before, rules = self._early.of(earlier).rules, self._early.of(operation).rules
        plan = LimitPlan(tuple(rule for rule in rules if rule not in before))
        return self._pass(self._here.take(plan, ("", network(ip), "", ""))) if plan.rules else ()

    def admit_look(self, ip: str, challenge: str | None) -> Headers:
        """Counts a look at a challenge, None for a token without one. Raises RateLimited.

        Besides the built-in limits, those on polls of an address count it.
        """
        if challenge is None:
            return self._pass(self._here.take(self._vain_look, ("", network(ip), "", "")))
        return self._pass(self._here.take(self._look, (challenge, network(ip), "", "")))

    def admit_login(self, ip: str) -> None:
        """Counts a step of a login to the console. Raises RateLimited."""
        self._pass(self._here.take(self._login, ("", network(ip), "", "")))

    def verification_failed(self, ip: str) -> None:
        """Counts a credential that was not accepted."""
        for _, plan in self._failures:
            self._here.take(plan, ("", network(ip), "", ""))

    async def spend(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Headers:
        """The second phase. Raises RateLimited, or BACKEND_UNAVAILABLE if it is to refuse what it cannot count."""
        if not self._late.rules:
            return ()
        plan = self._late.of(operation, target)
        if not plan.rules:
            return ()
        tool, route = ("", "") if target is None else (target.tool, target.route)
        parts = (caller, network(ip), tool, route)
        if self._shared is None:
            return self._pass(self._here.take(plan, parts))
        try:
            return self._pass(await self._shared.take(plan, parts))
        except StateUnavailable as exc:
            if self._on_failure == "allow":
                return ()
            if self._on_failure == "refuse":
                message = "Rate limits cannot be checked at the moment."
                raise GatewayError(ErrorCode.BACKEND_UNAVAILABLE, message, retry_after_s=RETRY_S) from exc
            return self._pass(self._here.take(plan, parts))

    def _pass(self, outcome: LimitOutcome) -> Headers:
        """The headers about limits that a request has passed. Raises RateLimited if one has refused it."""
        measure = self._measure
        for rule, debt in zip(outcome.plan.rules, outcome.debts, strict=True):
            measure(rule.name, -(-debt // rule.step) / rule.burst)
        if outcome.refused is not None:
            raise RateLimited(outcome)
        return headers(outcome)

    async def start(self) -> None:
        """Begins to forget, in the background, what need not be remembered."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def aclose(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        if self._shared is not None:
            await self._shared.aclose()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for _ in self._here.sweep():
                await asyncio.sleep(0)
