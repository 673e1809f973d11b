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
from gateway.processes.sockets import renew
from gateway.processes.worker import AT_ONCE, LOST, MAX_REPORT_BYTES, REPORT_S, WITHOUT_DELAY, packed
from gateway.server import Stop
from gateway.settings import Config

log = logging.getLogger("gateway.workers")

LASTING_S = 10.0  # a worker that lived so long did not die of starting
FIRST_PAUSE_S = 0.25  # before a worker is replaced that did not, twice as long each time
LAST_PAUSE_S = 15.0
APPLY_S = 60.0  # for a worker to put a configuration to use; new backends are given 10 s to answer
# Reports that may be missed. Nothing keeps an event loop busy for more than a second: without a report for ten of them
# a worker hangs, and every caller that the kernel deals to it hangs with it.
MISSED = round(10.0 / REPORT_S)
MISSED_AT_FIRST = round(60.0 / REPORT_S)  # to start an interpreter on a machine that is busy starting others, too


class Place:
    """Keeps a worker in one place, by the configuration that counts: starts it, and replaces one that dies or hangs.

    `ready` is set while a worker accepts callers by that configuration, `failed` once one has died that never did.
    `reason` is what the last of those had to say. A worker that has missed more than `patience` reports hangs.
    `has_lost`: one has ended with results that it could not write down.
    """

    def __init__(
        self,
        number: int,
        directory: Path,
        stop: Stop,
        *,
        patience: int = MISSED,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self.ready, self.failed = asyncio.Event(), asyncio.Event()
        self.reason: str | None = None
        self.has_lost = False
        self._starts = 0
        self._has_served = False  # the worker that is there or was last
        self._sockets: list[socket.socket] = []
        self._number = number
        self._patience = patience
        self._first_pause_s = first_pause_s
        self._hurried = asyncio.Event()  # nothing is won any more by waiting with the next worker
        self._directory = directory
        self._stop = stop
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asked = 0  # the number of the configuration that it was given last, and its answer to that
        self._applied: asyncio.Future[bool] | None = None
        self._given: Config | None = None
        self._report: JsonObject = {}
        self._reported_at = 0.0
        self._missed = 0  # reports, since the last one

    async def keep(self, sockets: list[socket.socket], config: Callable[[], Config]) -> None:
        """Has a worker serve callers at these sockets until all are to stop; at others while there is none."""
        self._sockets = sockets
        pause_s = self._first_pause_s
        loop = asyncio.get_running_loop()
        while not self._stop.asked.is_set():
            begun = loop.time()
            self._hurried.clear()
            try:
                code: int | None = await self._serve(sockets, config)
                self.has_lost |= code == LOST
            except OSError as exc:  # as many processes as there can be, or no memory for another; that may pass
                code, self.reason = None, f"No worker can be started: {exc.strerror or exc}."
                self.failed.set()
            if self._stop.asked.is_set():
                return
            if not self._has_served:  # and the next one may not either: callers go to the other workers meanwhile
                renew(sockets)
            lasted_s = loop.time() - begun
            told: JsonObject = {"worker": self._number, "code": code, "lasted_s": round(lasted_s, 1)}
            log.warning("a worker died", extra=told | ({"reason": self.reason} if self.reason else {}))
            if lasted_s >= LASTING_S:
                pause_s = self._first_pause_s
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurried.wait()
            pause_s = min(pause_s * 2, LAST_PAUSE_S)

    async def _serve(self, sockets: Sequence[socket.socket], config: Callable[[], Config]) -> int:
        """Runs one worker to its end; returns its exit code."""
        self._starts += 1
        self._has_served = False
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_REPORT_BYTES)
        try:
            with theirs:
                self._process = await self._start(theirs, sockets)
            self._writer, self.reason = writer, None
            if self._stop.asked.is_set():  # while it was begun nobody could tell it
                self.terminate()
            return await self._listen(reader, self._process, config)
        finally:
            self._writer = None
            writer.close()

    async def _listen(self, reader: asyncio.StreamReader, process: Process, config: Callable[[], Config]) -> int:
        """Hears the worker out, from its first configuration to its exit code."""
        watching = asyncio.create_task(self._watch())
        following: asyncio.Task[None] | None = None
        try:
            self._give(config())
            async for line in lines(reader):
                if self._take(json.loads(line)):
                    following = asyncio.create_task(self._follow(config))
            return await process.wait()
        finally:
            watching.cancel()
            if following is not None:
                following.cancel()
            if not self._has_served:
                self.failed.set()
            self.ready.clear()
            self._report = {}
            self._settle(ok=True)  # the next one starts by the configuration there is then

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

    async def _watch(self) -> None:
        """Kills a worker from which nothing is heard any more, until all are to stop: that has a deadline of its own.

        Reports that were due are counted, not seconds: where the whole machine stood still, all are late alike.
        """
        self._missed = 0
        while not self._stop.asked.is_set():
            if self._missed > (self._patience if self._report else MISSED_AT_FIRST):
                log.warning("a worker hangs and is killed", extra=self._who())
                self.kill()
                return
            await asyncio.sleep(REPORT_S)
            self._missed += 1

    def _take(self, message: JsonObject) -> bool:
        """Takes note of a message of the worker's; true if it says that it has started."""
        match message:
            case {"kind": "ready"}:
                return True
            case {"kind": "report", "details": details}:
                self._report, self._reported_at = details, asyncio.get_running_loop().time()
                self._missed = 0
            case {"kind": "applied", "number": number, "ok": ok} if number == self._asked:  # else nobody waits for it
                self._settle(ok=bool(ok))
            case {"kind": "failed", "reason": reason}:
                self.reason = str(reason)
        return False

    async def _follow(self, config: Callable[[], Config]) -> None:
        """Has a worker that has started go by the configuration that counts: that may be another one by now."""
        while self._given is not config():
            if not await self.apply(config()):
                self.replace()
                return
        self.ready.set()
        self._has_served = True

    def _give(self, config: Config) -> None:
        self._asked += 1
        self._given = config
        if self._writer is not None:
            self._writer.write(packed(self._asked, config))

    def _settle(self, *, ok: bool) -> None:
        if self._applied is not None and not self._applied.done():
            self._applied.set_result(ok)

    def lacks(self, config: Config) -> bool:
        """Whether a worker accepts callers here that may go by another configuration."""
        return self.ready.is_set() and self._given is not config

    async def apply(self, config: Config) -> bool:
        """Has the worker go by another configuration; false if it cannot, and goes on by the one before.

        Also false if it does not answer in time: it may go by either. True if it dies: the next one starts by what
        counts then.
        """
        before, self._applied = self._given, asyncio.get_running_loop().create_future()
        self._give(config)
        try:
            async with asyncio.timeout(APPLY_S):
                could = await self._applied
        except TimeoutError:
            log.warning("a worker does not say whether it has put the configuration to use", extra=self._who())
            return False
        if not could:
            self._given = before
        return could

    def replace(self) -> None:
        """Has the worker end its calls, and then another one take its place: by the configuration that counts."""
        if not self._stop.asked.is_set():
            log.warning("a worker that cannot go by the configuration is replaced", extra=self._who())
            self.ready.clear()
            renew(self._sockets)  # until it is replaced, new callers are the others'
            self.terminate()

    def hurry(self) -> None:
        """Has the next worker start now, if there is none: by another configuration it may live."""
        self._hurried.set()

    def terminate(self, *, at_once: bool = False, without_delay: bool = False) -> None:
        """Asks the worker to stop, which lets its calls end unless it is to stop at once.

        `without_delay`: it was asked already, and shall take no more new calls.
        """
        self._hurried.set()
        self._signal(AT_ONCE if at_once else WITHOUT_DELAY if without_delay else signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _who(self) -> JsonObject:
        """Which worker this is about, for the log."""
        return {"worker": self._number, "pid": None if self._process is None else self._process.pid}

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


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What is said, to the end of the conversation; half a line is that of a worker that died while it spoke."""
    with suppress(ConnectionError):
        while (line := await reader.readline()).endswith(b"\n"):
            yield line
