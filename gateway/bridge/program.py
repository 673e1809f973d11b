"""One process of the bridged command: a message per line on its standard input and output (MCP, Transports, stdio)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Any

from gateway.logs.output import printable

log = logging.getLogger("gateway.bridge")

MAX_LINE_BYTES = 16 * 1024 * 1024  # a result with images; what is longer could not be told from a server gone wild
LINES_PER_TURN = 64  # handed over between two turns of the event loop
MAX_LOGGED = 2000  # bytes of a line of standard error
END_S = 5.0  # how long a process may take to end by itself, and again after SIGTERM
BURST = 200  # lines at once: what programs say as they start, or a traceback or two
LINES_PER_S = 10.0


class StartError(Exception):
    """The command cannot be started; the message is one sentence for the operator."""


class Program:
    """A running process. `run` reads it to its end; `end` ends it, whatever state it is in."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self.pid = process.pid
        self._process = process
        self._stdin = process.stdin

    @classmethod
    async def start(cls, command: Sequence[str]) -> Program:
        """Starts the command, in a process group of its own. Raises StartError."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES, start_new_session=True
            )
        )
        try:
            return cls(await asyncio.shield(starting))
        except asyncio.CancelledError:  # uvloop cannot cancel half a start
            with suppress(OSError, ValueError):
                await cls(await starting).end()
            raise
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise StartError(f"Cannot start {printable(command[0])}: {reason}.") from exc

    def write(self, message: bytes) -> None:
        """Queues a message, which has no line end in it."""
        if not self._stdin.is_closing():
            self._stdin.write(message + b"\n")

    @property
    def unsent_bytes(self) -> int:
        """How much was written that the process has not read."""
        return self._stdin.transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Waits while the process does not read."""
        with suppress(ConnectionError):
            await self._stdin.drain()

    async def run(self, on_line: Callable[[bytes], None]) -> None:
        """Hands over each line of standard output, and logs those of standard error, until the first has ended."""
        complaining = asyncio.create_task(self._log_complaints())
        assert self._process.stdout is not None
        try:
            for number in count():
                line = await self._process.stdout.readline()
                if not line:
                    break
                if line.strip():
                    on_line(line)
                if not number % LINES_PER_TURN:  # as long as lines are there, reading one does not wait
                    await asyncio.sleep(0)
        except ValueError:
            log.warning("a line is too long", extra={"pid": self.pid, "max_bytes": MAX_LINE_BYTES})
        finally:
            await asyncio.wait([complaining], timeout=0.2)  # what it said last is often why
            complaining.cancel()

    async def _log_complaints(self) -> None:
        assert self._process.stderr is not None
        sparing = SparingLog(logging.INFO, "stderr")
        try:
            for number in count(1):
                if not number % LINES_PER_TURN:
                    await asyncio.sleep(0)
                try:
                    line = await self._process.stderr.readline()
                except ValueError:  # too long; the next piece of it follows
                    continue
                if not line:
                    return
                if text := line[:MAX_LOGGED].decode(errors="replace").strip():
                    sparing.write({"pid": self.pid, "line": text})
        finally:
            sparing.end({"pid": self.pid})

    async def end(self, patience_s: float = END_S) -> int:
        """Ends the process: closes its input, then SIGTERM, then SIGKILL, also for what it has started.

        `patience_s` is how long it may take each time. Returns its exit code, as `subprocess` has it.
        """
        self._stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self._signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._process.wait()
                    break
        self._signal(signal.SIGKILL)  # what it has started and left
        self._process._transport.close()  # type: ignore[attr-defined]  # closes the pipes; there is no other way
        return self._process.returncode if self._process.returncode is not None else -signal.SIGKILL

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class SparingLog:
    """Logs lines of one kind: BURST of them, then LINES_PER_S. The others are counted in `left_out` of the next one."""

    def __init__(self, level: int, message: str, clock: Callable[[], float] = monotonic) -> None:
        self._level = level
        self._message = message
        self._clock = clock
        self._room, self._since = float(BURST), clock()
        self._left_out = 0

    def write(self, fields: dict[str, Any]) -> None:
        """Logs a line, or counts it."""
        now = self._clock()
        self._room = min(self._room + (now - self._since) * LINES_PER_S, BURST)
        self._since = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        self._log(fields)

    def end(self, fields: dict[str, Any]) -> None:
        """Logs how many were left out last, if any were."""
        if self._left_out:
            self._log(fields)

    def _log(self, fields: dict[str, Any]) -> None:
        if self._left_out:
            fields, self._left_out = {**fields, "left_out": self._left_out}, 0
        log.log(self._level, self._message, extra=fields)
