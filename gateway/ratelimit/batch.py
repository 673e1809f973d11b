"""The way of the limits to Redis: all that is asked in one turn of the event loop travels as one script call.

Asked alone a take costs some 70 us of processor time, among 32 of one turn 6 us. Unlike the state's link several
batches may be under way: nothing here depends on their order, and no call begins before its limits have been checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from gateway.ratelimit.rules import Rule
from gateway.state.link import FLIGHT_S
from gateway.state.port import StateUnavailable

log = logging.getLogger("gateway.ratelimit")

SCRIPT = Path(__file__).with_name("script.lua").read_text(encoding="utf-8")
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()

MAX_BUCKETS = 192  # of all requests in one script: under 1 ms during which Redis serves nobody else
MAX_FLIGHTS = 4  # batches, and so connections, of one process at a time
MAX_QUEUED = 20_000  # requests that wait for a batch; more than callers a process can have
FIRST_RETRY_S, LAST_RETRY_S = 0.05, 1.0  # pauses between two looks at a Redis that is away
NS_PER_US = 1000
PROBE_KEY = "toolgate:{limits}:probe"
PROBE = Rule(name="probe", parts=("ip",), count=1_000_000, per_s=1, burst=1)

Answer = list[int]  # 1 or 0, then microseconds and fractions for each rule
_decode = msgspec.msgpack.Decoder(list[Answer]).decode
FAILURES = (RedisError, OSError, TimeoutError, msgspec.MsgspecError)


class Ask(NamedTuple):
    """One request: its rules, their buckets, and whoever waits."""

    rules: Sequence[Rule]
    keys: Sequence[str]
    answer: asyncio.Future[Answer]


class Batcher:
    """Asks the script. `on_outage` hears the reason when Redis goes away."""

    def __init__(self, redis: Redis, on_outage: Callable[[str], None]) -> None:
        self.is_up = True  # until the first request finds out
        self._redis = redis
        self._on_outage = on_outage
        self._queue: deque[Ask] = deque()
        self._is_due = False
        self._flights: set[asyncio.Task[None]] = set()
        self._recovery: asyncio.Task[None] | None = None

    async def ask(self, rules: Sequence[Rule], keys: Sequence[str]) -> Answer:
        """What the script answers. Raises StateUnavailable, at once while Redis is away; else it may be taken."""
        if not self.is_up or len(self._queue) >= MAX_QUEUED:
            raise StateUnavailable("rate limits cannot be checked")
        loop = asyncio.get_running_loop()
        ask = Ask(rules, keys, loop.create_future())
        self._queue.append(ask)
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._launch)
        return await ask.answer

    async def aclose(self) -> None:
        """Fails whatever is still asked."""
        self.is_up = False
        self._fail_queued()
        tasks = [*self._flights, *([self._recovery] if self._recovery else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _launch(self) -> None:
        self._is_due = False
        while self._queue and len(self._flights) < MAX_FLIGHTS:
            flight = asyncio.create_task(self._fly(self._next_batch()))
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _next_batch(self) -> list[Ask]:
        batch: list[Ask] = []
        buckets = 0
        while self._queue and (not batch or buckets + len(self._queue[0].keys) <= MAX_BUCKETS):
            batch.append(self._queue.popleft())
            buckets += len(batch[-1].keys)
        return batch

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._launch()

    async def _fly(self, batch: list[Ask]) -> None:
        try:
            for ask, answer in zip(batch, await self._run(batch), strict=True):
                if not ask.answer.done():
                    ask.answer.set_result(answer)
        except FAILURES as exc:
            _fail(batch)
            await self._lost(exc)
        finally:
            _fail(batch)

    async def _lost(self, reason: Exception) -> None:
        was_up, self.is_up = self.is_up, False
        if was_up:
            self._fail_queued()
            self._on_outage(type(reason).__name__)
            self._recovery = asyncio.create_task(self._recover())
        # It may be somebody else's turn to be the primary: who it is will be found out anew.
        with suppress(*FAILURES):
            await self._redis.connection_pool.disconnect(inuse_connections=False)

    def _fail_queued(self) -> None:
        _fail(self._queue)
        self._queue.clear()

    async def _recover(self) -> None:
        """Looks with the script itself: a Redis that answers but cannot be written to is as good as away."""
        pause_s = FIRST_RETRY_S
        while not self.is_up:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_RETRY_S)
            with suppress(*FAILURES):
                await self._run([Ask((PROBE,), (PROBE_KEY,), asyncio.get_running_loop().create_future())])
                self.is_up = True
        log.info("rate limits are shared through Redis again")

    async def _run(self, batch: Sequence[Ask]) -> list[Answer]:
        keys = [key for ask in batch for key in ask.keys]
        request = encode([ask.rules for ask in batch])
        async with asyncio.timeout(FLIGHT_S):
            try:
                return _decode(await self._call("EVALSHA", SCRIPT_SHA, len(keys), *keys, request))
            except NoScriptError:  # a server that has started since; it has run nothing of this batch
                return _decode(await self._call("EVAL", SCRIPT, len(keys), *keys, request))

    async def _call(self, *command: str | int | bytes) -> bytes:
        execute: Callable[..., Awaitable[bytes]] = self._redis.execute_command
        return await execute(*command)


def encode(requests: Sequence[Sequence[Rule]]) -> bytes:
    """The script's argument: each rule of the batch once, and which of them each request meets."""
    numbers: dict[Rule, int] = {}
    asked = [[numbers.setdefault(rule, len(numbers) + 1) for rule in rules] for rules in requests]
    rules = [(*_split(rule.step, rule), rule.count, *_split(rule.depth, rule)) for rule in numbers]
    return msgspec.msgpack.encode((rules, asked))


def _split(ticks: int, rule: Rule) -> tuple[int, int]:
    """Ticks as the script counts them: microseconds, and what is left in parts of 1/`count`."""
    return divmod(ticks // NS_PER_US, rule.count)


def joined(lacks_us: int, fraction: int, rule: Rule) -> int:
    """The ticks of a pair that the script answered."""
    return (lacks_us * rule.count + fraction) * NS_PER_US


def _fail(asks: Iterable[Ask]) -> None:
    for ask in asks:
        if not ask.answer.done():
            ask.answer.set_exception(StateUnavailable("rate limits cannot be checked"))
