"""The calls this process runs or watches over, and what it owes a Redis that has lost them, or that was away.

Redis may start empty: then everything held is put back, and whatever ended a moment ago ends once more. A call of which
nobody here knows whether Redis has it is let go of as soon as Redis can be asked.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from itertools import islice

from msgspec import structs

from gateway.state.link import Link, Reply
from gateway.state.port import UNKNOWN, CallState, NewCall, Record, StateLimits, StateUnavailable
from gateway.state.recent import Ended, Recent
from gateway.state.records import Records

MAX_DOUBTFUL = 10_000  # calls to be let go once Redis is back; more than one process begins within a time limit
MAX_DOUBTFUL_BYTES = 4096  # of how one of them ended, if anybody is to be told: refusals have some hundred
RESTORED_AT_ONCE = 500  # calls in flight while all are put back; a few batches


class Holding:
    """Calls by their keys."""

    def __init__(self, link: Link, records: Records, limits: StateLimits) -> None:
        self._link = link
        self._records = records
        self._limits = limits
        self._held: dict[str, Record] = {}
        self._touched: set[str] = set()  # of those held: others have done something to them
        self._beginning: set[str] = set()  # whose reply to `begin` is due; others may end them meanwhile
        self._recent = Recent(limits.result_ttl_s)
        self._untold: dict[str, Ended] = {}  # of a Redis that has lost them
        self._unheard: list[str] = []  # whose end was told by others, who may be dead by now
        self._doubtful: dict[str, bytes | None] = {}  # calls to be forgotten as soon as possible, with this outcome
        self._forgotten: dict[str, None] = {}  # of these, calls to be forgotten once more

    # What becomes of calls.

    def __contains__(self, key: str) -> bool:
        return key in self._held or key in self._beginning

    def get(self, key: str) -> Record | None:
        return self._held.get(key)

    def untouched(self, key: str) -> Record | None:
        """A call that is held, if nobody else can have moved it on and its time is not over."""
        held = None if key in self._touched else self._held.get(key)
        return held if held is not None and held.created_s >= self._oldest() else None

    def touch(self, key: str) -> None:
        """Another replica has done something to a call."""
        if key in self._held:
            self._touched.add(key)

    def all(self) -> dict[str, Record]:
        """Those held now, by key."""
        return dict(self._held)

    def pending(self) -> Counter[str]:
        """How many are held, by backend."""
        return Counter(record.backend for record in self._held.values())

    def expect(self, call: NewCall) -> bool:
        """A call is about to be begun; False if this process has begun it before, under whatever key."""
        known = call.key in self or (call.older and any(key in self for key, _ in call.older))
        if not known:
            self._beginning.add(call.key)
        return not known

    def expected(self, call: NewCall, *, doubtful: bool) -> None:
        """The reply for such a call has come, or never will; `doubtful`: then Redis may have it or not."""
        self._beginning.discard(call.key)
        if doubtful:
            self.doubt(call.key, *(key for key, _ in call.older))

    def hold(self, record: Record) -> None:
        self._held[record.key] = record

    def move(self, key: str, to: CallState, note: bytes | None) -> None:
        """A call has moved on, with a new note if one is given."""
        held = self._held.get(key)
        if held is not None:
            self._held[key] = structs.replace(held, state=to, note=held.note if note is None else note)

    def catch_up(self, found: Record) -> None:
        """A call was looked at: if another replica has moved it on, what is put back later is as it is now."""
        held = self._held.get(found.key)
        if held is None:
            return
        if found.state >= UNKNOWN:
            self.let_go(found.key, held)
        elif held.state <= found.state:  # its note may be another
            self._held[found.key] = structs.replace(held, state=found.state, note=found.note)

    def is_behind(self, key: str, state: int) -> bool:
        """Whether a call has moved on since it was last looked at."""
        held = self._held.get(key)
        return held is not None and held.state < state

    def end(self, key: str, outcome: bytes | None) -> Record | None:
        """A call is over, with this outcome if it was ours that counted; returns it if it was held."""
        held = self._held.pop(key, None)
        self._touched.discard(key)
        if held is not None or outcome is not None:
            self._recent.note(key, held, outcome)
        return held

    def part(self, key: str, outcome: bytes) -> None:
        """Has Redis keep no more than this of a call that is over; raises StateUnavailable if it cannot be asked."""
        self._ask_to_part(key, outcome).add_done_callback(partial(self._parted, key, outcome))

    def _parted(self, key: str, outcome: bytes, asked: asyncio.Future[Reply]) -> None:
        if not asked.cancelled() and asked.exception() is None and asked.result()[0] == b"yes":
            self.end(key, None)  # it may have ended elsewhere, unheard; nothing shall put it back
            self._recent.part(key, outcome)

    def _ask_to_part(self, key: str, outcome: bytes) -> asyncio.Future[Reply]:
        return self._link.ask("part", key, self._records.outcome(key, outcome))

    def drop(self, key: str) -> Record | None:
        """A call may be begun anew; returns it if it was held."""
        self._touched.discard(key)
        return self._held.pop(key, None)

    def let_go(self, key: str, record: Record) -> None:
        """Drops a call that is over or gone, unless it has begun anew meanwhile."""
        if self._held.get(key) is record:
            del self._held[key]
            self._touched.discard(key)
            self._recent.note(key, record)

    def outlived(self) -> list[str]:
        """Calls held beyond their time: nobody settled them."""
        oldest = self._oldest()
        first = islice(self._held.items(), RESTORED_AT_ONCE)
        return [key for key, record in first if record.created_s < oldest]

    def _oldest(self) -> float:
        """Since when a call may have begun and not be over."""
        return time.time() - self._limits.pending_ttl_s

    # What a Redis that has lost them is told.

    async def restore(self) -> None:
        """Puts back what a Redis that started empty has lost of the calls this process holds, or did until lately."""
        recent = self._recent.all()
        records = [*self._held.values(), *(ended.record for ended in recent if ended.record is not None)]
        for start in range(0, len(records), RESTORED_AT_ONCE):
            await self._link.ask("restoring")
            await asyncio.gather(*(self.put_back(record) for record in records[start : start + RESTORED_AT_ONCE]))
        self._untold = {ended.key: ended for ended in recent if ended.outcome is not None}
        self._unheard = [ended.key for ended in recent if ended.outcome is None]

    async def put_back(self, record: Record) -> None:
        """Puts back one call, unless Redis has it."""
        await self._link.ask("restore", *self._records.restore(record))

    async def retell(self) -> None:
        """Says once more how calls ended, as soon as whoever held them has put them back."""
        untold = list(self._untold.values())
        for start in range(0, len(untold), RESTORED_AT_ONCE):
            await asyncio.gather(*(self._retell(ended) for ended in untold[start : start + RESTORED_AT_ONCE]))

    async def _retell(self, ended: Ended) -> None:
        outcome = ended.outcome or b""
        reply = await self._link.ask("settle", ended.key, self._records.outcome(ended.key, outcome))
        if ended.is_parted:
            reply = await self._ask_to_part(ended.key, outcome)
        if reply[0] != b"restoring":
            self._untold.pop(ended.key, None)

    async def lose(self) -> None:
        """Ends the calls whose end nobody has told anew; to be said when all who are alive have had the time to."""
        while unheard := self._unheard[:RESTORED_AT_ONCE]:
            await asyncio.gather(*(self._link.ask("lose", key) for key in unheard))
            del self._unheard[: len(unheard)]

    # What nobody here knows.

    def doubt(self, *keys: str, outcome: bytes | None = None) -> None:
        """Redis may have these calls or not, and nobody here runs them."""
        self._doubtful.update(dict.fromkeys(keys, outcome))
        while len(self._doubtful) > MAX_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    async def forget(self, key: str, outcome: bytes | None) -> bool:
        """Has Redis let go of a call, now or as soon as it can be asked; False if it says that it will not."""
        try:
            reply = await self._ask_to_forget(key, outcome)
        except StateUnavailable:
            reply = [b"restoring"]
        if reply[0] == b"restoring":
            self.doubt(key, outcome=outcome if len(outcome or b"") <= MAX_DOUBTFUL_BYTES else None)
        return bool(reply[0] != b"no")

    def _ask_to_forget(self, key: str, outcome: bytes | None) -> Awaitable[Reply]:
        sealed = () if outcome is None else (self._records.outcome(key, outcome),)
        return self._link.ask("forget", key, *sealed)

    def strange(self, keys: list[str]) -> list[str]:
        """Those of which nobody here knows anything."""
        return [key for key in keys if not (key in self or key in self._doubtful or key in self._forgotten)]

    async def release_doubtful(self) -> None:
        """Lets go of calls that were registered without our hearing of it, or that were to be forgotten.

        Twice: a server that was frozen may carry out an earlier `begin` after what it was asked since.
        """
        for key in list(self._forgotten):
            if key not in self and key not in self._doubtful:
                await self._ask_to_forget(key, None)
            self._forgotten.pop(key, None)
        for key, outcome in list(self._doubtful.items()):
            if key not in self:
                await self._ask_to_forget(key, outcome)
                self._forgotten[key] = None
            self._doubtful.pop(key, None)
