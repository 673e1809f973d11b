"""The calls that this process holds (it runs or watches over them), and what it has to tell a Redis that was away.

Redis may start empty: then all calls held are put back, and those that ended a moment ago are ended once more. A call
is in doubt if Redis may have it, for the reply to `begin` was lost, while nobody here runs it: it is forgotten as soon
as Redis can be asked.
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

MAX_DOUBTFUL = 10_000  # calls to be forgotten once Redis is back; more than a process begins until it knows it is away
MAX_DOUBTFUL_BYTES = 4096  # of the outcome that such a call is forgotten with; refusals have some hundred
RESTORED_AT_ONCE = 500  # calls put back at the same time: a few batches of the link


class Holding:
    """The calls held, and those to be restored or forgotten, all by their keys."""

    def __init__(self, link: Link, records: Records, limits: StateLimits) -> None:
        self._link = link
        self._records = records
        self._limits = limits
        self._ahead_s = 0.0  # how far the clock of Redis, by which calls are dated, is ahead of our monotonic one
        self._held: dict[str, Record] = {}
        self._touched: set[str] = set()  # held calls that other replicas have changed
        self._beginning: set[str] = set()  # calls whose reply to `begin` is due; others may end them meanwhile
        self._recent = Recent(limits.result_ttl_s)
        self._untold: dict[str, Ended] = {}  # ended here; a Redis that has lost them is to be told again
        self._unheard: list[str] = []  # ended elsewhere; whoever could tell a Redis that has lost them may be dead
        self._doubtful: dict[str, bytes | None] = {}  # calls to be forgotten, with the outcome if there is one
        self._forgotten: dict[str, None] = {}  # doubtful calls that were forgotten, to be forgotten once more

    # What becomes of calls.

    def __contains__(self, key: str) -> bool:
        return key in self._held or key in self._beginning

    def get(self, key: str) -> Record | None:
        return self._held.get(key)

    def untouched(self, key: str) -> Record | None:
        """A call that is held, unless another replica has changed it or its time is over."""
        held = None if key in self._touched else self._held.get(key)
        return held if held is not None and held.created_s >= self._oldest() else None

    def touch(self, key: str) -> None:
        """Another replica has changed a call."""
        if key in self._held:
            self._touched.add(key)

    def all(self) -> dict[str, Record]:
        """Those held now, by key."""
        return dict(self._held)

    def pending(self) -> Counter[str]:
        """How many are held, by backend."""
        return Counter(record.backend for record in self._held.values())

    def expect(self, call: NewCall) -> bool:
        """A call is about to be begun; False if this process holds or begins it already, under any of its keys."""
        known = call.key in self or (call.older and any(key in self for key, _ in call.older))
        if not known:
            self._beginning.add(call.key)
        return not known

    def expected(self, call: NewCall, *, doubtful: bool) -> None:
        """The reply to `begin` has come, or never will. `doubtful`: Redis may have the call, which nobody here runs."""
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
        """A call was fetched: if another replica has moved it on, it is held, and put back if need be, as it is now."""
        held = self._held.get(found.key)
        if held is None:
            return
        if found.state >= UNKNOWN:
            self.let_go(found.key, held)
        elif held.state <= found.state:  # if they are equal its note may have changed
            self._held[found.key] = structs.replace(held, state=found.state, note=found.note)

    def is_behind(self, key: str, state: int) -> bool:
        """Whether a call is held and has moved on to `state` elsewhere."""
        held = self._held.get(key)
        return held is not None and held.state < state

    def end(self, key: str, outcome: bytes | None) -> Record | None:
        """A call is over, with this `outcome` if it ended here; returns it if it was held."""
        held = self._held.pop(key, None)
        self._touched.discard(key)
        if held is not None or outcome is not None:
            self._recent.note(key, held, outcome)
        return held

    def reduce(self, key: str, outcome: bytes) -> None:
        """Has Redis keep no more than this outcome of a call that is over. Raises StateUnavailable."""
        self._ask_to_reduce(key, outcome).add_done_callback(partial(self._reduced, key, outcome))

    def _reduced(self, key: str, outcome: bytes, asked: asyncio.Future[Reply]) -> None:
        if not asked.cancelled() and asked.exception() is None and asked.result()[0] == b"yes":
            self.end(key, None)  # it may have ended elsewhere without our hearing of it, and must not be put back
            self._recent.reduce(key, outcome)

    def _ask_to_reduce(self, key: str, outcome: bytes) -> asyncio.Future[Reply]:
        return self._link.ask("reduce", key, self._records.outcome(key, outcome))

    def drop(self, key: str) -> Record | None:
        """Holds a call no longer, because it may be begun anew; returns it if it was held."""
        self._touched.discard(key)
        return self._held.pop(key, None)

    def let_go(self, key: str, record: Record) -> None:
        """Holds a call no longer that is over or gone elsewhere, unless it has begun anew since it was `record`."""
        if self._held.get(key) is record:
            del self._held[key]
            self._touched.discard(key)
            self._recent.note(key, record)

    def outlived(self) -> list[str]:
        """Some of the calls that are held although their time is over, because nobody settled them."""
        oldest = self._oldest()
        first = islice(self._held.items(), RESTORED_AT_ONCE)
        return [key for key, record in first if record.created_s < oldest]

    def set_clock(self, now_s: float) -> None:
        """Takes the time from Redis, by which calls end there; the clock of this machine may differ."""
        self._ahead_s = now_s - time.monotonic()

    def _oldest(self) -> float:
        """When the oldest call began whose time is not over yet, by the clock of Redis."""
        return time.monotonic() + self._ahead_s - self._limits.pending_ttl_s

    # What a Redis is told that has lost its data.

    async def restore(self) -> None:
        """Puts back the calls that this process holds, or held until lately."""
        recent = self._recent.all()
        records = [*self._held.values(), *(ended.record for ended in recent if ended.record is not None)]
        for start in range(0, len(records), RESTORED_AT_ONCE):
            await self._link.ask("restoring")
            await asyncio.gather(*(self.put_back(record) for record in records[start : start + RESTORED_AT_ONCE]))
        self._untold = {ended.key: ended for ended in recent if ended.outcome is not None}
        self._unheard = [ended.key for ended in recent if ended.outcome is None]

    async def put_back(self, record: Record) -> None:
        """Puts back one call, unless Redis has it already."""
        await self._link.ask("restore", *self._records.restore(record))

    async def retell(self) -> None:
        """Tells once more how calls ended. Those that no replica has put back yet are told again the next time."""
        untold = list(self._untold.values())
        for start in range(0, len(untold), RESTORED_AT_ONCE):
            await asyncio.gather(*(self._retell(ended) for ended in untold[start : start + RESTORED_AT_ONCE]))

    async def _retell(self, ended: Ended) -> None:
        outcome = ended.outcome or b""
        reply = await self._link.ask("settle", ended.key, self._records.outcome(ended.key, outcome), True)
        if ended.is_reduced:
            reply = await self._ask_to_reduce(ended.key, outcome)
        if reply[0] != b"restoring":
            self._untold.pop(ended.key, None)

    async def lose(self) -> None:
        """Makes UNKNOWN the calls whose end nobody has told again; to be called when all replicas have had time to."""
        while unheard := self._unheard[:RESTORED_AT_ONCE]:
            await asyncio.gather(*(self._link.ask("lose", key) for key in unheard))
            del self._unheard[: len(unheard)]

    # What nobody here knows.

    def doubt(self, *keys: str, outcome: bytes | None = None) -> None:
        """Has these calls forgotten as soon as possible: Redis may have them, and nobody here runs them."""
        self._doubtful.update(dict.fromkeys(keys, outcome))
        while len(self._doubtful) > MAX_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    async def forget(self, key: str, outcome: bytes | None) -> bool:
        """Has Redis forget a call, now or as soon as it can be asked; False if it refuses."""
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
        """Those of the keys of which nobody here knows anything."""
        return [key for key in keys if not (key in self or key in self._doubtful or key in self._forgotten)]

    async def release_doubtful(self) -> None:
        """Has Redis forget the doubtful calls, each in two successive turns.

        Twice, because a server that was frozen may carry out an earlier `begin` after the first time.
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
