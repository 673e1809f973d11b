"""Buckets in Redis, the same for every replica, which all go by the clock of that server."""

from __future__ import annotations

import logging

from redis.asyncio import Redis

from gateway.ratelimit.batch import Batcher, joined
from gateway.ratelimit.outcome import Outcome, refusing
from gateway.ratelimit.rules import Identity, Parts, Plan, Rule
from gateway.state.sealing import Digester

log = logging.getLogger("gateway.ratelimit")

MAX_NAMES = 8192  # digests remembered, 1.5 MB: one costs 4 us, and most callers come again


class RedisBuckets:
    """Takes from buckets, all or nothing.

    The client should be for nothing else: when an answer fails to come, all its idle connections are dropped.
    """

    def __init__(self, redis: Redis, digester: Digester) -> None:
        self._digester = digester
        self._redis = redis
        self._batcher = Batcher(redis, _warn)
        self._names: dict[tuple[Rule, Identity], str] = {}

    @property
    def is_up(self) -> bool:
        return self._batcher.is_up

    async def take(self, plan: Plan, parts: Parts) -> Outcome:
        """Raises StateUnavailable."""
        keys = [self._name(rule, rule.identity(parts)) for rule in plan.rules]
        answer = await self._batcher.ask(plan.rules, keys)
        pairs = zip(answer[1::2], answer[2::2], plan.rules, strict=True)
        debts = tuple(joined(lacks_us, fraction, rule) for lacks_us, fraction, rule in pairs)
        return Outcome(plan, debts) if answer[0] else Outcome(plan, debts, refusing(plan, debts))

    async def aclose(self) -> None:
        """Fails whatever is still asked, and closes the client."""
        await self._batcher.aclose()
        await self._redis.aclose()

    def _name(self, rule: Rule, identity: Identity) -> str:
        """The key of a bucket: nothing in it tells whose. In a Redis Cluster all of them lie in one slot, because one
        atomic take needs several, of which no two are of the same caller, address or tool.
        """
        name = self._names.get((rule, identity))
        if name is None:
            texts = identity if isinstance(identity, tuple) else (identity,)
            name = f"toolgate:{{limits}}:{rule.name}:{self._digester.digest(rule.name, *texts)}"
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            self._names[rule, identity] = name
        return name


def _warn(reason: str) -> None:
    log.warning("rate limits cannot be shared: Redis is away", extra={"reason": reason})
