"""Calls whose replica died: whoever is left goes on with them as far as that is possible without their input."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import cast

from gateway.kept.standing import PREFIX
from gateway.ports import AsyncBackend, Backend
from gateway.state.port import CallState, Record, State, StateUnavailable

log = logging.getLogger("gateway.calls")

LOOK_S = 3.0  # between two looks for them; a lease is 10 s
AT_ONCE = 100
SOON_S = 0.1  # before the next look after a full one: a thousand calls a second, and whoever serves them has its turns


async def adopt_orphans(state: State, backends: Mapping[str, Backend], *, every_s: float = LOOK_S) -> None:
    """Takes them over as they appear, until it is cancelled."""
    orphans: Sequence[Record] = ()
    while True:
        await asyncio.sleep(every_s if len(orphans) < AT_ONCE else min(every_s, SOON_S))
        try:
            orphans = await state.claim_orphans(AT_ONCE)
        except StateUnavailable:
            orphans = ()
        for record in orphans:
            try:
                await _adopt(record, state, backends)
            except Exception:  # one call must not cost the others
                log.exception("a call of a replica that died could not be adopted")


async def _adopt(record: Record, state: State, backends: Mapping[str, Backend]) -> None:
    log.warning("a replica died with a call", extra={"backend": record.backend, "state": record.state.name.lower()})
    backend = backends.get(record.backend)
    if record.state is CallState.REGISTERED:
        await state.forget(record.key)  # whoever asks for it again brings its input again
    elif not record.state.is_over and backend is not None and backend.asynchronous:
        await cast(AsyncBackend, backend).resume(PREFIX + record.key)
