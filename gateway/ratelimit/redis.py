"""Buckets in Redis, the same for every replica, which all go by the clocks of its servers.

All that is asked in one turn of the event loop travels as one script call: asked alone a take costs some 70 us of
processor time, among 32 of one turn 6 us.

In a Redis Cluster a bucket is in the partition of its caller, else of its address, tool or route. A request whose
buckets are in several takes from all of them at once. If one refuses, or cannot be asked, the others get back what was
taken: a limit never lets more through, and for the moment of a round trip it may let through one less.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from gateway.core.backoff import Backoff
from gateway.core.errors import StateUnavailable
from gateway.core.sealing import Digester
from gateway.ratelimit.outcome import LimitOutcome, refusing
from gateway.ratelimit.rules import Identity, LimitPlan, Parts, Rule
from gateway.redisclient.connections import RETRIES_S
from gateway.redisclient.store import PartitionStore, Reply, ScriptOptions, Scripts, partition_of

log = logging.getLogger("gateway.ratelimit")

SCRIPT = Path(__file__).with_name("script.lua").read_bytes()
# Requests in one script call, of two buckets each: under 1 ms during which Redis serves no other client.
OPTIONS = ScriptOptions(max_batch=96)
MAX_NAMES = 8192  # digests remembered, 1.5 MB: one costs 4 us, and most callers come again
NS_PER_US = 1000
PROBE = LimitPlan((Rule(name="probe", parts=("ip",), count=1_000_000, per_s=1, burst=1),))

Place = tuple[int, tuple[bytes, ...]]  # of a bucket: the number of its partition, and its keys


class Share(Struct):
    """The rules of a plan whose buckets are in one partition."""

    scripts: Scripts
    indexes: list[int]  # of the rules in the plan
    rules: list[msgspec.Raw]  # as the script takes them
    keys: list[bytes]  # of all their buckets


class RedisBuckets:
    """Takes from buckets, all or nothing. It closes the store, which should be for nothing else."""

    def __init__(self, store: PartitionStore, digester: Digester) -> None:
        self._digester = digester
        self._store = store
        self._prefixes = [f"{prefix}{{limits}}:" for prefix in store.prefixes]
        self._scripts = [self._open(number) for number in range(len(self._prefixes))]
        self._away: set[int] = set()  # partitions
        self._recovery: asyncio.Task[None] | None = None
        self._older = len(digester.digests()) - 1  # keys of the operator besides the first
        self._place = lru_cache(maxsize=MAX_NAMES)(self._find_place)

    def _open(self, number: int) -> Scripts:
        scripts = self._store.scripts(number, SCRIPT, OPTIONS, lambda reason: self._lost(number, reason))
        scripts.is_up = True  # until the first request finds out
        return scripts

    @property
    def is_up(self) -> bool:
        """Whether Redis answers, as far as is known."""
        return not self._away

    async def take(self, plan: LimitPlan, parts: Parts) -> LimitOutcome:
        """Takes one from every bucket of the plan, or none from any.

        Raises StateUnavailable: then it may be taken all the same.
        """
        places = [self._place(rule, rule.identity(parts)) for rule in plan.rules]
        if len({number for number, _ in places}) > 1:
            return await self._take_apart(plan, places)
        keys = [key for _, of_bucket in places for key in of_bucket]
        return outcome(plan, await self._scripts[places[0][0]].ask(encode(plan, self._older), keys=keys))

    async def _take_apart(self, plan: LimitPlan, places: Sequence[Place]) -> LimitOutcome:
        """Takes from buckets in several partitions."""
        shares = self._divide(plan, places)
        if not all(share.scripts.is_up for share in shares):
            raise StateUnavailable("a part of the state cannot be reached")
        replies = await asyncio.gather(*map(_ask, shares), return_exceptions=True)
        answers = [(share, reply) for share, reply in zip(shares, replies, strict=True) if isinstance(reply, list)]
        grants = [(share, reply) for share, reply in answers if reply[0]]
        debts = [0] * len(places)
        for share, reply in answers:
            for index, first, second in zip(share.indexes, reply[1::2], reply[2::2], strict=True):
                debts[index] = _debt(plan.rules[index], first, second)
        if len(grants) == len(shares):
            return LimitOutcome(plan, tuple(debts))
        for share, reply in grants:
            _give_back(share, reply)
            for index, first, second in zip(share.indexes, reply[1::2], reply[2::2], strict=True):
                debts[index] = _debt_before(plan.rules[index], first, second)
        for failure in replies:
            if isinstance(failure, BaseException):
                raise failure
        return LimitOutcome(plan, tuple(debts), refusing(plan, tuple(debts)))

    def _divide(self, plan: LimitPlan, places: Sequence[Place]) -> list[Share]:
        shares: dict[int, Share] = {}
        for index, (number, keys) in enumerate(places):
            share = shares.get(number) or shares.setdefault(number, Share(self._scripts[number], [], [], []))
            share.indexes.append(index)
            share.rules.append(encode_rule(plan.rules[index], self._older))
            share.keys.extend(keys)
        return list(shares.values())

    async def aclose(self) -> None:
        """Fails all requests that have no answer yet, and closes the store."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        for scripts in self._scripts:
            await scripts.aclose()
        await self._store.aclose()

    def _lost(self, number: int, reason: str) -> None:
        if not self._away:
            log.warning("rate limits cannot be shared: Redis is away", extra={"reason": reason})
        self._away.add(number)
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        backoff = Backoff(*RETRIES_S)
        while self._away:
            await asyncio.sleep(backoff.next_s())
            await asyncio.gather(*map(self._probe, tuple(self._away)))
        log.info("rate limits are shared through Redis again")

    async def _probe(self, number: int) -> None:
        """Tries the script itself: a Redis that answers but cannot be written to is as good as away."""
        with suppress(StateUnavailable):
            key = f"{self._prefixes[number]}probe".encode()
            await self._scripts[number].ask(encode(PROBE), keys=[key], probing=True)
            self._scripts[number].is_up = True
            self._away.discard(number)

    def _find_place(self, rule: Rule, identity: Identity) -> Place:
        """Where a bucket is. Its key does not reveal whose it is.

        Of one with a window there are also the keys under the operator's older keys: a month's count outlasts their
        change.
        """
        texts = identity if isinstance(identity, tuple) else (identity,)
        number = partition_of(texts[0], len(self._prefixes))
        digests = self._digester.digests(rule.name, *texts)
        current = digests[:1] if rule.window is None else digests
        return number, tuple([f"{self._prefixes[number]}{rule.name}:{digest}".encode() for digest in current])


async def _ask(share: Share) -> Reply:
    return await share.scripts.ask(share.rules, keys=share.keys)


def _give_back(share: Share, reply: Reply) -> None:
    """Has what was taken put back. Nobody waits for it: if it fails, the limit has let one less through."""
    with suppress(StateUnavailable):
        refund = share.scripts.ask(share.rules, reply[2::2], keys=share.keys)
        refund.add_done_callback(lambda done: done.cancelled() or done.exception())


@lru_cache(maxsize=1024)
def encode(plan: LimitPlan, older: int = 0) -> msgspec.Raw:
    """The rules of a plan as the script takes them; `older` keys follow that of a bucket with a window."""
    return msgspec.Raw(msgspec.msgpack.encode([encode_rule(rule, older) for rule in plan.rules]))


@lru_cache(maxsize=1024)
def encode_rule(rule: Rule, older: int = 0) -> msgspec.Raw:
    """A rule as the script takes it: with its times in microseconds and parts of 1/`count` of one."""
    if rule.window is not None:
        return msgspec.Raw(msgspec.msgpack.encode((rule.window, rule.burst, older)))
    return msgspec.Raw(msgspec.msgpack.encode((*_split(rule.step, rule), rule.count, *_split(rule.depth, rule))))


def _split(ticks: int, rule: Rule) -> tuple[int, int]:
    return divmod(ticks // NS_PER_US, rule.count)


def outcome(plan: LimitPlan, reply: list[int]) -> LimitOutcome:
    """Reads a reply of the script: 1 or 0, then two numbers for each rule."""
    debts = tuple([_debt(*numbers) for numbers in zip(plan.rules, reply[1::2], reply[2::2], strict=True)])
    return LimitOutcome(plan, debts) if reply[0] else LimitOutcome(plan, debts, refusing(plan, debts))


def _debt(rule: Rule, first: int, second: int) -> int:
    """From microseconds and parts, or from the requests in a window and what is left of it."""
    if rule.window is None:
        return (first * rule.count + second) * NS_PER_US
    return rule.debt_of(first, second * NS_PER_US)


def _debt_before(rule: Rule, first: int, second: int) -> int:
    """What the debt was before one was taken."""
    if rule.window is None:
        return _debt(rule, first, second) - rule.step
    return rule.debt_of(first - 1, second * NS_PER_US)
