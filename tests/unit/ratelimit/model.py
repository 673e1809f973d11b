"""Rate limits as one would explain them: a bucket of tokens, with fractions that are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gateway.ratelimit import Rule
from gateway.ratelimit.outcome import Outcome
from gateway.ratelimit.rules import Parts, Plan


class Clock:
    """Nanoseconds that stand still until they are moved, by microseconds."""

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us * 1000


class TokenBuckets:
    """Each bucket begins full, fills by `count` tokens in `per_s` seconds, and gives one token for each request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, object], tuple[Fraction, int]] = {}

    def level(self, rule: Rule, parts: Parts) -> Fraction:
        tokens, since = self._buckets.get((rule.name, rule.identity(parts)), (Fraction(rule.burst), 0))
        return min(Fraction(rule.burst), tokens + Fraction((self._clock() - since) * rule.count, rule.per_s * 10**9))

    def take(self, plan: Plan, parts: Parts) -> bool:
        levels = [self.level(rule, parts) for rule in plan.rules]
        if min(levels) < 1:
            return False
        for rule, level in zip(plan.rules, levels, strict=True):
            self._buckets[rule.name, rule.identity(parts)] = level - 1, self._clock()
        return True

    def debt(self, rule: Rule, parts: Parts) -> Fraction:
        """What `Outcome.debts` has for this bucket."""
        return (rule.burst - self.level(rule, parts)) * rule.step


def remaining(outcome: Outcome) -> list[int]:
    """How many more requests each rule of the plan would let through now."""
    rules = zip(outcome.plan.rules, outcome.debts, strict=True)
    return [(rule.depth - debt) // rule.step for rule, debt in rules]


def rule(name: str = "per-caller", **changed: Any) -> Rule:
    """Two a second, three at once, for each caller, unless given otherwise."""
    return Rule(**{"name": name, "parts": ("caller",), "count": 2, "per_s": 1, "burst": 3, **changed})


def parts(caller: str = "key:a", ip: str = "10.0.0.1", tool: str = "Search.Web", route: str = "search/*") -> Parts:
    return caller, ip, tool, route
