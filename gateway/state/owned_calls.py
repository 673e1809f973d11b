"""The calls that this process owns (it runs or watches over them), and what a Redis that was away has to learn.

A Redis that comes up empty gets all owned calls back. A call that ended a moment before must neither come back as one
that runs, nor be missing and run once more. So the replica that ran a call remembers its record, and the replica that
received its outcome remembers that, for as long as the result is kept, if there is room.

A call is doubtful if Redis may have it although this process does not run it, because the reply to `begin` was lost.
Redis is made to forget such a call as soon as it can be reached.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from msgspec import Struct, structs

from gateway.core.errors import StateUnavailable
from gateway.redisclient.store import Reply, Scripts
from gateway.state.port import ACCEPTED, UNKNOWN, CallState, NewCall, Record, StateLimits
from gateway.state.records import Records

MAX_DOUBTFUL = 10_000  # calls to be forgotten once Redis is back; more than a process begins until it knows it is away
MAX_DOUBTFUL_BYTES = 4096  # of the outcome that such a call is forgotten with; refusals have some hundred
MAX_RECENT = 5000  # endings restored and reported again in a quarter of a second; there are some seconds for that
MAX_RECENT_BYTES = 16 << 20
ENDING_BYTES = 1024  # counted for an ending beside its note and its outcome
OPERATIONS_PER_ROUND = 500  # operations asked for in one go: a few batches

T = TypeVar("T")


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Splits a list so that its operations do not fill the queue of the script client."""
    return (items[start : start + OPERATIONS_PER_ROUND] for start in range(0, len(items), OPERATIONS_PER_ROUND))


class Ending(Struct, frozen=True, gc=False):
    """How a call ended."""

    key: str
    when_s: float
    record: Record | None  # if this process owned it
    outcome: bytes | None  # if that was stored from here
    is_reduced: bool  # the outcome is all that is kept of the call

    @property
    def size_bytes(self) -> int:
        return ENDING_BYTES + len(self.record.note if self.record else b"") + len(self.outcome or b"")


class RecentEndings:
    """The latest endings of all partitions, in order, each for `kept_s` at most."""

    def __init__(self, kept_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._endings: OrderedDict[str, Ending] = OrderedDict()
        self._bytes = 0

    def reduce(self, key: str, outcome: bytes) -> None:
        """Replaces the outcome of a call by the only one that is kept of it."""
        if key in self._endings:
            self.add(key, None, outcome, is_reduced=True)

    def add(self, key: str, record: Record | None, outcome: bytes | None = None, *, is_reduced: bool = False) -> None:
        """Remembers the record of a call that ended, its outcome, or both, beside what is known of it already."""
        if key in self._endings:
            earlier = self._drop(key)
            record, outcome = record or earlier.record, earlier.outcome if outcome is None else outcome
        ending = self._endings[key] = Ending(key, self._clock(), record, outcome, is_reduced)
        self._bytes += ending.size_bytes
        while self._endings:
            oldest = next(iter(self._endings.values()))
            has_room = self._bytes <= MAX_RECENT_BYTES and len(self._endings) <= MAX_RECENT
            if has_room and ending.when_s - oldest.when_s < self._kept_s:
                break
            self._drop(oldest.key)

    def _drop(self, key: str) -> Ending:
        ending = self._endings.pop(key)
        self._bytes -= ending.size_bytes
        return ending

    def is_kept(self, key: str) -> bool:
        """Whether a call has ended lately, and is kept with its outcome."""
        ending = self._endings.get(key)
        return ending is not None and not ending.is_reduced and ending.when_s > self._clock() - self._kept_s

    def all(self, mark: str = "") -> list[Ending]:
        """Those whose results have not expired, and whose keys begin so."""
        oldest_s = self._clock() - self._kept_s
        return [ending for ending in self._endings.values() if ending.when_s > oldest_s and ending.key.startswith(mark)]


class OwnedCalls(dict[str, Record]):
    """Owned calls by key, as last seen here; and calls that Redis has to restore, to settle again, or to forget.

    They are those of one partition. If there are several, their keys begin with its `mark`.
    """

    def __init__(
        self, scripts: Scripts, records: Records, limits: StateLimits, recent: RecentEndings, mark: str = ""
    ) -> None:
        super().__init__()
        self._scripts = scripts
        self._records = records
        self._limits = limits
        self._ahead_s = 0.0  # how far the clock of Redis, by which calls are dated, is ahead of our monotonic one
        self._changed: set[str] = set()  # owned calls that other replicas have changed
        self._beginning: set[str] = set()  # calls whose reply to `begin` is due; other replicas may end them meanwhile
        self._recent = recent
        self._mark = mark
        self._unreported: dict[str, Ending] = {}  # outcomes that a Redis without its data has to be sent again
        self._unconfirmed: list[str] = []  # ended elsewhere, perhaps: another replica has to send their outcomes again
        # Each doubtful call with the outcome it is forgotten with, and whether it is still to be forgotten twice.
        self._doubtful: dict[str, tuple[bytes | None, bool]] = {}

    # What becomes of calls.

    def is_known(self, key: str) -> bool:
        """Whether this process owns a call or begins it."""
        return key in self or key in self._beginning

    def current(self, key: str) -> Record | None:
        """An owned call, unless another replica has changed it or it has expired."""
        owned = None if key in self._changed else self.get(key)
        return owned if owned is not None and owned.created_s >= self._oldest_s() else None

    def mark_changed(self, key: str) -> None:
        """Notes that another replica has changed a call."""
        if key in self:
            self._changed.add(key)

    def pending(self) -> Counter[str]:
        """How many are owned, by backend."""
        return Counter(record.backend for record in self.values())

    def starting(self, call: NewCall) -> bool:
        """Notes that a call is about to begin; False if this process owns or begins it under any of its keys."""
        if self.is_known(call.key) or (call.older and any(self.is_known(key) for key, _ in call.older)):
            return False
        self._beginning.add(call.key)
        return True

    def started(self, call: NewCall, *, doubtful: bool) -> None:
        """Ends `starting`: the reply to `begin` has come, or never will. `doubtful`: Redis may have the call."""
        self._beginning.discard(call.key)
        if doubtful:
            self._forget_later(call.key, *(key for key, _ in call.older))

    def advance(self, key: str, to: CallState, note: bytes | None) -> None:
        """Moves a call on, with a new note if one is given."""
        owned = self.get(key)
        if owned is not None:
            self[key] = structs.replace(owned, state=to, note=owned.note if note is None else note)

    def learn(self, current: Record) -> None:
        """Copies the state and note that another replica gave a call, so that it would be restored with them."""
        owned = self.get(current.key)
        if owned is None:
            return
        if current.state >= UNKNOWN:
            self.release(owned)
        elif owned.state <= current.state:  # if they are equal its note may have changed
            self[current.key] = structs.replace(owned, state=current.state, note=current.note)

    def end(self, key: str, outcome: bytes | None) -> Record | None:
        """Ends a call, with the `outcome` if that was stored from here; returns the record if the call was owned."""
        owned = self.drop(key)
        if owned is not None or outcome is not None:
            self._recent.add(key, owned, outcome)
        return owned

    def drop(self, key: str) -> Record | None:
        """Stops owning a call, because it may be begun anew; returns the record if it was owned."""
        self._changed.discard(key)
        return self.pop(key, None)

    def release(self, record: Record) -> None:
        """Stops owning a call that is over or gone, unless it has begun anew since it was `record`."""
        if self.get(record.key) is record:
            self.end(record.key, None)

    def reduce(self, key: str, outcome: bytes) -> None:
        """Has Redis keep only this outcome of a call that is over. Raises StateUnavailable."""
        self._ask_to_reduce(key, outcome).add_done_callback(partial(self._reduced, key, outcome))

    def _reduced(self, key: str, outcome: bytes, reply: asyncio.Future[Reply]) -> None:
        if not reply.cancelled() and reply.exception() is None and reply.result()[0] == b"yes":
            self.end(key, None)  # it may have ended elsewhere without our hearing of it, and must not be restored
            self._recent.reduce(key, outcome)

    def _ask_to_reduce(self, key: str, outcome: bytes) -> asyncio.Future[Reply]:
        return self._scripts.ask("reduce", key, self._records.outcome(key, outcome))

    def expired(self) -> list[Record]:
        """Some of the calls that are owned although they have expired without an outcome."""
        oldest_s = self._oldest_s()
        return [record for record in islice(self.values(), OPERATIONS_PER_ROUND) if record.created_s < oldest_s]

    def set_clock(self, now_s: float) -> None:
        """Takes the time from Redis, by which calls expire there; the clock of this machine may differ."""
        self._ahead_s = now_s - time.monotonic()

    def _oldest_s(self) -> float:
        """When the oldest call began that has not expired, by the clock of Redis."""
        return time.monotonic() + self._ahead_s - self._limits.pending_ttl_s

    # What a Redis learns that has lost its data.

    async def restore(self) -> int:
        """Restores the calls that this process owns, or owned until lately; returns how many."""
        recent = self._recent.all(self._mark)
        records = [*self.values(), *(ending.record for ending in recent if ending.record is not None)]
        unconfirmed = [ending.key for ending in recent if ending.outcome is None]
        for portion in portions(records):
            await self._scripts.ask("restoring")
            replies = await asyncio.gather(*(self.restore_one(record) for record in portion))
            restored = {record.key for record, reply in zip(portion, replies, strict=True) if reply[0] == b"yes"}
            unconfirmed += [key for key in restored if self._may_have_ended(key)]
        self._unreported = {ending.key: ending for ending in recent if ending.outcome is not None}
        self._unconfirmed = unconfirmed
        return len(records)

    def _may_have_ended(self, key: str) -> bool:
        """Whether another replica has changed an owned call, so that this one does not know how it stands."""
        return key in self._changed and key in self and self[key].state <= ACCEPTED

    def restore_one(self, record: Record) -> asyncio.Future[Reply]:
        """Restores one call, unless Redis has it already."""
        return self._scripts.ask("restore", *self._records.restore(record))

    async def report_outcomes(self) -> None:
        """Sends recent outcomes again. Those of calls that no replica has restored yet are kept for the next time."""
        for portion in portions(list(self._unreported.values())):
            await asyncio.gather(*(self._report(ending) for ending in portion))

    async def _report(self, ending: Ending) -> None:
        outcome = ending.outcome or b""
        reply = await self._scripts.ask("settle", ending.key, self._records.outcome(ending.key, outcome), True)
        if ending.is_reduced:
            reply = await self._ask_to_reduce(ending.key, outcome)
        if reply[0] != b"restoring":
            self._unreported.pop(ending.key, None)

    async def mark_unknown(self) -> None:
        """Marks calls UNKNOWN whose outcome no replica re-reported; to be called once all have had time to do so."""
        while portion := self._unconfirmed[:OPERATIONS_PER_ROUND]:
            await asyncio.gather(*(self._scripts.ask("lose", key) for key in portion))
            del self._unconfirmed[: len(portion)]

    # Calls that Redis may have although this process does not run them.

    async def forget(self, key: str, outcome: bytes | None) -> bool:
        """Has Redis forget a call, now or as soon as it can be asked; False if it refuses."""
        try:
            reply = await self._ask_to_forget(key, outcome)
        except StateUnavailable:
            reply = [b"restoring"]
        if reply[0] == b"restoring":
            self._forget_later(key, outcome=outcome if len(outcome or b"") <= MAX_DOUBTFUL_BYTES else None)
        return bool(reply[0] != b"no")

    def _forget_later(self, *keys: str, outcome: bytes | None = None) -> None:
        self._doubtful.update(dict.fromkeys(keys, (outcome, True)))
        while len(self._doubtful) > MAX_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    def _ask_to_forget(self, key: str, outcome: bytes | None) -> asyncio.Future[Reply]:
        sealed = () if outcome is None else (self._records.outcome(key, outcome),)
        return self._scripts.ask("forget", key, *sealed)

    def unaccounted(self, keys: list[str]) -> list[str]:
        """The keys of calls that are neither owned nor begun nor doubtful here."""
        return [key for key in keys if not (self.is_known(key) or key in self._doubtful)]

    async def forget_doubtful(self) -> None:
        """Has Redis forget the doubtful calls, each in two successive heartbeats.

        Twice, because a server that was frozen may carry out an earlier `begin` after the first time.
        """
        for key, (outcome, is_first) in list(self._doubtful.items()):
            if key in self._beginning:
                continue  # an earlier `begin` may still be carried out after this one, and this one come to nothing
            # A `begin` of a call that has ended finds that, and puts nothing there that would have to be forgotten.
            is_known = key in self or self._recent.is_kept(key)
            if not is_known:
                await self._ask_to_forget(key, outcome)
            if is_first and not is_known:
                self._doubtful[key] = None, False
            else:
                self._doubtful.pop(key, None)
