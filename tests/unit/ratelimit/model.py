"""Rate limits as one would explain them: a bucket of tokens, with fractions that are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gateway.ratelimit import Rule
from gateway.ratelimit.outcome import LimitOutcome
from gateway.ratelimit.rules import CALENDAR_STEP_S, LimitPlan, Parts, Window, bounds


class Clock:
    """Nanoseconds that stand still until they are moved, by microseconds."""

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us * 1000


class TokenBuckets:
    """Each bucket begins full, fills by `count` tokens in `per_s` seconds, and gives one token for each request.

    One with a window fills at the end of that.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, object], tuple[Fraction, int]] = {}

    def level(self, rule: Rule, parts: Parts) -> Fraction:
        tokens, since = self._buckets.get((rule.name, rule.identity(parts)), (Fraction(rule.burst), 0))
        if rule.window is not None:
            return tokens if since // 10**9 >= self._window(rule)[0] else Fraction(rule.burst)
        return min(Fraction(rule.burst), tokens + Fraction((self._clock() - since) * rule.count, rule.per_s * 10**9))

    def take(self, plan: LimitPlan, parts: Parts) -> bool:
        levels = [self.level(rule, parts) for rule in plan.rules]
        if min(levels) < 1:
            return False
        for rule, level in zip(plan.rules, levels, strict=True):
            self._buckets[rule.name, rule.identity(parts)] = level - 1, self._clock()
        return True

    def debt(self, rule: Rule, parts: Parts) -> Fraction:
        """What `LimitOutcome.debts` has for this bucket."""
        used = rule.burst - self.level(rule, parts)
        if rule.window is None:
            return used * rule.step
        return (used - 1) * rule.step + self._window(rule)[1] * 10**9 - self._clock() if used else Fraction(0)

    def _window(self, rule: Rule) -> tuple[int, int]:
        assert rule.window is not None
        return bounds(rule.window, self._clock() // 10**9 // 86400)


def remaining(outcome: LimitOutcome) -> list[int]:
    """How many more requests each rule of the plan would let through now."""
    rules = zip(outcome.plan.rules, outcome.debts, strict=True)
    return [(rule.depth - debt) // rule.step for rule, debt in rules]


def rule(name: str = "per-caller", **changed: Any) -> Rule:
    """Two a second, three at once, for each caller, unless given otherwise."""
    return Rule(**{"name": name, "parts": ("caller",), "count": 2, "per_s": 1, "burst": 3, **changed})


def calendar_rule(window: Window, burst: int, name: str = "quota", **changed: Any) -> Rule:
    """So many for each caller in each day or month."""
    return rule(name, **{"count": 1, "per_s": CALENDAR_STEP_S, "burst": burst, "window": window, **changed})


def parts(caller: str = "key:a", ip: str = "10.0.0.1", tool: str = "Search.Web", route: str = "search/*") -> Parts:
    return caller, ip, tool, route
