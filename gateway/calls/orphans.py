"""Takes over the calls of replicas that died, as far as that is possible without their arguments."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

from gateway.calls.outcomes import OutcomeRecorder, run_of
from gateway.calls.records import CallMetadata, is_keyed, metadata_of
from gateway.calls.status import UNREMEMBERED, UNSENT
from gateway.core.errors import StateUnavailable
from gateway.core.model import CallKey, public_id
from gateway.core.ports import Backend
from gateway.state.port import UNKNOWN, CallState, Record, State

log = logging.getLogger("gateway.calls")

CancelIn = Callable[[float, CallKey, str, CallMetadata], None]  # seconds, key, backend, metadata

LOOK_S = 3.0  # between two searches for orphans; a lease is 10 s
ORPHANS_PER_CLAIM = 100  # calls taken over in one search
SOON_S = 0.1  # before the next search if there are more: a thousand calls a second, with pauses for everything else
MAX_STRANDED = 10_000  # calls, some 200 bytes each


async def adopt_orphans(
    state: State,
    outcomes: OutcomeRecorder,
    backends: Mapping[str, Backend],
    cancel_in: CancelIn,
    *,
    every_s: float = LOOK_S,
) -> None:
    """Takes over orphans as they appear, until it is cancelled. `cancel_in` is that of `Executor`."""
    adoption = _Adoption(state, outcomes, backends, cancel_in)
    has_more = False
    while True:
        await asyncio.sleep(min(every_s, SOON_S) if has_more else every_s)
        try:
            has_more = await adoption.claim()
            has_more |= await adoption.look_at_stranded()
        except StateUnavailable:
            has_more = False


class _Adoption:
    """Adopts orphans. Those whose backend is not configured here (yet) are stranded.

    While a configuration is rolled out, replicas have different backends.
    """

    def __init__(
        self, state: State, outcomes: OutcomeRecorder, backends: Mapping[str, Backend], cancel_in: CancelIn
    ) -> None:
        self._state = state
        self._outcomes = outcomes
        self._backends = backends
        self._cancel_in = cancel_in
        self._stranded: OrderedDict[CallKey, str] = OrderedDict()  # by their keys, the names of their backends

    async def claim(self) -> bool:
        """Takes over some calls; returns whether there may be more. Raises StateUnavailable."""
        orphans = await self._state.claim_orphans(ORPHANS_PER_CLAIM)
        for record in orphans:
            await _alone(self._adopt(record))
        return len(orphans) >= ORPHANS_PER_CLAIM

    async def _adopt(self, record: Record) -> None:
        about = {"backend": record.backend, "state": record.state.name.lower()}
        log.warning("the process that ran a call has died", extra=about | {"toolgate_call_id": public_id(record.key)})
        if record.state is CallState.REGISTERED:
            if is_keyed(record):
                await self._state.forget(record.key)  # who repeats it sends its arguments again
            else:
                await self._outcomes.settle(record.key, UNSENT)
            return
        if not record.note:  # it cannot be opened once its key was taken out of `state.keys`
            return
        metadata = metadata_of(record)
        if record.state is UNKNOWN:
            self._outcomes.ended(run_of(record), UNREMEMBERED)
        if record.state.is_over or metadata.deferred is None:
            return
        if metadata.deferred.cancel_after_s:
            left_s = record.created_s + metadata.deferred.cancel_after_s - time.time()
            self._cancel_in(max(0.0, left_s), record.key, record.backend, metadata)
        await self._resume(record)

    async def _resume(self, record: Record) -> None:
        """Makes the backend look for the outcome, now or once the backend is configured here."""
        backend, deferred = self._backends.get(record.backend), metadata_of(record).deferred
        if backend is None:
            self._strand(record)
        elif backend.deferred and deferred is not None:
            await backend.resume(record.key, deferred.run)

    def _strand(self, record: Record) -> None:
        if len(self._stranded) < MAX_STRANDED:
            self._stranded[record.key] = record.backend
        else:
            log.warning(
                "too many calls belong to backends that are not configured here", extra={"backend": record.backend}
            )

    async def look_at_stranded(self) -> bool:
        """Resumes some calls whose backend is here by now; returns whether there are more.

        Without any, some of the stranded calls are looked at, and dropped if they are over.
        """
        ready = [key for key, name in self._stranded.items() if name in self._backends]
        for key in ready[:ORPHANS_PER_CLAIM] or list(islice(self._stranded, ORPHANS_PER_CLAIM)):
            try:
                record = await self._state.get(key)
            except StateUnavailable:
                self._stranded.move_to_end(key)  # others may be in a part of the state that is there
                continue
            del self._stranded[key]
            if record is None or record.state.is_over or record.replica != self._state.replica or not record.note:
                continue
            await _alone(self._resume(record))
        return len(ready) > ORPHANS_PER_CLAIM


async def _alone(work: Awaitable[None]) -> None:
    """Does some work for one call; logs its failure, which must not stop the work for others."""
    try:
        await work
    except Exception:
        log.exception("a call of a replica that died could not be resumed")
