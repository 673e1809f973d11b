"""Buckets in Redis, the same for every replica, which all go by the clock of that server.

All that is asked in one turn of the event loop travels as one script call: asked alone a take costs some 70 us of
processor time, among 32 of one turn 6 us.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
from redis.asyncio import Redis

from gateway.backoff import Backoff
from gateway.ratelimit.outcome import Outcome, refusing
from gateway.ratelimit.rules import Identity, Parts, Plan, Rule
from gateway.state.port import StateUnavailable
from gateway.state.script_client import ScriptClient
from gateway.state.sealing import Digester

log = logging.getLogger("gateway.ratelimit")

SCRIPT = Path(__file__).with_name("script.lua").read_bytes()
MAX_BATCH = 96  # requests in one script call, of two buckets each: under 1 ms during which Redis serves no other client
MAX_NAMES = 8192  # digests remembered, 1.5 MB: one costs 4 us, and most callers come again
FIRST_RETRY_S, LAST_RETRY_S = 0.05, 1.0  # pauses between two attempts to reach a Redis that is away
NS_PER_US = 1000
PROBE = Plan((Rule(name="probe", parts=("ip",), count=1_000_000, per_s=1, burst=1),))
PROBE_KEY = b"toolgate:{limits}:probe"


class RedisBuckets:
    """Takes from buckets, all or nothing. It closes the client, which should be for nothing else."""

    def __init__(self, redis: Redis, digester: Digester) -> None:
        self._digester = digester
        self._redis = redis
        self._scripts = ScriptClient(redis, SCRIPT, self._lost, max_batch=MAX_BATCH)
        self._scripts.is_up = True  # until the first request finds out
        self._recovery: asyncio.Task[None] | None = None
        self._name = lru_cache(maxsize=MAX_NAMES)(self._make_name)

    @property
    def is_up(self) -> bool:
        """Whether Redis answers, as far as is known."""
        return self._scripts.is_up

    async def take(self, plan: Plan, parts: Parts) -> Outcome:
        """Takes one from every bucket of the plan, or none from any.

        Raises StateUnavailable: then it may be taken all the same.
        """
        keys = [self._name(rule, rule.identity(parts)) for rule in plan.rules]
        return outcome(plan, await self._scripts.ask(encode(plan), keys=keys))

    async def aclose(self) -> None:
        """Fails all requests that have no answer yet, and closes the client."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        await self._scripts.aclose()
        await self._redis.aclose()

    def _lost(self, reason: str) -> None:
        log.warning("rate limits cannot be shared: Redis is away", extra={"reason": reason})
        self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Tries the script itself: a Redis that answers but cannot be written to is as good as away."""
        backoff = Backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while not self.is_up:
            await asyncio.sleep(backoff.next_s())
            with suppress(StateUnavailable):
                await self._scripts.ask(encode(PROBE), keys=[PROBE_KEY], probing=True)
                self._scripts.is_up = True
        log.info("rate limits are shared through Redis again")

    def _make_name(self, rule: Rule, identity: Identity) -> bytes:
        """The key of a bucket, which does not reveal whose it is.

        In a Redis Cluster all of them lie in one slot, because one atomic take needs several, of which no two are of
        the same caller, address or tool.
        """
        texts = identity if isinstance(identity, tuple) else (identity,)
        return f"toolgate:{{limits}}:{rule.name}:{self._digester.digest(rule.name, *texts)}".encode()


@lru_cache(maxsize=1024)
def encode(plan: Plan) -> msgspec.Raw:
    """The rules of a plan as the script takes them: with their times in microseconds and parts of 1/`count` of one."""
    rules = [(*_split(rule.step, rule), rule.count, *_split(rule.depth, rule)) for rule in plan.rules]
    return msgspec.Raw(msgspec.msgpack.encode(rules))


def _split(ticks: int, rule: Rule) -> tuple[int, int]:
    return divmod(ticks // NS_PER_US, rule.count)


def outcome(plan: Plan, reply: list[int]) -> Outcome:
    """Reads a reply of the script: 1 or 0, then microseconds and parts for each rule."""
    pairs = zip(reply[1::2], reply[2::2], plan.rules, strict=True)
    debts = tuple([(lacks_us * rule.count + parts) * NS_PER_US for lacks_us, parts, rule in pairs])
    return Outcome(plan, debts) if reply[0] else Outcome(plan, debts, refusing(plan, debts))
