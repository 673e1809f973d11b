"""The state in this process's own memory: the default, for one process.

Each lifetime is one and the same for all calls in that stage, so a queue per stage is in the order of expiry and every
operation costs the same however much is remembered. A process that dies takes its calls with it: no orphans here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, structs

from gateway.state.port import (
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
SWEEP = 64  # expired entries dropped by one operation: more than one can add, and no pause anybody notices
BUSY_RETRY_S = 1.0  # a caller's pending calls may end at any moment


class _Usage(Struct):
    """What one principal has here."""

    pending: int = 0
    records: int = 0


class MemoryState:
    """Implements `port.State`. `clock` returns seconds; only differences of it matter."""

    is_up = True

    def __init__(self, limits: StateLimits, clock: Callable[[], float]) -> None:
        self.replica = os.urandom(8).hex()
        self._limits = limits
        self._clock = clock
        self._calls: dict[str, Record] = {}
        self._tokens: dict[str, str] = {}
        self._pending: OrderedDict[str, float] = OrderedDict()  # key -> when it expires, the earliest first
        self._results: OrderedDict[str, float] = OrderedDict()
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._usage: dict[str, _Usage] = {}
        self._bytes = 0
        self._waiters = Waiters()

    @property
    def size_bytes(self) -> int:
        """What is counted against `max_bytes` now."""
        return self._bytes

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...

    async def begin(self, call: NewCall) -> Begun:
        now = self._clock()
        self._sweep(now, SWEEP)
        for key, fingerprint in ((call.key, call.fingerprint), *call.older):
            record = self._live(key, now)
            if record is not None:
                return Exists(record) if record.fingerprint == fingerprint else Conflict()
            if key in self._seen:
                return Expired()
        cost = RECORD_BYTES + len(call.note)
        wait_s = self._full_for(call.principal, cost, now)
        while wait_s and self._sweep(now, SWEEP):
            wait_s = self._full_for(call.principal, cost, now)
        return Full(wait_s) if wait_s else Created(self._register(call, cost, now))

    def _register(self, call: NewCall, cost: int, now: float) -> Record:
        record = Record.new(call, self.replica, now)
        self._calls[call.key] = record
        self._pending[call.key] = now + self._limits.pending_ttl_s
        if call.token is not None:
            self._tokens[call.token] = call.key
        usage = self._usage.setdefault(call.principal, _Usage())
        usage.pending += 1
        usage.records += 1
        self._bytes += cost
        return record

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
        self._waiters.tell(key, moved)
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        if len(outcome) > self._limits.max_result_bytes:
            raise OutcomeTooLarge
        record = self._find(key)
        if record is None or record.state is CallState.DONE:
            return False
        done = structs.replace(record, state=CallState.DONE, outcome=outcome)
        self._calls[key] = done
        self._usage[record.principal].pending -= 1
        del self._pending[key]
        self._results[key] = self._clock() + self._limits.result_ttl_s
        self._bytes += len(outcome)
        self._waiters.tell(key, done)
        if self._bytes > self._limits.max_bytes:
            # Who waits has it; who comes later is told that it is gone, as after `result_ttl`. Never a second run.
            log.warning("the state is full: a result is not kept", extra={"backend": record.backend})
            self._expire(key, self._clock())
        return True

    async def get(self, key: str) -> Record | None:
        return self._find(key)

    async def by_token(self, token: str) -> Record | None:
        check_digest(token)
        key = self._tokens.get(token)
        return None if key is None else self._find(key)

    async def wait(self, key: str, timeout_s: float, *, beyond: CallState = CallState.ACCEPTED) -> Record | None:
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

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        return ()

    def _find(self, key: str) -> Record | None:
        check_digest(key)
        now = self._clock()
        self._sweep(now, SWEEP)
        return self._live(key, now)

    def _live(self, key: str, now: float) -> Record | None:
        """The record unless its time is over, whether or not a sweep has come by."""
        record = self._calls.get(key)
        if record is not None and self._queue(record)[key] <= now:
            self._expire(key, self._queue(record)[key])
            return None
        return record

    def _queue(self, record: Record) -> OrderedDict[str, float]:
        return self._results if record.state is CallState.DONE else self._pending

    def _full_for(self, principal: str, cost: int, now: float) -> float:
        """For how many seconds a principal had better wait before its next call; 0.0: it may begin one."""
        usage = self._usage.get(principal, _Usage())
        if usage.pending >= self._limits.max_pending:
            return BUSY_RETRY_S
        if usage.records >= self._limits.max_records or self._bytes + cost > self._limits.max_bytes:
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
        if record.token is not None:
            self._tokens.pop(record.token, None)
        usage = self._usage[record.principal]
        usage.records -= 1
        usage.pending -= record.state is not CallState.DONE
        if not usage.records:
            del self._usage[record.principal]
