"""Buckets in this process's own memory: of the limits of addresses, and of all limits without a Redis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from operator import itemgetter

from gateway.ratelimit.outcome import LimitOutcome, refusing
from gateway.ratelimit.rules import NS_PER_S, Identity, LimitPlan, Parts, Rule, current

SHARDS = 64  # of a rule's buckets: a dict that grows copies itself, 4 ms with 100,000 entries, 0.1 ms with 2,048
MAX_SHARD = 2048  # with 64 shards 131,072 buckets of a rule, about 25 MB; callers active within one refill are fewer
FORGOTTEN = 4  # one in so many goes when a shard is full; sorting it takes 0.3 ms and is then paid for by 512 others

Shard = dict[Identity, int]


class MemoryBuckets:
    """Takes from buckets, all or nothing.

    A bucket is kept as the tick at which it will be full again, and not at all once it is; one with a window, as the
    number of requests. When a rule has too many, those nearest to full are forgotten, which gives their owners at most
    what they would soon have had anyway. A refusal instead would shut out all new callers, which an attacker with very
    many addresses could bring about. A rule is in `shards` once it has buckets.
    """

    def __init__(
        self,
        clock: Callable[[], int],  # nanoseconds that never go backwards
        *,
        calendar: Callable[[], int] = time.time_ns,  # those since 1970, for rules with a window
        max_shard: int = MAX_SHARD,
    ) -> None:
        self._clock = clock
        self._calendar = calendar
        self._max_shard = max_shard
        self._windows: dict[Rule, tuple[int, int]] = {}  # that the shards of a rule are of
        self.shards: dict[Rule, list[Shard]] = {}

    def __len__(self) -> int:
        return sum(len(shard) for shards in self.shards.values() for shard in shards)

    def take(self, plan: LimitPlan, parts: Parts) -> LimitOutcome:
        """Takes one from every bucket, or none from any."""
        rules = plan.rules
        if plan.is_one_rate:
            return self._take_one(plan, rules[0], parts)
        now = self._clock()
        before, after, changes = [], [], []
        for rule in rules:
            identity = rule.identity(parts)
            if rule.window is None:
                shard = self._shard(rule, identity)
                begins_at = now * rule.count
                debt = max(shard.get(identity, 0) - begins_at, 0)
                after.append(debt + rule.step)
                changes.append((shard, identity, begins_at + debt + rule.step))
            else:
                left = self._left(rule)
                shard = self._shard(rule, identity)
                used = shard.get(identity, 0)
                debt = rule.debt_of(used, left)
                after.append(rule.debt_of(used + 1, left))
                changes.append((shard, identity, used + 1))
            before.append(debt)
        refused = [debt + rule.step > rule.depth for rule, debt in zip(rules, before, strict=True)]
        if True in refused:
            debts = tuple(before)
            return LimitOutcome(plan, debts, refusing(plan, debts))
        for shard, identity, value in changes:
            self._put(shard, identity, value)
        return LimitOutcome(plan, tuple(after))

    def _take_one(self, plan: LimitPlan, rule: Rule, parts: Parts) -> LimitOutcome:
        """`take` for a single rule without a window, on the path of most calls: 0.7 us instead of 1.4."""
        identity = rule.identity(parts)
        shards = self.shards.get(rule) or self._new(rule)
        shard = shards[hash(identity) % SHARDS]
        now = self._clock() * rule.count
        full_at = shard.get(identity, now)
        if full_at < now:
            full_at = now
        debt = full_at + rule.step - now
        if debt > rule.depth:
            return LimitOutcome(plan, (full_at - now,), rule)
        if identity in shard or len(shard) < self._max_shard:
            shard[identity] = now + debt
        else:
            self._put(shard, identity, now + debt)
        return LimitOutcome(plan, (debt,))

    def exhausted(self, rule: Rule, parts: Parts) -> int | None:
        """The debt of a bucket from which nothing can be taken, or None. It takes nothing."""
        identity = rule.identity(parts)
        if rule.window is None:
            debt = max(self._shard(rule, identity).get(identity, 0) - self._clock() * rule.count, 0)
        else:
            left = self._left(rule)
            debt = rule.debt_of(self._shard(rule, identity).get(identity, 0), left)
        return debt if debt + rule.step > rule.depth else None

    def _left(self, rule: Rule) -> int:
        """The ticks that are left of a rule's window; what was counted in an earlier one is forgotten."""
        assert rule.window is not None
        now, latest = self._calendar(), self._windows.get(rule)
        window = current(rule.window, now // NS_PER_S, latest)
        if window != latest:
            self.shards.pop(rule, None)
            self._windows[rule] = window
        return window[1] * NS_PER_S - now

    def _shard(self, rule: Rule, identity: Identity) -> Shard:
        return (self.shards.get(rule) or self._new(rule))[hash(identity) % SHARDS]

    def _new(self, rule: Rule) -> list[Shard]:
        shards: list[Shard] = [{} for _ in range(SHARDS)]
        self.shards[rule] = shards
        return shards

    def _put(self, shard: Shard, identity: Identity, value: int) -> None:
        if len(shard) >= self._max_shard and identity not in shard:
            in_order = sorted(shard.items(), key=itemgetter(1))
            for forgotten, _ in in_order[: max(1, len(in_order) // FORGOTTEN)]:
                del shard[forgotten]
        shard[identity] = value

    def sweep(self) -> Iterator[None]:
        """Forgets buckets that are full; between two steps of at most a shard, 0.1 ms, others may run."""
        for rule, shards in list(self.shards.items()):
            if rule.window is not None:
                self._left(rule)
                if rule not in self.shards:
                    del self._windows[rule]
                continue
            for index, shard in enumerate(shards):
                if shard:
                    now = self._clock() * rule.count
                    # A new dict, because one that only loses entries never gives memory back.
                    shards[index] = {identity: full_at for identity, full_at in shard.items() if full_at > now}
                    yield
            if not any(shards):
                del self.shards[rule]
