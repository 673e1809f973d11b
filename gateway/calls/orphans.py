"""Calls whose replica died: another one goes on with them, as far as that is possible without their input."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

from gateway.calls.outcomes import OutcomeRecorder, run_of
from gateway.calls.status import PREFIX, UNREMEMBERED, UNSENT, CallMetadata, can_be_repeated, metadata_of
from gateway.ports import Backend
from gateway.state.port import UNKNOWN, CallState, Record, State, StateUnavailable

log = logging.getLogger("gateway.calls")

CancelIn = Callable[[float, str, str, CallMetadata], None]  # seconds, key, backend, note

LOOK_S = 3.0  # between two looks for orphans; a lease is 10 s
AT_ONCE = 100  # calls taken over in one look
SOON_S = 0.1  # before the next look if there are more: a thousand calls a second, with pauses for everything else
MAX_STRANDED = 10_000  # calls, some 200 bytes each


async def adopt_orphans(
    state: State,
    endings: OutcomeRecorder,
    backends: Mapping[str, Backend],
    cancel_in: CancelIn,
    *,
    every_s: float = LOOK_S,
) -> None:
    """Takes over orphans as they appear, until it is cancelled.

    `cancel_in` is that of `Running`, for calls that are to be cancelled some time after they began.
    """
    adoption = _Adoption(state, endings, backends, cancel_in)
    has_more = False
    while True:
        await asyncio.sleep(min(every_s, SOON_S) if has_more else every_s)
        try:
            has_more = await adoption.claim()
            has_more |= await adoption.look_at_stranded()
        except StateUnavailable:
            has_more = False


class _Adoption:
    """What a replica makes of the calls that it takes over.

    Those whose backend is not here (yet) are stranded: while a configuration is rolled out, replicas have different
    backends.
    """

    def __init__(
        self, state: State, endings: OutcomeRecorder, backends: Mapping[str, Backend], cancel_in: CancelIn
    ) -> None:
        self._state = state
        self._endings = endings
        self._backends = backends
        self._cancel_in = cancel_in
        self._stranded: OrderedDict[str, str] = OrderedDict()  # by their keys, the names of their backends

    async def claim(self) -> bool:
        """Takes over some calls; returns whether there may be more. Raises StateUnavailable."""
        orphans = await self._state.claim_orphans(AT_ONCE)
        for record in orphans:
            await _alone(self._adopt(record))
        return len(orphans) >= AT_ONCE

    async def _adopt(self, record: Record) -> None:
        log.warning("a replica died with a call", extra={"backend": record.backend, "state": record.state.name.lower()})
        if record.state is CallState.REGISTERED:
            if can_be_repeated(record):
                await self._state.forget(record.key)  # whoever repeats it brings its input again
            else:
                await self._endings.settle(record.key, UNSENT)
            return
        if not record.note:  # a note cannot be opened once its key was taken out of `state.keys`
            return
        note = metadata_of(record)
        if record.state is UNKNOWN:
            self._endings.ended(run_of(record.backend, note), UNREMEMBERED)
        if record.state.is_over or note.later is None:
            return
        if note.later.cancel_after_s:
            left_s = record.created_s + note.later.cancel_after_s - time.time()
            self._cancel_in(max(0.0, left_s), record.key, record.backend, note)
        await self._go_on(record)

    async def _go_on(self, record: Record) -> None:
        """Has the backend look for the outcome, now or once the backend is here."""
        backend, later = self._backends.get(record.backend), metadata_of(record).later
        if backend is None:
            self._strand(record)
        elif backend.deferred and later is not None:
            await backend.resume(PREFIX + record.key, later.run)

    def _strand(self, record: Record) -> None:
        if len(self._stranded) < MAX_STRANDED:
            self._stranded[record.key] = record.backend
        else:
            log.warning("too many calls are of backends that are not here", extra={"backend": record.backend})

    async def look_at_stranded(self) -> bool:
        """Goes on with some calls whose backend is here by now; returns whether there are more.

        If there is none, some of the stranded calls are looked at, and dropped if they are over.

        Raises StateUnavailable.
        """
        ready = [key for key, name in self._stranded.items() if name in self._backends]
        for key in ready[:AT_ONCE] or list(islice(self._stranded, AT_ONCE)):
            record = await self._state.get(key)
            del self._stranded[key]
            if record is None or record.state.is_over or record.replica != self._state.replica or not record.note:
                continue
            await _alone(self._go_on(record))
        return len(ready) > AT_ONCE


async def _alone(work: Awaitable[None]) -> None:
    """Does some work for one call. If it fails, that must not cost the others."""
    try:
        await work
    except Exception:
        log.exception("a call of a replica that died could not be gone on with")
