"""Supervises one worker; listening sockets survive restarts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from gateway.console.view import View
from gateway.core.backoff import Backoff
from gateway.core.model import JsonObject
from gateway.metrics import Counted, GaugeSample
from gateway.metrics.families import FAMILIES
from gateway.net.server import Stop
from gateway.processes.control import KILL_SIGNAL, LOST, MAX_LINE_BYTES, REPORT_S, WITHOUT_DELAY, messages, packed
from gateway.processes.rpcs import PendingRpcs, RpcReply, RpcRequest, reply_to
from gateway.processes.sockets import renew
from gateway.settings import Config

log = logging.getLogger("gateway.workers")

PROGRAM = ("-m", "gateway.processes.worker")
LASTING_S = 10.0  # a worker that lived so long did not die of starting
FIRST_PAUSE_S = 0.25  # before a worker that died sooner is replaced, twice as long each time
LAST_PAUSE_S = 15.0
APPLY_S = 60.0  # for a worker to apply a configuration; new backends are given 10 s to answer
REFRESH_S = 1.0  # for a worker to report when a scrape asks; after that its last report is used
# Reports that may be missed. Nothing keeps an event loop busy for more than a second: without a report for ten of them
# a worker hangs, and so does every caller that the kernel assigns to it.
MISSED = round(10.0 / REPORT_S)
MISSED_AT_FIRST = round(60.0 / REPORT_S)  # to start an interpreter on a machine that is busy starting others, too


class WorkerSlot:
    """Starts a worker with the current configuration, and replaces it when it dies or hangs."""

    def __init__(
        self,
        number: int,
        stop: Stop,
        count: Callable[[list[Counted]], None],
        count_death: Callable[[str], None],
        view: View,
        *,
        program: Sequence[str] = PROGRAM,
        report_s: float = REPORT_S,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """`count` takes what the worker has counted since its last report, `count_death` why one ended that was to go
        on. `view` answers questions of the worker. `program` are the arguments of the interpreter.
        """
        self.number = number
        self.ready = asyncio.Event()  # set while a worker accepts callers by the current configuration
        self.failed = asyncio.Event()  # set once one has died that never did
        self.reason: str | None = None  # why the last of those could not start
        self.has_lost = False  # a worker ended with results that it could not store
        self.gauges: list[GaugeSample] = []  # of its last report
        self._stop = stop
        self._count = count
        self._count_death = count_death
        self._view = view
        self._program = program
        self._report_s = report_s
        self._first_pause_s = first_pause_s
        self._starts = 0
        self._is_replaced = self._has_hung = False  # the current worker, or the last one
        self._has_served = False  # the current worker, or the last one
        self._sockets: list[socket.socket] = []
        self._hurried = asyncio.Event()  # the pause before the next start is over
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._config: Config | None = None  # the worker's, as far as it is known
        self._orders = 0
        self._answers: dict[int, asyncio.Future[bool]] = {}  # by the number of the order
        self._rpcs = PendingRpcs()
        self._answering: set[asyncio.Task[None]] = set()
        self._report: JsonObject = {}
        self._children: dict[str, int] = {}
        self._reported_at = 0.0
        self._missed = 0  # reports, since the last one

    # The life of a worker

    async def run(self, sockets: list[socket.socket], config: Callable[[], Config]) -> None:
        """Keeps a worker running on these sockets until all are to stop; replaces the sockets while there is none."""
        self._sockets = sockets
        backoff = Backoff(self._first_pause_s, LAST_PAUSE_S)
        loop = asyncio.get_running_loop()
        while not self._stop.asked.is_set():
            started = loop.time()
            self._hurried.clear()
            try:
                code: int | None = await self._run_one(config)
                self.has_lost |= code == LOST
            except OSError as exc:  # too many processes, or too little memory for another; that may pass
                code, self.reason = None, f"No worker can be started: {exc.strerror or exc}."
                self.failed.set()
            if self._stop.asked.is_set():
                return
            if not self._is_replaced:
                self._count_death("hung" if self._has_hung else "died")
            if not self._has_served:  # nor may the next one: until then callers go to the other workers
                renew(sockets)
            lasted_s = loop.time() - started
            about: JsonObject = {"worker": self.number, "code": code, "lasted_s": round(lasted_s, 1)}
            log.warning("a worker died", extra=about | ({"reason": self.reason} if self.reason else {}))
            if lasted_s >= LASTING_S:
                backoff.reset()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff.next_s()):
                    await self._hurried.wait()

    async def _run_one(self, config: Callable[[], Config]) -> int:
        """Runs one worker to its end; returns its exit code."""
        self._starts += 1
        self._has_served = self._is_replaced = self._has_hung = False
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
        try:
            with theirs:
                self._process = await self._start(theirs)
            self._writer, self.reason = writer, None
            if self._stop.asked.is_set():  # while it was started it could not be signalled
                self.terminate()
            return await self._follow(reader, self._process, config)
        finally:
            self._writer = None
            writer.close()

    async def _start(self, control: socket.socket) -> Process:
        numbers = [sock.fileno() for sock in self._sockets]
        listen = [word for number in numbers for word in ("--listen", str(number))]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *(f"-W{option}" for option in sys.warnoptions),
            "-P",  # the worker imports what this process would, wherever it is started
            *(*self._program, "--number", str(self.number), "--control", str(control.fileno())),
            *listen,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=(control.fileno(), *numbers),
            start_new_session=True,  # Ctrl-C is for this process alone: to the worker it would be a second signal
        )

    async def _follow(self, reader: asyncio.StreamReader, process: Process, config: Callable[[], Config]) -> int:
        """Hands the worker its configuration and reads its messages to the end; returns its exit code."""
        watching = asyncio.create_task(self._watch())
        joining: asyncio.Task[None] | None = None
        try:
            self._send(config())
            async for message in messages(reader):
                if message["kind"] == "ready":
                    joining = asyncio.create_task(self._join(config))
                else:
                    self._take(message)
            return await process.wait()
        finally:
            watching.cancel()
            if joining is not None:
                joining.cancel()
            if not self._has_served:
                self.failed.set()
            self.ready.clear()
            self._report, self.gauges, self._children = {}, [], {}
            self._rpcs.refuse_all()
            for answer in self._answers.values():  # the next worker starts with the current configuration
                if not answer.done():
                    answer.set_result(True)

    async def _watch(self) -> None:
        """Kills a worker that has stopped reporting, until all are to stop: that has a deadline of its own.

        It counts missed reports rather than seconds: if the whole machine was suspended, no worker is to blame.
        """
        self._missed = 0
        while not self._stop.asked.is_set():
            if self._missed > (MISSED if self._report else MISSED_AT_FIRST):
                log.warning("a worker hangs and is killed", extra=self._who())
                self._has_hung = True
                self.kill()
                return
            await asyncio.sleep(self._report_s)
            self._missed += 1

    async def _join(self, config: Callable[[], Config]) -> None:
        """Makes a worker that has started `ready`, once it has any configuration that was applied meanwhile."""
        while self._config is not config():
            if not await self.apply(config()):
                self.replace()
                return
        self.ready.set()
        self._has_served = True

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"kind": "counted", "rows": rows}:
                self._count(rows)
            case {"kind": "report", "details": details, "gauges": gauges, "children": children}:
                self._children = children
                self._report, self._reported_at = details, asyncio.get_running_loop().time()
                self._missed = 0
                self.gauges = [
                    GaugeSample(FAMILIES[name], tuple(labels), value)
                    for name, labels, value in gauges
                    if name in FAMILIES
                ]
            case {"kind": "done", "number": number, "ok": ok}:
                answer = self._answers.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(ok)
            case {"kind": "answer", "number": number, "status": status, "body": body}:
                self._rpcs.settle(RpcReply(number, status, body))
            case {"kind": "question", "number": number, "name": name, "about": about}:
                task = asyncio.create_task(self._reply(number, RpcRequest(name, about)))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case {"kind": "failed", "reason": reason}:
                self.reason = str(reason)

    # Questions of the console

    @property
    def is_there(self) -> bool:
        """Whether a worker serves here."""
        return self.ready.is_set()

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """Asks the worker (`View.ask`). Raises RefusedQuestionError."""
        return await self._rpcs.ask(lambda number: self._write(number, RpcRequest(question, about)))

    async def _reply(self, number: int, question: RpcRequest) -> None:
        """Answers a question of the worker, whose callers see the console of all workers."""
        self._write(0, await reply_to(number, question, self._view))

    def about(self) -> JsonObject:
        """What the console shows of the worker."""
        return {"number": self.number, "pid": self._who()["pid"], "status": self.status}

    # Orders

    def _write(self, number: int, order: Config | RpcRequest | RpcReply | None) -> None:
        if self._writer is not None:
            self._writer.write(packed(number, order))

    def _send(self, config: Config | None) -> int:
        """Sends an order; returns its number."""
        self._orders += 1
        if config is not None:
            self._config = config
        self._write(self._orders, config)
        return self._orders

    async def _order(self, config: Config | None, timeout_s: float) -> bool:
        """Sends an order; returns whether it was carried out, or True if the worker dies. Raises TimeoutError."""
        number = self._send(config)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            del self._answers[number]

    def lacks(self, config: Config) -> bool:
        """Whether a worker accepts callers here that may have another configuration."""
        return self.ready.is_set() and self._config is not config

    async def apply(self, config: Config) -> bool:
        """Has the worker apply a configuration; False if it cannot, and keeps the one before.

        Also False if it does not answer in time: it may have either. True if it dies: the next worker starts with the
        current one.
        """
        before = self._config
        try:
            could = await self._order(config, APPLY_S)
        except TimeoutError:
            log.warning("a worker does not say whether it has applied the configuration", extra=self._who())
            return False
        if not could:
            self._config = before
        return could

    async def refresh(self) -> None:
        """Asks the worker for a report, and waits for it for up to REFRESH_S."""
        if self._report:
            with suppress(TimeoutError):
                await self._order(None, REFRESH_S)

    # Signals

    def replace(self) -> None:
        """Has the worker drain and end, so that another one starts with the current configuration."""
        if not self._stop.asked.is_set():
            log.warning("a worker that cannot use the configuration is replaced", extra=self._who())
            self._is_replaced = True
            self.ready.clear()
            renew(self._sockets)  # until then, new callers go to the other workers
            self.terminate()

    def hurry(self) -> None:
        """Starts the next worker now, if there is none: with a new configuration it may live."""
        self._hurried.set()

    def terminate(self, *, at_once: bool = False, without_delay: bool = False) -> None:
        """Asks the worker to stop, which lets its calls end unless it is to stop `at_once`.

        `without_delay`: it was asked before, and now accepts no more new calls.
        """
        self._hurried.set()
        self._signal(KILL_SIGNAL if at_once else WITHOUT_DELAY if without_delay else signal.SIGTERM)

    def kill(self) -> None:
        """Ends the worker without asking it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    # What operators see

    def _who(self) -> JsonObject:
        return {"worker": self.number, "pid": None if self._process is None else self._process.pid}

    @property
    def processes(self) -> dict[str, int]:
        """The worker, and the processes that it has started, by name."""
        if self._process is None or self._process.returncode is not None:
            return {}
        name = f"worker-{self.number}"
        return {name: self._process.pid} | {f"{name}-{child}": pid for child, pid in self._children.items()}

    @property
    def status(self) -> str:
        """`ok`, `starting` or `draining`, by the worker's last report."""
        return str(self._report.get("status", "starting")) if self.ready.is_set() else "starting"

    def details(self) -> JsonObject:
        """The detailed health of the worker by its last report, its process, and the age of the report."""
        age_s = asyncio.get_running_loop().time() - self._reported_at if self._report else None
        return self._report | {
            "pid": None if self._process is None else self._process.pid,
            "status": self.status,
            "starts": self._starts,
            "report_age_s": None if age_s is None else round(age_s, 1),
        }
