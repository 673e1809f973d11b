"""How backends that were removed from the configuration are drained, and when nothing is under way any more."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any

from gateway.assembly.factories import is_shared
from gateway.assembly.generation import Generation
from gateway.auth.service import HttpAuthorizer
from gateway.calls.registry import Calls
from gateway.core.ports import Backend, Receiver
from gateway.state.port import State
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server

log = logging.getLogger("gateway.reload")

BACKEND_LOOK_S = 0.5  # between two looks at whether a backend still has open calls
QUIET_LOOK_S = 0.1  # between two looks at whether results are still to be stored


class BackendDrainer:
    """Drains and closes backends that were removed from the configuration, and an authorizer that was.

    `backends` and `receivers` hold all of them by name; each is removed from both before it is closed. A call that
    `state` remembers ends within `pending_s` of its beginning.
    """

    def __init__(
        self, state: State, backends: dict[str, Backend], receivers: dict[str, Receiver], *, pending_s: float
    ) -> None:
        self._state = state
        self._backends = backends
        self._receivers = receivers
        self._pending_s = pending_s
        self._draining: dict[asyncio.Task[None], Backend | HttpAuthorizer] = {}

    def begin(self, old: Generation, new: Generation, requests: Collection[asyncio.Task[Any]]) -> None:
        """Drains the backends that the new generation does not have.

        Each is closed once these requests, any of which may yet call it, are over, and it has no open calls.
        """
        until = time.monotonic() + self._pending_s
        for name, backend in old.not_in(new).items():
            is_open = partial(self._is_open, name, backend, old.admissions[name], until)
            self._track(backend, self._drain(name, backend, requests, is_open))
        if old.authorizer is not None and old.authorizer is not new.authorizer:
            self._track(old.authorizer, self._close_after(old.authorizer, requests))

    def _track(self, part: Backend | HttpAuthorizer, draining: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(draining)
        self._draining[task] = part
        task.add_done_callback(self._ended)

    def _is_open(self, name: str, backend: Backend, admission: Admission[Server], until: float) -> bool:
        """Whether a removed backend has calls under way, or outcomes of its calls may yet arrive."""
        if admission.in_flight or admission.queued or (backend.deferred and backend.open_calls):
            return True
        receiver = backend.receiver if backend.deferred else None
        if receiver is None or self._receivers.get(name) is not receiver:  # another backend has its name by now
            return False
        # Where replicas share what they remember, an outcome for another one may arrive here.
        return bool(self._state.pending()[name]) or (is_shared(self._state) and time.monotonic() < until)

    async def _drain(
        self, name: str, backend: Backend, requests: Collection[asyncio.Task[Any]], is_open: Callable[[], bool]
    ) -> None:
        if requests:
            await asyncio.wait(requests)
        while is_open():  # noqa: ASYNC110 - outcomes arrive in many ways, and none of them sets an event
            await asyncio.sleep(BACKEND_LOOK_S)
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._receivers.pop(name, None)
        await backend.aclose()
        log.info("a backend that was taken out of the configuration is closed", extra={"backend": name})

    async def _close_after(self, authorizer: HttpAuthorizer, requests: Collection[asyncio.Task[Any]]) -> None:
        if requests:
            await asyncio.wait(requests)
        await authorizer.aclose()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        self._draining.pop(task, None)
        if (error := task.exception()) is not None:
            log.error("what was taken out of the configuration could not be closed", exc_info=error)

    async def aclose(self) -> None:
        """Closes all of them now."""
        draining = dict(self._draining)
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        for task, part in draining.items():
            if task.cancelled():
                await part.aclose()


async def until_quiet(
    under_way: Callable[[], set[asyncio.Task[Any]]], calls: Calls, is_pending: Callable[[], bool]
) -> None:
    """Returns when nothing is under way or pending. When it is cancelled, it stops the calls that are running.

    Its own task may be among those under way.
    """
    try:
        while True:
            if running := under_way() - {asyncio.current_task()}:
                await asyncio.wait(running)
            elif is_pending():
                await asyncio.sleep(QUIET_LOOK_S)
            else:
                return
    except asyncio.CancelledError:
        calls.stop()
        raise
