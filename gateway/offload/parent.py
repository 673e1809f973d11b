"""The parent of the child process: starts it when there is work, ends it after a while without any."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from gateway.core import jsontext
from gateway.core.model import Arguments, Json
from gateway.offload import tasks
from gateway.offload.tasks import HEAD, MAX_FRAME_BYTES, Parts, Task
from gateway.schemas import CompiledSchema

log = logging.getLogger("gateway.offload")

MAX_WAITING = 256  # tasks of all owners together; at the usual few milliseconds each, a second of work
MAX_WAITING_PER_OWNER = 32  # so that no caller takes the whole queue
MAX_WAITING_BYTES = 128 * 1024 * 1024  # of what waiting tasks work on
IDLE_S = 30.0  # then the child's memory is given back; starting one takes a fifth of a second
WALL_FACTOR, WALL_S = 10.0, 10.0  # how long a task may take on a busy machine, by the processor time it may use
READ_BYTES = 1024 * 1024  # of an answer, held for the reader at a time
MEMORY_BYTES = 768 * 1024 * 1024  # 8 MiB of nothing but brackets are 3 million values of up to 100 bytes
CHECK_S = 1.0  # of processor time; ordinary schemas take a millisecond for a megabyte
READ_S, READ_S_PER_MB = 0.5, 0.5
SELECT_FACTOR = 8  # a selection takes that much longer than reading what it selects from
WITHIN_S = 15.0  # with the wait for other callers' slices
OWED_S = 60.0  # for the result of a tool that has run: it is lost if it cannot be read
# The signals that end a child out of time, and one out of memory. The kernel's SIGKILL looks like anybody's.
OVERRUN = (signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL)
TRIES = 2  # of a task whose child was ended or stopped from outside; tasks are pure
LOOK_S = 0.25  # between two looks at whether the child was stopped
STOPPED = (b"T", b"t")  # states: by a signal, by a debugger (proc_pid_stat(5))
# The child runs what strangers wrote: it gets no environment that may hold secrets.
ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")


class OffloadError(Exception):
    """A task that was not done: too many tasks waited, or the child could not be started or broke down."""


class OverrunError(OffloadError):
    """The task needed more time or memory than it may have."""


class _GoneError(Exception):
    """The child was ended, or stopped, for no reason that the task has given. `status` as `subprocess` has it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status

    @property
    def outcome(self) -> OffloadError:
        """What it means when it happens again and again."""
        return OverrunError() if -self.status == signal.SIGKILL else OffloadError()


class _Child(NamedTuple):
    process: Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Job(NamedTuple):
    task: Task
    parts: Parts
    size: int  # of all parts
    cpu_s: float
    answer: asyncio.Future[Parts]


class Offload:
    """Runs tasks in a child process, one at a time, those of different owners in turn.

    `memory_bytes` bounds what the child may use beyond what the program itself takes.
    """

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._waiting_count = self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._child: _Child | None = None
        self._closed = False

    async def run(
        self,
        task: Task,
        *parts: bytes,
        cpu_s: float,
        owner: str,
        must_run: bool = False,
        within_s: float | None = None,
    ) -> Parts:
        """Runs a task, which is a function of a module, in the child on `parts` and returns what it returns.

        Raises OverrunError if it uses more than `cpu_s` seconds of processor time or more memory than there is, and
        OffloadError if too many tasks wait, there is no answer within `within_s` seconds, or there is no child to run
        it. A task that `must_run`, because a tool has run for it, is queued however many wait.
        """
        if self._closed:
            raise OffloadError
        queue, size = self._waiting.get(owner, ()), sum(map(len, parts))
        if not must_run and (
            self._waiting_count >= MAX_WAITING
            or len(queue) >= MAX_WAITING_PER_OWNER
            or (self._waiting_count and self._waiting_bytes + size > MAX_WAITING_BYTES)
        ):
            raise OffloadError
        job = _Job(task, parts, size, cpu_s, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(owner, deque()).append(job)
        self._waiting_count += 1
        self._waiting_bytes += size
        self._arrived.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._work())
        del parts
        if within_s is None:
            within_s = OWED_S if must_run else WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                return await job.answer
        except TimeoutError as exc:
            raise OffloadError from exc

    @property
    def pid(self) -> int | None:
        """The number of the child process, while there is one."""
        return None if self._child is None else self._child.process.pid

    async def aclose(self) -> None:
        """Ends the child; tasks that wait get an OffloadError."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        while (job := self._next()) is not None:
            _settle(job, OffloadError())

    def _next(self) -> _Job | None:
        """Takes the oldest job of the next owner, who goes to the end of the queue."""
        if not self._waiting:
            return None
        owner, queue = self._waiting.popitem(last=False)
        job = queue.popleft()
        if queue:
            self._waiting[owner] = queue
        self._waiting_count -= 1
        self._waiting_bytes -= job.size
        return job

    async def _work(self) -> None:
        """Runs waiting jobs one after the other; returns when none has come for a while."""
        try:
            while True:
                self._arrived.clear()
                while (job := self._next()) is not None:
                    if not job.answer.done():  # else its caller has left
                        await self._run_job(job)
                    del job
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._arrived.wait()
                except TimeoutError:
                    if not self._waiting:
                        return
        finally:
            await self._end()
            if self._waiting and not self._closed:  # it came while the child was being ended
                self._running = asyncio.create_task(self._work())

    async def _run_job(self, job: _Job) -> None:
        outcome: Parts | OffloadError = OffloadError()  # if it is closed in the middle
        try:
            outcome = await self._try(job)
        except OffloadError as exc:
            outcome = exc
            await self._end()
        finally:
            _settle(job, outcome)

    async def _try(self, job: _Job) -> Parts:
        """Does a task, in another child if the one it was given to has gone. Raises OffloadError."""
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._ask(job)
            except _GoneError as exc:
                log.warning("the process for long checks has gone", extra={"status": exc.status})
                await self._end()
                if job.answer.done() or not tries_left:
                    raise exc.outcome from None
        raise AssertionError  # the last try returns or raises

    async def _ask(self, job: _Job) -> Parts:
        """Raises OffloadError, _GoneError."""
        child = self._child = self._child or await _start(self._memory_bytes)
        watching = asyncio.create_task(_end_if_stopped(child.process))
        try:
            async with asyncio.timeout(job.cpu_s * WALL_FACTOR + WALL_S):
                frame = tasks.encode_request(job.task, job.parts)
                child.writer.write(HEAD.pack(len(frame), job.cpu_s))
                child.writer.write(frame)
                del frame
                await child.writer.drain()
                size, _ = HEAD.unpack(await child.reader.readexactly(HEAD.size))
                if size > MAX_FRAME_BYTES:
                    raise OffloadError
                return tasks.decode_answer(await child.reader.readexactly(size))
        except TimeoutError as exc:
            raise OverrunError from exc
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            ended = await asyncio.to_thread(child.process.wait)
            if ended > 0:
                log.error("the process for long checks broke down", extra={"status": ended})
                raise OffloadError from exc
            if -ended in OVERRUN and -ended != signal.SIGKILL:
                raise OverrunError from exc
            raise _GoneError(ended) from exc
        finally:
            watching.cancel()

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            child.writer.close()
            await asyncio.to_thread(child.process.wait)


class ChildTasks(Offload):
    """The child that serves calls. All methods raise what `run` raises. `owner` is the principal who waits."""

    async def read(self, text: bytes, members: Iterable[bytes], max_depth: int, owner: str) -> Json:
        """Reads a JSON document; objects and arrays under `members` stay text (`msgspec.Raw`). Raises JsonError."""
        return await self._read(tasks.read_document, text, members, max_depth, owner)

    async def read_answer(self, text: bytes, members: Iterable[bytes], max_depth: int, owner: str) -> Json:
        """The same for the answer of a tool that has run, as `jsontext.decode_answer` reads it."""
        return await self._read(tasks.read_answer, text, members, max_depth, owner, must_run=True)

    async def _read(
        self,
        task: tasks.Task,
        text: bytes,
        members: Iterable[bytes],
        max_depth: int,
        owner: str,
        *,
        must_run: bool = False,
    ) -> Json:
        depth = str(max_depth).encode()
        run = self.run(task, text, depth, *members, cpu_s=reading_s(text), owner=owner, must_run=must_run)
        why, *parts = await run
        if why:
            raise jsontext.JsonError(why.decode())
        rest, *values = parts
        document = jsontext.decode(rest, max_depth)
        for path, value in zip(values[::2], values[1::2], strict=True):
            *outer, last = msgspec.json.decode(path)
            holder: Any = document
            for name in outer:
                holder = holder[name]
            holder[last] = Raw(value)
        return document

    async def value(self, task: Task, text: bytes, select: str, max_depth: int, owner: str) -> Json:
        """Reads the value of a tool that has run: what a task reads from JSON text, or what `select` selects of it.

        One of very many values stays text (`msgspec.Raw`), and so does null. Raises JsonError.
        """
        parts = str(max_depth).encode(), select.encode()
        seconds = reading_s(text) * (SELECT_FACTOR if select else 1)
        why, *values = await self.run(task, text, *parts, cpu_s=seconds, owner=owner, must_run=True)
        if why:
            raise jsontext.JsonError(why.decode())
        (value,) = values
        return Raw(value) if value == b"null" or jsontext.is_wide(value) else jsontext.decode(value, max_depth)

    async def errors(self, schema: CompiledSchema, arguments: Arguments, owner: str) -> dict[str, str]:
        """What is wrong with arguments, by parameter; empty if they are valid."""
        text = jsontext.encode(arguments)
        (answer,) = await self.run(tasks.explain_input, schema.text, text, cpu_s=CHECK_S, owner=owner)
        errors: dict[str, str] = msgspec.json.decode(answer)
        return errors

    async def coerced(
        self, schema: CompiledSchema, arguments: Arguments, owner: str
    ) -> tuple[Arguments, dict[str, str]]:
        """The arguments in the form that the schema allows, and what is then wrong with them, as in `errors`."""
        text = jsontext.encode(arguments)
        coerced, answer = await self.run(tasks.coerce_input, schema.text, text, cpu_s=CHECK_S, owner=owner)
        errors: dict[str, str] = msgspec.json.decode(answer)
        return Raw(coerced) if jsontext.is_wide(coerced) else jsontext.decode(coerced), errors

    async def violation(self, schema: CompiledSchema, value: Json, owner: str) -> str | None:
        """The first thing that is wrong with a tool's value; None when it is valid."""
        text = jsontext.encode(value)
        (answer,) = await self.run(tasks.explain_output, schema.text, text, cpu_s=CHECK_S, owner=owner, must_run=True)
        return answer.decode() or None


def _settle(job: _Job, outcome: Parts | OffloadError) -> None:
    if job.answer.done():  # its caller has left
        return
    if isinstance(outcome, OffloadError):
        job.answer.set_exception(outcome)
    else:
        job.answer.set_result(outcome)


async def _end_if_stopped(process: Popen[bytes]) -> None:
    """Ends the child when it has been stopped, whoever did it: nobody can rely on its going on."""
    while True:
        await asyncio.sleep(LOOK_S)
        if _state(process.pid) in STOPPED:
            process.kill()


def _state(pid: int) -> bytes:
    """The letter of a process's state; empty on a system without this file, where the deadline of tasks holds."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return b""


async def _start(memory_bytes: int) -> _Child:
    """Raises OffloadError."""
    ours, theirs = socket.socketpair()
    try:
        process = _process(memory_bytes, theirs.fileno())
    except OSError as exc:
        ours.close()
        log.error("the process for long checks cannot be started", extra={"reason": str(exc)})
        raise OffloadError from exc
    finally:
        theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=READ_BYTES)
    return _Child(process, reader, writer)


def _process(memory_bytes: int, pipe: int) -> Popen[bytes]:
    """Starts the process in a millisecond; uvloop would copy the page tables of this one first."""
    return Popen(  # noqa: S603 - a module of ours, and a number
        [sys.executable, "-m", "gateway.offload.child", str(memory_bytes)],
        stdin=pipe,
        stdout=pipe,
        stderr=DEVNULL,
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        start_new_session=True,  # Ctrl-C in a terminal is for the gateway alone
    )


def reading_s(text: bytes) -> float:
    """The processor time that reading a document may take."""
    return READ_S + READ_S_PER_MB * len(text) / 1e6
