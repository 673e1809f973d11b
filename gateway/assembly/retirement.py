"""Backends that the configuration no longer has: no new call gets there, and when nothing is open they are closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from gateway.admission import Admission
from gateway.assembly.remembering import is_shared
from gateway.assembly.setup import Setup
from gateway.backends.server import Server
from gateway.ports import Backend, Receiver
from gateway.state.port import State

log = logging.getLogger("gateway.reload")

LOOK_S = 0.5  # between two looks at whether a backend still waits for something


class Retirement:
    """Sees backends off.

    `backends` are all by name, `receivers` those that take outcomes; each is taken out of both before it is closed.
    A call that `state` remembers ends within `pending_s` of its beginning.
    """

    def __init__(
        self, state: State, backends: dict[str, Backend], receivers: dict[str, Receiver], *, pending_s: float
    ) -> None:
        self._state = state
        self._backends = backends
        self._receivers = receivers
        self._pending_s = pending_s
        self._leaving: dict[asyncio.Task[None], Backend] = {}

    def begin(self, old: Setup, new: Setup, requests: Collection[asyncio.Task[Any]]) -> None:
        """Lets go of the backends that the new setup has not.

        Each is closed once these requests, any of which may yet call it, are over, and it has nothing open.
        """
        until = time.monotonic() + self._pending_s
        for name, backend in old.not_in(new).items():
            is_open = partial(self._is_open, name, backend, old.admissions[name], until)
            task = asyncio.create_task(self._leave(name, backend, requests, is_open))
            self._leaving[task] = backend
            task.add_done_callback(self._left)

    def _is_open(self, name: str, backend: Backend, admission: Admission[Server], until: float) -> bool:
        """Whether a backend that is to go has calls under way, or outcomes of its calls may come yet."""
        if admission.in_flight or admission.snapshot().queued or (backend.deferred and backend.open_calls):
            return True
        receiver = backend.receiver if backend.deferred else None
        if receiver is None or self._receivers.get(name) is not receiver:  # another backend has its name by now
            return False
        # Where replicas share what they remember, an outcome for another one may arrive here.
        return bool(self._state.pending()[name]) or (is_shared(self._state) and time.monotonic() < until)

    async def _leave(
        self, name: str, backend: Backend, requests: Collection[asyncio.Task[Any]], is_open: Callable[[], bool]
    ) -> None:
        if requests:
            await asyncio.wait(requests)
        while is_open():  # noqa: ASYNC110 - outcomes come in many ways, and none of them tells
            await asyncio.sleep(LOOK_S)
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._receivers.pop(name, None)
        await backend.aclose()
        log.info("a backend that was taken out of the configuration is closed", extra={"backend": name})

    def _left(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        self._leaving.pop(task, None)
        if (error := task.exception()) is not None:
            log.error("a backend could not be closed", exc_info=error)

    async def aclose(self) -> None:
        """Closes all of them now."""
        leaving = dict(self._leaving)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        for task, backend in leaving.items():
            if task.cancelled():
                await backend.aclose()
