"""Backends that the configuration no longer has: no new call gets there, and when nothing is open they are closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from gateway.ports import Backend

log = logging.getLogger("gateway.reload")

LOOK_S = 0.5  # between two looks at whether a backend still waits for something


class Retirement:
    """Sees backends off. `forget` is told before one is closed."""

    def __init__(self, forget: Callable[[str, Backend], None]) -> None:
        self._forget = forget
        self._leaving: dict[asyncio.Task[None], Backend] = {}

    def __len__(self) -> int:
        return len(self._leaving)

    def begin(
        self, name: str, backend: Backend, requests: Collection[asyncio.Task[Any]], is_open: Callable[[], bool]
    ) -> None:
        """Lets a backend go once these requests, any of which may yet call it, are over, and it is not open."""
        task = asyncio.create_task(self._leave(name, backend, requests, is_open))
        self._leaving[task] = backend
        task.add_done_callback(self._left)

    async def _leave(
        self, name: str, backend: Backend, requests: Collection[asyncio.Task[Any]], is_open: Callable[[], bool]
    ) -> None:
        if requests:
            await asyncio.wait(requests)
        while is_open():  # noqa: ASYNC110 - outcomes come in many ways, and none of them tells
            await asyncio.sleep(LOOK_S)
        self._forget(name, backend)
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
