"""The state in this process's own memory: the default, for one process.

Each lifetime is one and the same for all calls in that stage, so a queue per stage is in the order of expiry and every
operation costs the same however much is remembered. A process that dies takes its calls with it: no orphans here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, structs

from gateway.state.port import (
    ACCEPTED,
    AWAITING_USER,
    DONE,
    Begun,
    CallState,
    Conflict,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    OutcomeTooLarge,
    Record,
    StateLimits,
    check_digest,
    check_move,
    check_note,
)
from gateway.state.waiting import Waiters

log = logging.getLogger("gateway.state")

RECORD_BYTES = 1024  # counted for a record beside its note and outcome; about 700 were measured
SEEN_BYTES = 384  # counted for a key that is only remembered; about 340 were measured
SWEEP_EVERY_S = 1.0  # looking for what has expired costs a call a hundredth; what is looked up is looked at closely
SWEEP = 64  # expired entries dropped by one operation: more than one can add, and no pause anybody notices
MAX_TOLD = 100  # calls named when they are lost
BUSY_RETRY_S = 1.0  # a caller's pending calls may end at any moment


class _Usage(Struct):
    """What one principal has here."""

    pending: int = 0
    records: int = 0


NO_USAGE = _Usage()  # never changed


class MemoryState:
    """Implements `port.State`. `clock` returns seconds; only differences of it matter."""

    is_up = True

    def __init__(self, limits: StateLimits, clock: Callable[[], float]) -> None:
        self.replica = os.urandom(8).hex()
        self._limits = limits
        self._clock = clock
        self._calls: dict[str, Record] = {}
        self._open: dict[str, str] = {}  # question -> the call that was asked it and waits for its user, or did
        self._pending: OrderedDict[str, float] = OrderedDict()  # key -> when it expires, the earliest first
        self._results: OrderedDict[str, float] = OrderedDict()
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._sweep_at = -math.inf
        self._usage: dict[str, _Usage] = {}
        self._bytes = 0
        self._waiters = Waiters()

    @property
    def size_bytes(self) -> int:
        """What is counted against `max_bytes` now."""
        return self._bytes

    def pending(self) -> Counter[str]:
        return Counter(self._calls[key].backend for key in self._pending)

    async def start(self) -> None: ...

    async def aclose(self) -> None:
        """Names the calls that end with this process, by the digests that are their keys."""
        if self._pending:
            told = list(self._pending)[:MAX_TOLD]
            log.warning("calls that are not over are lost", extra={"count": len(self._pending), "calls": told})

    async def begin(self, call: NewCall) -> Begun:
        now = self._now()
        key = call.key
        if key in self._calls or key in self._seen or call.older or call.question is not None:
            known = self._known(call, now)
            if known is not None:
                return known
        cost = RECORD_BYTES + len(call.note)
        wait_s = self._full_for(call.principal, cost, now)
        while wait_s and self._sweep(now, SWEEP):
            wait_s = self._full_for(call.principal, cost, now)
        return Full(wait_s) if wait_s else Created(self._register(call, cost, now))

    def _known(self, call: NewCall, now: float) -> Begun | None:
        """What there is already of a call, under whatever name."""
        for key, fingerprint in ((call.key, call.fingerprint), *call.older):
            record = self._live(key, now)
            if record is not None:
                return Exists(record) if record.fingerprint == fingerprint else Conflict()
            if key in self._seen:
                return Expired()
        asked = None if call.question is None else self._asked(call.question, now)
        return None if asked is None else Exists(asked)

    def _register(self, call: NewCall, cost: int, now: float) -> Record:
        key = call.key
        record = self._calls[key] = Record.new(call, self.replica, now)
        self._pending[key] = now + self._limits.pending_ttl_s
        usage = self._usage.get(call.principal)
        if usage is None:
            usage = self._usage[call.principal] = _Usage()
        usage.pending += 1
        usage.records += 1
        self._bytes += cost
        return record

    def _asked(self, question: str, now: float) -> Record | None:
        """The open call that was asked a question. Its end is told once."""
        record = self._live(self._open[question], now) if question in self._open else None
        if record is not None and record.state is DONE:
            self._close(record)
        return record

    def _close(self, record: Record) -> None:
        if record.question is not None and self._open.get(record.question) == record.key:
            del self._open[record.question]

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        check_move(from_states, to)
        check_note(note or b"")
        record = self._find(key)
        if record is None or record.state not in from_states:
            return False
        moved = structs.replace(record, state=to, note=record.note if note is None else note)
        self._bytes += len(moved.note) - len(record.note)
        self._calls[key] = moved
        if to is AWAITING_USER and record.question is not None:
            self._open[record.question] = key
        self._waiters.tell(key, moved)
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        if len(outcome) > self._limits.max_result_bytes:
            raise OutcomeTooLarge
        now = self._clock()
        expires = self._pending.get(key, now)
        if expires <= now:
            check_digest(key)
            return False
        record = self._calls[key]
        done = self._calls[key] = structs.replace(record, state=DONE, outcome=outcome)
        self._usage[record.principal].pending -= 1
        del self._pending[key]
        self._results[key] = now + self._limits.result_ttl_s
        self._bytes += len(outcome)
        if key in self._waiters.by_key:
            self._waiters.tell(key, done)
        if self._bytes > self._limits.max_bytes:
            # Who waits has it; who comes later is told that it is gone, as after `result_ttl`. Never a second run.
            log.warning("the state is full: a result is not kept", extra={"backend": record.backend})
            self._expire(key, now)
        return True

    async def get(self, key: str) -> Record | None:
        return self._find(key)

    async def wait(self, key: str, timeout_s: float, *, beyond: CallState = ACCEPTED) -> Record | None:
        record = self._find(key)
        if record is None or record.state > beyond:
            return record
        with self._waiters.waiting(key, beyond) as waiter:
            try:
                async with asyncio.timeout(timeout_s):
                    return await waiter
            except TimeoutError:
                return self._find(key)

    async def forget(self, key: str) -> None:
        record = self._find(key)
        if record is not None and not record.state.is_over:
            self._remove(record)
            self._waiters.tell(key, None)

    async def told(self, key: str) -> None:
        record = self._find(key)
        if record is not None:
            self._close(record)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        return ()

    def _find(self, key: str) -> Record | None:
        record = self._live(key, self._now())
        if record is None:
            check_digest(key)
        return record

    def _now(self) -> float:
        """The time, some of what has expired by then having been dropped."""
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep_at = now if self._sweep(now, SWEEP) == SWEEP else now + SWEEP_EVERY_S
        return now

    def _live(self, key: str, now: float) -> Record | None:
        """The record unless its time is over, whether or not a sweep has come by."""
        record = self._calls.get(key)
        if record is not None and self._queue(record)[key] <= now:
            self._expire(key, self._queue(record)[key])
            return None
        return record

    def _queue(self, record: Record) -> OrderedDict[str, float]:
        return self._results if record.state is DONE else self._pending

    def _full_for(self, principal: str, cost: int, now: float) -> float:
        """For how many seconds a principal had better wait before its next call; 0.0: it may begin one."""
        usage, limits = self._usage.get(principal, NO_USAGE), self._limits
        if usage.pending >= limits.max_pending:
            return BUSY_RETRY_S
        if usage.records >= limits.max_records or self._bytes + cost > limits.max_bytes:
            firsts = [next(iter(queue.values())) for queue in (self._results, self._pending) if queue]
            return max(BUSY_RETRY_S, min(firsts, default=now) - now)
        return 0.0

    def _sweep(self, now: float, limit: int) -> int:
        """Drops what has expired, at most `limit` entries; returns how many it dropped."""
        dropped = 0
        for queue in (self._results, self._pending):
            while queue and dropped < limit and (first := next(iter(queue.items())))[1] <= now:
                self._expire(*first)
                dropped += 1
        while self._seen and dropped < limit and next(iter(self._seen.values())) <= now:
            self._seen.popitem(last=False)
            self._bytes -= SEEN_BYTES
            dropped += 1
        return dropped

    def _expire(self, key: str, at: float) -> None:
        """Drops a record and remembers its key."""
        self._remove(self._calls[key])
        self._seen[key] = at + self._limits.seen_ttl_s
        self._bytes += SEEN_BYTES

    def _remove(self, record: Record) -> None:
        del self._calls[record.key]
        del self._queue(record)[record.key]
        self._bytes -= RECORD_BYTES + len(record.note) + len(record.outcome or b"")
        self._close(record)
        usage = self._usage[record.principal]
        usage.records -= 1
        usage.pending -= record.state is not DONE
        if not usage.records:
            del self._usage[record.principal]
