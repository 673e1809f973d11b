"""Calls whose replica died: whoever is left goes on with them as far as that is possible without their input."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from gateway.kept.standing import PREFIX, note_of
from gateway.ports import AsyncBackend, Backend
from gateway.state.port import CallState, Record, State, StateUnavailable

log = logging.getLogger("gateway.calls")

CancelIn = Callable[[float, str, str, str], None]  # seconds, key, backend, group

LOOK_S = 3.0  # between two looks for them; a lease is 10 s
AT_ONCE = 100
SOON_S = 0.1  # before the next look after a full one: a thousand calls a second, and whoever serves them has its turns


async def adopt_orphans(
    state: State, backends: Mapping[str, Backend], cancel_in: CancelIn, *, every_s: float = LOOK_S
) -> None:
    """Takes them over as they appear, until it is cancelled.

    `cancel_in` is that of `Running`, for calls that are to be cancelled some time after they began.
    """
    orphans: Sequence[Record] = ()
    while True:
        await asyncio.sleep(every_s if len(orphans) < AT_ONCE else min(every_s, SOON_S))
        try:
            orphans = await state.claim_orphans(AT_ONCE)
        except StateUnavailable:
            orphans = ()
        for record in orphans:
            try:
                await _adopt(record, state, backends, cancel_in)
            except Exception:  # one call must not cost the others
                log.exception("a call of a replica that died could not be adopted")


async def _adopt(record: Record, state: State, backends: Mapping[str, Backend], cancel_in: CancelIn) -> None:
    log.warning("a replica died with a call", extra={"backend": record.backend, "state": record.state.name.lower()})
    backend = backends.get(record.backend)
    if record.state is CallState.REGISTERED:
        await state.forget(record.key)  # whoever asks for it again brings its input again
        return
    if record.state.is_over or not record.note:  # without a note, its key was sealed with one that was taken away
        return
    note = note_of(record)
    if note.later is None:
        return
    if note.later.cancel_after_s:
        left_s = record.created_s + note.later.cancel_after_s - time.time()
        cancel_in(max(0.0, left_s), record.key, record.backend, note.group)
    if backend is not None and backend.asynchronous:
        await cast(AsyncBackend, backend).resume(PREFIX + record.key, note.later.run)
