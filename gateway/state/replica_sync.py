"""The background work of a replica for one partition: it keeps its lease, restores what was lost, learns of changes.

One heartbeat extends the lease of all its calls there. A partition that went away is tried again with growing pauses,
and gets back the calls it lost. Wake-ups tell of changes; a slow poll makes up for wake-ups that got lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from msgspec import Struct

from gateway.core.backoff import Backoff
from gateway.core.errors import StateUnavailable
from gateway.core.model import CallKey
from gateway.redisclient.store import Scripts
from gateway.state.common import Waiters
from gateway.state.owned_calls import OwnedCalls, portions
from gateway.state.port import CallState, Capacity, Quota, Record

log = logging.getLogger("gateway.state")

FIRST_RETRY_S = 0.05
EARLY = 0.01  # of the time between two that come regularly: so much earlier than planned, one has come all the same
LAST_RETRY_S = 1.0  # shorter than `settle_in_s`: a restarted Redis gets our calls back before callers ask for them
TOGETHER_S = 0.25  # within which the same of several partitions is one line: those of one server come and go together

T = TypeVar("T")


class Reports:
    """Logs what befalls partitions. The state sets the callbacks."""

    def __init__(self, place: str, partitions: int) -> None:
        self._place = place
        self._partitions = partitions
        self._away = _Together(partitions, self._say_away)
        self._reached = _Together(partitions, self._say_reached)
        self._emptied = _Together(partitions, self._say_emptied)
        self.on_changed: Callable[[CallKey], None] = lambda key: None  # another replica has changed that call
        self.on_lost: Callable[[], None] = lambda: None  # data were lost
        self.on_quota: Callable[[Quota, bool], None] = lambda quota, is_full: None  # as in `port.State`
        self.on_reached: Callable[[], None] = lambda: None  # partitions can be used (again)

    def away(self, reason: str) -> None:
        """A partition cannot be reached any more."""
        self._away.add(reason)

    def reached(self) -> None:
        """A partition can be used."""
        self._reached.add(None)

    def emptied(self, restored: int) -> None:
        """A partition has lost its data; so many calls were put back."""
        self._emptied.add(restored)

    def _say_away(self, reasons: Sequence[str]) -> None:
        log.warning("the state cannot be reached", extra={"detail": reasons[0], **self._how_many(reasons)})

    def _say_reached(self, reached: Sequence[None]) -> None:
        log.info("the state is reached", extra=self._how_many(reached))
        self.on_reached()

    def _say_emptied(self, restored: Sequence[int]) -> None:
        detail = (
            f"{self._place} was emptied, or came up without its data; calls under way are put back, "
            "but a call that is over may run again when it is repeated"
        )
        extra = {"detail": detail, "restored": sum(restored), **self._how_many(restored)}
        log.warning("the state has lost its data", extra=extra)
        self.on_lost()

    def _how_many(self, events: Sequence[object]) -> dict[str, str]:
        return {} if self._partitions == 1 else {"partitions": f"{len(events)} of {self._partitions}"}


class _Together(Generic[T]):
    """Collects what befalls partitions at about the same time. A single partition waits for no other."""

    def __init__(self, partitions: int, say: Callable[[Sequence[T]], None]) -> None:
        self._partitions = partitions
        self._say = say
        self._events: list[T] = []

    def add(self, event: T) -> None:
        self._events.append(event)
        if self._partitions == 1:
            self._flush()
        elif len(self._events) == 1:
            asyncio.get_running_loop().call_later(TOGETHER_S, self._flush)

    def _flush(self) -> None:
        events, self._events = self._events, []
        self._say(events)


class Timing(Struct, frozen=True, kw_only=True):
    """Which replica is dead after how long."""

    lease_s: float = 10.0  # without a heartbeat for so long, a replica counts as dead
    beat_s: float = 2.0  # between two heartbeats
    # Once Redis came up empty, replicas have so long to restore what they own, and no call is begun in that time. It
    # exceeds `beat_s`, because they may notice that late.
    settle_in_s: float = 3.0
    poll_s: float = 2.0  # between two looks at owned calls, for changes whose wake-ups got lost

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < min(self.settle_in_s, self.lease_s / 2):
            raise ValueError("several heartbeats fit into a lease, and one into the settling in")


class ReplicaSync:
    """Three loops, each with pauses: the heartbeat, fetching calls that have changed, the poll."""

    def __init__(
        self,
        owned: OwnedCalls,
        scripts: Scripts,
        waiters: Waiters,
        timing: Timing,
        reports: Reports,
        *,
        phase_s: float,
        watch: Callable[[str], Awaitable[Record | None]],
    ) -> None:
        """`watch` fetches a call and has Redis wake this process when the call is over.

        Partitions with the same `phase_s` do things at the same times, so that one command brings them all.
        """
        self.is_settled = False  # Redis is there, and has everything that replicas own
        self.settled = asyncio.Event()  # it was at least once
        self._owned = owned
        self._scripts = scripts
        self._waiters = waiters
        self._timing = timing
        self._reports = reports
        self._phase_s = phase_s
        self._watch = watch
        self.epoch = 0  # when the data that we know began, by the clock of Redis; 0: we know none yet
        self._birth = b""  # the same, but unchanged by a restart of Redis that keeps them
        # The next claim has to look for calls that are ours in Redis only: handed over by a claim whose reply was lost,
        # or of long ago, in old data that Redis has started with.
        self.claims_in_doubt = False
        self.has_dead = False  # there are replicas whose lease has run out, and which may have left calls
        self.capacity: Capacity | None = None  # as the last heartbeat found it
        self.reason = "it was not reached yet"  # why it is not settled
        self._up_since = 0.0
        self._hurry = asyncio.Event()
        self._stale: set[str] = set()
        self._some_stale = asyncio.Event()

    @property
    def may_judge(self) -> bool:
        """Whether a lease that has run out means a death: every replica had a whole lease of time to renew its own."""
        return self.is_settled and asyncio.get_running_loop().time() - self._up_since >= self._timing.lease_s

    @property
    def may_claim(self) -> bool:
        """Whether there may be calls to be taken over, and this replica may do so."""
        return (self.has_dead or self.claims_in_doubt) and self.may_judge

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        """The work, each to be run until it is cancelled."""
        return self._beat(), self._refresh(), self._poll()

    def note_loss(self, reason: str) -> None:
        """Notes that Redis has stopped answering, and tries it again at once."""
        self._reports.away(reason)
        self.is_settled, self.reason = False, reason
        self.hurry()

    def hurry(self) -> None:
        """Makes the next heartbeat come at once: the partition may have gone, moved, or lost its data."""
        self._hurry.set()

    def note_listening(self) -> None:
        """Notes that wake-ups arrive, perhaps again: those of the time before are lost."""
        self._fetch(self._waiters)
        self.claims_in_doubt = True
        self.hurry()

    def note_change(self, key: str) -> None:
        """Notes that another replica has changed a call."""
        self._owned.mark_changed(key)
        self._reports.on_changed(CallKey(key))
        self.look_at(key)

    def look_at(self, key: str) -> None:
        """Has a call fetched, if a caller waits for it."""
        if key in self._waiters:
            self._fetch((key,))

    def _fetch(self, keys: Iterable[str]) -> None:
        self._stale.update(keys)
        self._some_stale.set()

    async def _beat(self) -> None:
        # Of replicas that were cut off together, the last is back before the first may judge: within a lease.
        backoff = Backoff(FIRST_RETRY_S, min(LAST_RETRY_S, self._timing.lease_s / 2))
        while True:
            try:
                is_restoring = await self._beat_once()
            except StateUnavailable as exc:
                self.reason = str(exc)
                pause_s = backoff.next_s()
            else:
                backoff.reset()
                self._set_settled(not is_restoring)
                pause_s = self._timing.beat_s if self.is_settled else self._timing.settle_in_s / 8
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._next(pause_s)):
                    await self._hurry.wait()

    def _next(self, every_s: float) -> float:
        """When something is due that comes so often, by the clock of the loop: the same time in every partition."""
        past = (asyncio.get_running_loop().time() - self._phase_s) / every_s
        # A timer may go off a little before its time, by the rounding of floats alone: that counts as reached.
        return self._phase_s + (math.floor(past + EARLY) + 1) * every_s

    async def _beat_once(self) -> bool:
        """Extends the lease and restores what Redis lacks; returns whether other replicas still do.

        Raises StateUnavailable.
        """
        owned, scripts = self._owned, self._scripts
        expired = owned.expired()
        reply = await scripts.ask("beat", [record.key for record in expired], self.epoch, probing=True)
        _, epoch, is_restoring, now_ms, used_bytes, max_bytes, birth, dead = reply
        self.capacity = Capacity(used_bytes, max_bytes or None) if used_bytes else None
        self.has_dead = bool(dead)
        owned.set_clock(now_ms / 1000)
        for record in expired:
            owned.release(record)
        if not scripts.is_up or epoch != self.epoch:
            scripts.is_up = True
            self._up_since = asyncio.get_running_loop().time()
            restored = await owned.restore()
            if self._birth not in (b"", birth):
                self._reports.emptied(restored)
            self._birth = birth
            is_restoring = (await scripts.ask("restored"))[0] == b"restoring"
            self.epoch = epoch
        await owned.report_outcomes()
        if self.may_judge:
            await owned.mark_unknown()
        await owned.forget_doubtful()
        return bool(is_restoring)

    def _set_settled(self, is_settled: bool) -> None:
        if not is_settled:
            self.is_settled, self.reason = False, "replicas put back what it has lost"
        elif not self.is_settled:
            self._reports.reached()
            self.is_settled = True
            self.settled.set()
            self._fetch(self._waiters)

    async def _refresh(self) -> None:
        while True:
            await self._some_stale.wait()
            self._some_stale.clear()
            keys, self._stale = list(self._stale), set()
            for portion in portions(keys):
                await asyncio.gather(*(self._refresh_one(key) for key in portion))

    async def _refresh_one(self, key: str) -> None:
        try:
            record = await self._watch(key)
        except StateUnavailable:
            return  # once Redis is back, every call that callers wait for is fetched
        if record is not None:
            self._owned.learn(record)
        self._waiters.notify(key, record)

    async def _poll(self) -> None:
        while True:
            await _sleep_until(self._next(self._timing.poll_s))
            owned = dict(self._owned)
            with suppress(StateUnavailable):
                for portion in portions(list({**dict.fromkeys(self._waiters), **owned})):
                    await self._poll_portion(portion, owned)

    async def _poll_portion(self, keys: Sequence[str], owned: dict[str, Record]) -> None:
        reply = await self._scripts.ask("states", keys)
        if reply[0] == b"restoring" or reply[2] != self.epoch:
            self.hurry()  # Redis came up empty behind an unbroken connection
            return
        for key, state in zip(keys, reply[1], strict=True):
            if not state or state > CallState.ACCEPTED:
                self.look_at(key)
            if key in owned and (not state or state >= CallState.UNKNOWN):
                self._owned.release(owned[key])
                self._reports.on_changed(CallKey(key))
            elif (now := self._owned.get(key)) is not None and now.state < state:  # it has moved on elsewhere
                self._fetch((key,))


async def _sleep_until(when: float) -> None:
    """Sleeps until then by the clock of the loop. A pause in seconds would end at another time in each partition."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(when):
            await asyncio.get_running_loop().create_future()
