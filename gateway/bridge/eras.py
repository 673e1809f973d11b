"""The processes of a bridged command: servers of both eras hold a connection to the era of its first request.

So one that speaks the modern revision has a second process for legacy callers, from the first of them on, if it takes
`initialize` there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from gateway.bridge.handshake import Era, Ready
from gateway.bridge.keeper import Keeper
from gateway.bridge.relay import BusyError, RequestRelay, Unread

log = logging.getLogger("gateway.bridge")


class Eras:
    """Those of one command. `era`: the only one that is served; None: all that it speaks."""

    def __init__(self, command: Sequence[str], era: Era | None) -> None:
        self.listeners: set[Unread[bytes]] = set()
        self._command = command
        self._first = Keeper(command, era, self.listeners)
        self._second: Keeper | None = None  # of legacy callers, where the first is of modern ones
        self._running: asyncio.Task[None] | None = None
        self._has_one = era is not None  # process, and no other is tried

    async def run(self) -> None:
        """Runs until it is cancelled. Raises StartError if the first process cannot be started."""
        try:
            await self._first.run()
        finally:
            if self._running is not None:
                self._running.cancel()
                await asyncio.wait([self._running])

    async def wait_ready(self) -> Ready:
        """Waits for the first process that may be asked."""
        return await self._first.wait_ready()

    async def ready(self, *, is_modern: bool) -> tuple[RequestRelay, Ready]:
        """The process for callers of an era, or the only one there is. Raises BusyError while it cannot be asked."""
        if self._second is None or is_modern:
            first = await self._first.ready()
            if is_modern or first[1].initialize_result is not None or self._has_one:
                return first
            return await self._ready_for_legacy() or first
        return await self._ready_for_legacy() or await self._first.ready()

    async def _ready_for_legacy(self) -> tuple[RequestRelay, Ready] | None:
        """The second process; None if the server does not take `initialize`. Raises BusyError."""
        if self._second is None or self._running is None:
            self._second = Keeper(self._command, "legacy", self.listeners, gives_up=True)
            self._running = asyncio.create_task(self._second.run())
        running, waiting = self._running, asyncio.ensure_future(self._second.ready())
        try:
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                return waiting.result()
        finally:
            waiting.cancel()
        self._second = None
        if running.exception() is not None:  # it cannot be started now
            raise BusyError
        self._has_one = True
        return None

    def cancel_listening(self) -> None:
        """Ends what callers wait for without an end."""
        for keeper in (self._first, self._second):
            if keeper is not None:
                keeper.cancel_listening()
