"""The state in this process's own memory: the default, for one process.

All calls in one stage of their life have the same time to live, so one queue per stage is in order of expiry, and every
operation costs the same however much is remembered. A process that dies takes its calls with it, so none are orphaned.
"""

from __future__ import annotations

import logging
import math
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from gateway.core.model import CallKey, public_id
from gateway.state.common import Waiter, Waiters, check_digest, check_move, check_note
from gateway.state.entries import SEEN_BYTES, MemoryCall, Quotas, Tombstones, Usage
from gateway.state.port import (
    ACCEPTED,
    AWAITING_USER,
    DONE,
    RECORD_BYTES,
    SMALL_OUTCOME_BYTES,
    BeginResult,
    CallState,
    Capacity,
    Conflict,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    OutcomeTooLarge,
    Quota,
    Record,
    StateLimits,
)

log = logging.getLogger("gateway.state")

SWEEP_EVERY_S = 1.0  # to sweep in every operation would cost a hundredth of a call; `_live` does not rely on sweeps
SWEEP = 64  # expired entries dropped by one operation: more than one can add, and too few for a pause to be noticed
MAX_NAMED = 100  # of the calls that are lost with the process
BUSY_RETRY_S = 1.0  # a caller's pending calls may end at any moment


class MemoryState:
    """Implements `port.State`. `clock` returns seconds; only differences of it matter."""

    is_up = True
    partitions, partitions_away = 1, 0

    def __init__(self, limits: StateLimits, clock: Callable[[], float]) -> None:
        self.replica = os.urandom(8).hex()
        self._limits = limits
        self._clock = clock
        self._calls: dict[str, MemoryCall] = {}
        # By question, the key of the call that waits for its user, or whose result is not delivered.
        self._open: dict[str, str] = {}
        self._pending: OrderedDict[str, MemoryCall] = OrderedDict()  # what expires first is first, here and below
        self._results: OrderedDict[str, MemoryCall] = OrderedDict()
        self._seen: OrderedDict[str, tuple[float, str]] = OrderedDict()  # used-up keys: until when, and the principal
        self._tombstones = Tombstones(limits)
        self._sweep_at = -math.inf
        self._quotas = Quotas(limits)
        self._waiters = Waiters()
        self._on_quota: Callable[[Quota, bool], None] = lambda quota, is_full: None

    def pending(self) -> Counter[str]:
        return Counter(call.new.backend for call in self._pending.values())

    def unfinished(self) -> Sequence[Record]:
        now = self._clock()
        return [call.record(self.replica) for call in self._pending.values() if call.expires_s > now]

    async def replicas(self) -> Mapping[str, float]:
        return {self.replica: 0.0}

    @property
    def capacity(self) -> Capacity:
        self._now()
        return Capacity(self._quotas.size_bytes, self._limits.max_bytes)

    def is_up_for(self, key: str) -> bool:
        return True

    @property
    def trouble(self) -> str | None:
        return "there is no room left (max_bytes)" if self.capacity.is_full else None

    def on_changed(self, callback: Callable[[CallKey], None]) -> None: ...  # no other process is here

    def on_tools_changed(self, callback: Callable[[str], None]) -> None: ...

    def on_lost(self, callback: Callable[[], None]) -> None: ...  # without a warning before the process itself ends

    def on_quota(self, callback: Callable[[Quota, bool], None]) -> None:
        self._on_quota = callback

    def announce_tools_changed(self, backend: str) -> None: ...

    async def start(self) -> None: ...

    async def aclose(self) -> None:
        """Logs which calls are lost with this process."""
        if self._pending:
            calls = [public_id(call.new.key) for call in islice(self._pending.values(), MAX_NAMED)]
            details = {"count": len(self._pending), "calls": calls}
            log.warning("calls that are still running are lost", extra=details)

    # One call after the other.

    async def begin(self, call: NewCall) -> BeginResult:
        now, key = self._clock(), call.key
        if now >= self._sweep_at:
            self._sweep_some(now)
        if key in self._calls or key in self._seen or call.older or call.question is not None or call.rejoins:
            existing = self._existing(call, now)
            if existing is not None:
                return existing
        principal, cost = call.principal, RECORD_BYTES + len(call.note)
        while not isinstance(usage := self._quotas.begin(principal, cost), Usage):
            if not self._sweep(now, SWEEP):
                self._on_quota(usage, True)
                return Full(BUSY_RETRY_S if usage == "pending" else self._until_some_expire(now), usage)
        scarce = self._quotas.scarce(usage)
        if scarce is not None:
            self._on_quota(scarce, False)
        entry = MemoryCall(call, usage, now, now + self._limits.pending_ttl_s, call.state, call.note)
        self._calls[key] = self._pending[key] = entry
        return Created(call, self.replica, now, scarce=scarce)

    def _existing(self, call: NewCall, now: float) -> BeginResult | None:
        """What there is already of a call, under any of its keys or by its question."""
        for key, fingerprint in ((call.key, call.fingerprint), *call.older):
            entry = self._live(key, now)
            if entry is not None:
                return Exists(entry.record(self.replica)) if entry.new.fingerprint == fingerprint else Conflict()
            if key in self._seen:
                return Expired()
        joined = self._join(call.question, now) if call.joins and call.question is not None else None
        if joined is not None:
            return Exists(joined.record(self.replica))
        tombstone = self._tombstones.get(call.key, now) if call.rejoins else None
        return None if tombstone is None or tombstone.fingerprint != call.fingerprint else Exists(tombstone)

    def _join(self, question: str, now: float) -> MemoryCall | None:
        """The call with this question that waits for its user, or whose result this delivers."""
        call = self._live(self._open.get(question, ""), now)
        if call is not None and call.state is DONE:
            self._close(call.new)
        return call

    def _close(self, call: NewCall) -> None:
        if call.question is not None and self._open.get(call.question) == call.key:
            del self._open[call.question]

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        check_move(from_states, to)
        check_note(note or b"")
        call = self._find(key)
        if call is None or call.state not in from_states:
            return False
        call.state = to
        if note is not None:
            self._quotas.count(call.usage, len(note) - len(call.note))
            call.note = note
        if to is AWAITING_USER:
            if call.new.question is not None:
                self._open[call.new.question] = key
            self._waiters.notify(key, call.record(self.replica))
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        limits = self._limits
        if len(outcome) > limits.max_result_bytes:
            raise OutcomeTooLarge
        now, call = self._clock(), self._pending.get(key)
        if call is None or call.expires_s <= now:
            check_digest(key)
            return False
        while len(outcome) > SMALL_OUTCOME_BYTES and not self._quotas.has_room(call.usage, len(outcome)):
            if not self._sweep(now, SWEEP):
                raise OutcomeTooLarge
        del self._pending[key]
        call.state, call.outcome, call.expires_s = DONE, outcome, now + limits.result_ttl_s
        call.usage.pending -= 1
        call.usage.finished += 1
        self._quotas.count(call.usage, len(outcome))
        if key in self._waiters:
            self._waiters.notify(key, call.record(self.replica))
        if self._quotas.size_bytes > limits.max_bytes:
            # Its waiters have it; later callers learn that it has expired. It never runs again.
            log.warning("there is no room to store the outcome of a call", extra={"backend": call.new.backend})
            self._expire(call, now)
        else:
            self._results[key] = call
        return True

    async def get(self, key: str) -> Record | None:
        return self._current(key)

    async def has_expired(self, key: str, principals: Sequence[str]) -> bool:
        return self._find(key) is None and key in self._seen and self._seen[key][1] in principals

    def _current(self, key: str) -> Record | None:
        """A call as it stands, or its tombstone."""
        return self.local_record(key) or (None if key in self._seen else self._tombstones.get(key, self._clock()))

    def local_record(self, key: str) -> Record | None:
        call = self._find(key)
        return None if call is None else call.record(self.replica)

    async def wait(self, key: str, timeout_s: float) -> Record | None:
        call = self._find(key)
        if call is None or call.state > ACCEPTED:
            return self._current(key)
        waiter = self._waiters.add(key)
        timer = waiter.get_loop().call_later(timeout_s, self._give_up, key, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiters.remove(key, waiter)

    def _give_up(self, key: str, waiter: Waiter) -> None:
        """Ends a wait that has timed out with the call as it stands."""
        if not waiter.done():
            waiter.set_result(self._current(key))

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        if outcome is not None and len(outcome) > self._limits.max_result_bytes:
            raise OutcomeTooLarge
        call, ended = self._find(key), None
        if call is None or call.state.is_over:
            return
        self._remove(call)
        if outcome is not None:
            ended = self._tombstones.add(call.record(self.replica), outcome, self._clock())
        self._waiters.notify(key, ended)

    def reduce(self, key: str, outcome: bytes) -> None:
        call = self._find(key)
        if call is not None and call.state is DONE and self._open.get(call.new.question or "") != key:
            self._remove(call)
            self._tombstones.add(call.record(self.replica), outcome, self._clock())

    async def mark_delivered(self, key: str) -> None:
        if (call := self._find(key)) is not None:
            self._close(call.new)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        return ()

    # What is there, and for how long.

    def _find(self, key: str) -> MemoryCall | None:
        call = self._live(key, self._now())
        if call is None:
            check_digest(key)
        return call

    def _now(self) -> float:
        """Reads the clock, and drops some of what has expired if that is due."""
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep_some(now)
        return now

    def _sweep_some(self, now: float) -> None:
        self._sweep_at = now if self._sweep(now, SWEEP) == SWEEP else now + SWEEP_EVERY_S

    def _live(self, key: str, now: float) -> MemoryCall | None:
        """The call with this key. Drops it if it has expired, because a sweep may come later."""
        call = self._calls.get(key)
        if call is not None and call.expires_s <= now:
            self._expire(call, call.expires_s)
            return None
        return call

    def _until_some_expire(self, now: float) -> float:
        firsts = [next(iter(queue.values())).expires_s for queue in (self._results, self._pending) if queue]
        return max(BUSY_RETRY_S, min(firsts, default=now) - now)

    def _sweep(self, now: float, limit: int) -> int:
        """Drops what has expired, at most `limit` entries; returns how many it dropped."""
        expired: list[MemoryCall] = []
        for queue in (self._results, self._pending):
            for call in queue.values():
                if call.expires_s > now or len(expired) == limit:
                    break
                expired.append(call)
        for call in expired:
            self._expire(call, call.expires_s)
        forgotten: list[str] = []
        for key, (until_s, _) in self._seen.items():
            if until_s > now or len(expired) + len(forgotten) == limit:
                break
            forgotten.append(key)
        for key in forgotten:
            self._quotas.release(self._seen.pop(key)[1], SEEN_BYTES)
        return len(expired) + len(forgotten)

    def _expire(self, call: MemoryCall, at_s: float) -> None:
        """Drops a call that has expired and remembers its key."""
        self._remove(call, SEEN_BYTES)
        self._seen[call.new.key] = at_s + self._limits.seen_ttl_s, call.new.principal

    def _remove(self, call: MemoryCall, left_bytes: int = 0) -> None:
        """Drops a call; `left_bytes` are still counted for its key."""
        new, usage = call.new, call.usage
        del self._calls[new.key]
        if call.outcome is None:
            del self._pending[new.key]
            usage.pending -= 1
        else:
            self._results.pop(new.key, None)  # it is not there if the state was too full to keep it
            usage.finished -= 1
        if new.question is not None:
            self._close(new)
        outcome_bytes = 0 if call.outcome is None else len(call.outcome)
        self._quotas.release(new.principal, RECORD_BYTES + len(call.note) + outcome_bytes - left_bytes)
