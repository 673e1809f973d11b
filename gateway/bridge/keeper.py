"""Keeps one process of the bridged command running: starts it, makes it ready, and starts it anew when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from gateway.bridge.handshake import Era, HandshakeError, Ready, begin, find_era
from gateway.bridge.program import Program, StartError
from gateway.bridge.relay import BusyError, RequestRelay, Unread
from gateway.core.backoff import Backoff

log = logging.getLogger("gateway.bridge")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
STEADY_S = 60.0  # a process that ran so long did not fail at its start
READY_WAIT_S = 10.0  # how long a request waits for a process that starts


class Keeper:
    """A process, one after the other. `listeners` get the notifications that belong to no request.

    `gives_up`: it ends if the first does not become ready.
    """

    def __init__(
        self, command: Sequence[str], era: Era | None, listeners: set[Unread[bytes]], *, gives_up: bool = False
    ) -> None:
        self._listeners = listeners
        self._gives_up = gives_up
        self._command = command
        self._fixed_era = era
        self._era = era
        self._current: tuple[RequestRelay, Ready] | None = None
        self._is_ready = asyncio.Event()

    async def ready(self) -> tuple[RequestRelay, Ready]:
        """The process that may be asked, waiting a while for one that starts. Raises BusyError."""
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self._is_ready.wait()
        except TimeoutError:
            raise BusyError from None
        assert self._current is not None
        return self._current

    async def wait_ready(self) -> Ready:
        """Waits for the first process that may be asked."""
        await self._is_ready.wait()
        assert self._current is not None
        return self._current[1]

    def cancel_listening(self) -> None:
        """Ends what callers wait for without an end."""
        if self._current is not None:
            self._current[0].cancel_listening()

    async def run(self) -> None:
        """Runs one process after the other until it is cancelled. Raises StartError if the first cannot be started."""
        backoff, has_run = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S), False
        while True:
            began = monotonic()
            try:
                self._era = self._era or await find_era(self._command)
                await self._run_one(self._era)
                has_run = True
                if self._gives_up and self._current is None:
                    return
            except StartError as exc:
                if not has_run:
                    raise
                log.warning("cannot be started", extra={"reason": str(exc)})
            if monotonic() - began >= STEADY_S:
                backoff.reset()
            pause_s = backoff.next_s()
            log.info("starts again", extra={"after_s": pause_s})
            await asyncio.sleep(pause_s)

    async def _run_one(self, era: Era) -> None:
        """Runs one process to its end."""
        began, program = monotonic(), await Program.start(self._command)
        log.info("started", extra={"pid": program.pid})
        relay = RequestRelay(program, self._listeners)
        reading = asyncio.create_task(program.run(relay.receive))
        reading.add_done_callback(lambda _: relay.end())  # also those of the handshake wait no longer
        try:
            self._current = relay, await begin(relay, era)
            self._is_ready.set()
            log.info("ready", extra={"pid": program.pid, "version": self._current[1].version})
            await asyncio.wait([reading])
        except HandshakeError as exc:
            self._era = self._fixed_era
            log.warning("not ready", extra={"pid": program.pid, "reason": str(exc)})
        finally:
            self._is_ready.clear()
            relay.end()
            code = await program.end()
            reading.cancel()  # it has ended: whatever it has still said is for nobody
            await asyncio.wait([reading])
            fields = {
                "pid": program.pid,
                "code": code,
                "lost_requests": relay.lost,
                "ran_s": round(monotonic() - began, 1),
            }
            log.info("ended", extra=fields)
