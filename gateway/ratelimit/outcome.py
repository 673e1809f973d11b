"""Turns the outcome of limits into headers and refusals (draft-ietf-httpapi-ratelimit-headers-10)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from gateway.core.errors import ErrorCode, FixedError
from gateway.core.wire import Headers
from gateway.ratelimit.rules import LimitPlan, Rule

RATELIMIT = b"ratelimit"
MESSAGE = "Too many requests; try again later."


class LimitOutcome(Struct, frozen=True, gc=False):
    """Whether a request has passed."""

    plan: LimitPlan
    debts: tuple[int, ...]  # for each rule of the plan the ticks that its bucket lacks to be full
    refused: Rule | None = None  # the rule that has to be waited for longest; then no bucket was taken from

    @property
    def retry_after_s(self) -> int:
        """After how many seconds the request would pass every rule; 0 if it has."""
        return 0 if self.refused is None else max(_reset_s(rule, debt) for rule, debt in self.refusals())

    def refusals(self) -> Sequence[tuple[Rule, int]]:
        """The rules that one more request is too many for, with their debts."""
        pairs = zip(self.plan.rules, self.debts, strict=True)
        return [(rule, debt) for rule, debt in pairs if debt + rule.step > rule.depth]


def refusing(plan: LimitPlan, debts: tuple[int, ...]) -> Rule:
    """Of the rules that one more request is too many for, the one that has to be waited for longest."""
    refusals = LimitOutcome(plan, debts).refusals()
    return max(refusals, key=lambda refusal: (refusal[1] + refusal[0].step - refusal[0].depth) / refusal[0].count)[0]


def headers(outcome: LimitOutcome) -> Headers:
    """The headers about the limits a request met; lower-case names. Those of two phases may stand together."""
    rules = outcome.plan.rules
    if len(rules) == 1:
        return outcome.plan.policy, (RATELIMIT, _item(rules[0], outcome.debts[0]))
    if not rules:
        return ()
    if outcome.refused is None:
        return outcome.plan.policy, (RATELIMIT, b", ".join(map(_item, rules, outcome.debts)))
    # Those that refuse, for the reset of none may be later than Retry-After (section 6).
    return outcome.plan.policy, (RATELIMIT, b", ".join([_item(*refusal) for refusal in outcome.refusals()]))


def _item(rule: Rule, debt: int) -> bytes:
    if not debt:
        return b'"%s";r=%d' % (rule.label, rule.burst)
    step = rule.step
    if rule.is_brisk:  # as are most: it saves a tenth of a microsecond for every call
        return rule.item % ((rule.depth - debt) // step)
    return rule.item % ((rule.depth - debt) // step, _reset_s(rule, debt))


@lru_cache(maxsize=256)  # the seconds of a flood are few
def _spent(plan: LimitPlan, reset_s: int) -> Headers:
    """`headers` for the only rule of a plan when nothing remains of it."""
    return plan.policy, (RATELIMIT, b'"%s";r=0;t=%d' % (plan.rules[0].label, reset_s))


def _reset_s(rule: Rule, debt: int) -> int:
    """Seconds, rounded up, until there is one more request to be had; 0 for a full bucket."""
    wait = debt % rule.step or (rule.step if debt else 0)
    return -(-wait // rule.ticks_per_s)


class RateLimited(FixedError):  # noqa: N818 - what happened to a caller, not an error of ours
    """A refusal; the `reason` is the name of the limit. The seconds are whole, as the headers have them."""

    code = ErrorCode.RATE_LIMITED
    message = MESSAGE

    def __init__(self, outcome: LimitOutcome) -> None:
        rule, plan = outcome.refused, outcome.plan
        assert rule is not None
        self.reason = rule.name
        if len(plan.rules) > 1:
            self.retry_after_s, self.headers = outcome.retry_after_s, headers(outcome)
        else:  # nearly always, and many a second in a flood: nothing remains, and both headers name one time
            self.retry_after_s = reset_s = -(-(outcome.debts[0] + rule.step - rule.depth) // rule.ticks_per_s)
            self.headers = _spent(plan, reset_s)
