"""One worker's place: whoever fills it dies and is replaced, its sockets stay."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from gateway.model import JsonObject
from gateway.processes.worker import MAX_REPORT_BYTES, REPORT_S, packed
from gateway.server import Stop
from gateway.settings import Config

log = logging.getLogger("gateway.workers")

LASTING_S = 10.0  # a worker that lived so long did not die of starting
FIRST_PAUSE_S = 0.25  # before a worker is replaced that did not, twice as long each time
LAST_PAUSE_S = 15.0
# Reports that may be missed. What a loop does in one go takes it a second at the most, and it is looked in on every
# second: after ten it hangs, and whoever the kernel deals to it hangs with it.
MISSED = round(10.0 / REPORT_S)
MISSED_AT_FIRST = round(60.0 / REPORT_S)  # to start an interpreter on a machine that is busy starting others, too


class Place:
    """Keeps a worker in one place. `ready` is set while it accepts callers, `failed` once one died before it did.

    One that has missed more than `patience` reports hangs.
    """

    def __init__(self, number: int, directory: Path, stop: Stop, *, patience: int = MISSED) -> None:
        self.ready, self.failed = asyncio.Event(), asyncio.Event()
        self._starts = 0
        self._number = number
        self._patience = patience
        self._directory = directory
        self._stop = stop
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._applied: asyncio.Future[bool] | None = None
        self._given: Config | None = None
        self._report: JsonObject = {}
        self._reported_at = 0.0
        self._missed = 0  # reports, since the last one

    async def keep(self, sockets: Sequence[socket.socket], config: Callable[[], Config]) -> None:
        """Has a worker serve callers at these sockets until all are to stop."""
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stop.asked.is_set():
            begun = loop.time()
            code = await self._serve(sockets, config)
            if self._stop.asked.is_set():
                return
            lasted_s = loop.time() - begun
            log.warning("a worker died", extra={"worker": self._number, "code": code, "lasted_s": round(lasted_s, 1)})
            if lasted_s >= LASTING_S:
                pause_s = FIRST_PAUSE_S
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.asked.wait()
            pause_s = min(pause_s * 2, LAST_PAUSE_S)

    async def _serve(self, sockets: Sequence[socket.socket], config: Callable[[], Config]) -> int:
        """Runs one worker to its end; returns its exit code."""
        self._starts += 1
        ours, theirs = socket.socketpair()
        with theirs:
            reader, self._writer = await asyncio.open_connection(sock=ours, limit=MAX_REPORT_BYTES)
            self._process = await self._start(theirs, sockets)
        if self._stop.asked.is_set():  # while it was begun nobody could tell it
            self.terminate()
        watching = asyncio.create_task(self._watch(self._process))
        try:
            self._give(config())
            async for line in _lines(reader):
                self._take(json.loads(line), config)
            return await self._process.wait()
        finally:
            watching.cancel()
            if not self.ready.is_set():
                self.failed.set()
            self.ready.clear()
            self._report = {}
            self._settle(ok=True)  # the next one starts by the configuration there is then
            self._writer.close()
            self._writer = None

    async def _start(self, control: socket.socket, sockets: Sequence[socket.socket]) -> Process:
        numbers = [sock.fileno() for sock in sockets]
        listen = [word for number in numbers for word in ("--listen", str(number))]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *(f"-W{option}" for option in sys.warnoptions),
            "-P",  # what is imported there is what is imported here, wherever it is started
            *("-m", "gateway.processes.worker", "--control", str(control.fileno()), "--metrics", str(self._directory)),
            *listen,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=(control.fileno(), *numbers),
            start_new_session=True,  # Ctrl-C is for this process alone: to the worker it would be a second signal
        )

    async def _watch(self, process: Process) -> None:
        """Kills a worker from which nothing is heard any more, until all are to stop: that has a deadline of its own.

        Reports that were due are counted, not seconds: where the whole machine stood still, all are late alike.
        """
        self._missed = 0
        while not self._stop.asked.is_set():
            if self._missed > (self._patience if self._report else MISSED_AT_FIRST):
                log.warning("a worker hangs and is killed", extra={"worker": self._number, "pid": process.pid})
                self.kill()
                return
            await asyncio.sleep(REPORT_S)
            self._missed += 1

    def _take(self, message: JsonObject, config: Callable[[], Config]) -> None:
        """Hears what the worker says."""
        match message:
            case {"kind": "ready"}:
                self.ready.set()
                if self._given is not config():  # it has changed since the worker began to start
                    self._give(config())
            case {"kind": "report", "details": details}:
                self._report, self._reported_at = details, asyncio.get_running_loop().time()
                self._missed = 0
            case {"kind": "applied", "ok": ok}:
                self._settle(ok=bool(ok))

    def _give(self, config: Config) -> None:
        self._given = config
        if self._writer is not None:
            self._writer.write(packed(config))

    def _settle(self, *, ok: bool) -> None:
        if self._applied is not None and not self._applied.done():
            self._applied.set_result(ok)

    def lacks(self, config: Config) -> bool:
        """Whether a worker accepts callers here that was not given this configuration."""
        return self.ready.is_set() and self._given is not config

    def apply(self, config: Config) -> asyncio.Future[bool]:
        """Has the worker go by another configuration; whether it could. A worker that dies of something else could."""
        self._applied = asyncio.get_running_loop().create_future()
        self._give(config)
        return self._applied

    def terminate(self) -> None:
        """Asks the worker to stop; asked twice it stops at once."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    @property
    def status(self) -> str:
        """`ok`, `starting` or `draining`, by its last report."""
        return str(self._report.get("status", "starting")) if self.ready.is_set() else "starting"

    def details(self) -> JsonObject:
        """The worker's own detailed health, and who it is."""
        age_s = asyncio.get_running_loop().time() - self._reported_at if self._report else None
        return self._report | {
            "pid": None if self._process is None else self._process.pid,
            "status": self.status,
            "starts": self._starts,
            "report_age_s": None if age_s is None else round(age_s, 1),
        }


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What is said, to the end of the conversation."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            yield line
