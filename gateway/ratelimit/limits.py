"""The limits of one gateway, asked twice in the life of a request: before anybody is known, and once all is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from gateway.errors import ErrorCode, GatewayError
from gateway.ports import Target
from gateway.ratelimit.memory import MemoryBuckets
from gateway.ratelimit.outcome import Outcome, RateLimited
from gateway.ratelimit.rules import Operation, Parts, Plan, Plans, Rule, network
from gateway.state.port import StateUnavailable

SWEEP_S = 10.0  # full buckets are kept no longer; a sweep of a rule with 131,072 takes 5 ms, in steps of 0.1 ms
RETRY_S = 1.0  # while Redis is away: as often as it is looked for
FAILED_VERIFICATIONS = Rule(
    name="failed-verifications",
    parts=("ip",),
    # What it costs to verify, 0.1 ms at most, stays under a thousandth of a processor; a caller whose token has just
    # run out does not shut out those who share its address, or the proxy in front of all of them, by a few attempts.
    count=10,
    per_s=1,
    burst=100,
    operations=frozenset({"failed_verification"}),
)
UNLIMITED = Outcome(Plan(()), ())


class SharedBuckets(Protocol):
    """Where the limits of the second phase are kept when not in this process."""

    async def take(self, plan: Plan, parts: Parts) -> Outcome:
        """Raises StateUnavailable."""
        ...

    async def aclose(self) -> None: ...


class Limits:
    """Counts requests. `here` keeps the first phase and, without `shared`, the second.

    The first phase has the rules that need nothing but an address, and the one on failed verifications, which is
    built in unless a rule is for that operation. They are never asked of Redis: a flood must not reach it.
    """

    def __init__(self, rules: Sequence[Rule], here: MemoryBuckets, shared: SharedBuckets | None = None) -> None:
        failures = [rule for rule in rules if "failed_verification" in rule.operations] or [FAILED_VERIFICATIONS]
        counting = [rule for rule in rules if rule.operations != {"failed_verification"}]
        early = [rule for rule in counting if rule.parts == ("ip",) and not rule.needs_target]
        self._rules = tuple(rules)
        self._failures = [(rule, Plan((rule,))) for rule in failures]
        self._early = Plans(early)
        self._late = Plans([rule for rule in counting if rule not in early])
        self._here = here
        self._shared = shared
        self._sweeping: asyncio.Task[None] | None = None

    def under(self, rules: Sequence[Rule]) -> Limits:
        """Other rules over the same buckets, which stay these limits' own to sweep and to close.

        A rule that says the same as one of these goes on where that one was.
        """
        kept = [next((known for known in self._rules if known.is_like(rule)), rule) for rule in rules]
        return Limits(kept, self._here, self._shared)

    def admit(self, operation: Operation, ip: str) -> Outcome:
        """The first phase, before the caller is asked who it is. Raises RateLimited."""
        here = self._here
        for rule, plan in self._failures:
            if rule in here.shards:  # else nobody has failed lately, as nearly always
                debt = here.exhausted(rule, ("", network(ip), "", ""))
                if debt is not None:
                    raise RateLimited(Outcome(plan, (debt,), rule))
        if not self._early.rules:
            return UNLIMITED
        plan = self._early.of(operation)
        if not plan.rules:
            return UNLIMITED
        outcome = here.take(plan, ("", network(ip), "", ""))
        if outcome.refused is not None:
            raise RateLimited(outcome)
        return outcome

    @property
    def spends(self) -> bool:
        """Whether there is a second phase."""
        return bool(self._late.rules)

    @property
    def is_here(self) -> bool:
        """Whether the second phase, too, is in this process, so that nobody has to be asked and waited for."""
        return self._shared is None

    def verification_failed(self, ip: str) -> None:
        """Counts a credential that was not accepted."""
        for _, plan in self._failures:
            self._here.take(plan, ("", network(ip), "", ""))

    def spend_here(self, operation: Operation, caller: str, ip: str, target: Target | None = None) -> Outcome:
        """The second phase where it is `here`; as `spend`, without a wait."""
        plan = self._late.known.get((operation, target)) or self._late.of(operation, target)
        if not plan.rules:
            return UNLIMITED
        outcome = self._here.take(plan, _parts(caller, ip, target))
        if outcome.refused is not None:
            raise RateLimited(outcome)
        return outcome

    async def spend(self, operation: Operation, caller: str, ip: str, target: Target | None = None) -> Outcome:
        """The second phase. `target` is what a call is for, None if that could not be made out.

        Raises RateLimited, or BACKEND_UNAVAILABLE if nobody can say.
        """
        if self._shared is None:
            return self.spend_here(operation, caller, ip, target)
        plan = self._late.of(operation, target)
        if not plan.rules:
            return UNLIMITED
        try:
            outcome = await self._shared.take(plan, _parts(caller, ip, target))
        except StateUnavailable as exc:
            message = "Rate limits cannot be checked at the moment."
            raise GatewayError(ErrorCode.BACKEND_UNAVAILABLE, message, retry_after_s=RETRY_S) from exc
        if outcome.refused is not None:
            raise RateLimited(outcome)
        return outcome

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


def _parts(caller: str, ip: str, target: Target | None) -> Parts:
    return (caller, network(ip), "", "") if target is None else (caller, network(ip), target.tool, target.route)
