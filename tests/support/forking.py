"""Programs that begin as copies of one interpreter, which has imported what they need.

Hundreds of tests start gateways and tool servers. Each would take half a second of a processor to start an interpreter
and to import everything; a copy takes a few milliseconds. Tests of the command line start programs as users do.

`python -m tests.support.forking SOCKET` forks for each request. A request is `[module, words, environment]` with three
files: for standard output, for standard error, and for the exit code. The answer is the number of the process, with a
file that stands for it (pidfd_open(2)).
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gateway.settings.load import read

CHECKOUT = Path(__file__).parents[2]
IMPORTED = (
    *("gateway.cli.program", "gateway.cli.serve", "gateway.demo.toolbox"),
    *("gateway.demo.rap_server", "gateway.demo.rcrt_server", "tests.support.faults"),
)
MAX_REQUEST_BYTES, MAX_ANSWER_BYTES, FILES = 128 * 1024, 64, 3


class Program:
    """A module that runs as a program, in our environment as it is when it starts."""

    def __init__(self, module: str, words: Sequence[str], stdout: int, stderr: int) -> None:
        asked = _forker()
        self._code, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            request = json.dumps([module, words, dict(os.environ)]).encode()
            socket.send_fds(asked, [request], [stdout, stderr, end])
        finally:
            os.close(end)
        answer, (self._handle,), _, _ = socket.recv_fds(asked, MAX_ANSWER_BYTES, 1)
        self.pid = int(answer)
        self._returncode: int | None = None

    def fileno(self) -> int:
        """A file that can be read once it has ended."""
        return self._code

    @property
    def returncode(self) -> int | None:
        """As `subprocess.Popen.poll`."""
        if self._returncode is None:
            with suppress(BlockingIOError):
                self._returncode = int(os.read(self._code, MAX_ANSWER_BYTES))
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Does nothing to a process that has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """To be called when it has ended."""
        os.close(self._handle)
        os.close(self._code)


@cache
def _forker() -> socket.socket:
    """Starts the interpreter that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, "-m", "tests.support.forking", str(number)]
        process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, pass_fds=[number])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class Request(NamedTuple):
    """What a new process is to be."""

    module: str
    words: list[str]
    environment: dict[str, str]
    files: list[int]

    def become(self) -> None:
        """Makes this process what was asked for, and runs the program."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, file in enumerate(self.files[:2], start=1):
            os.dup2(file, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv[1:] = self.words
        sys.modules.pop(self.module, None)  # some programs import another
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def serve(asked: socket.socket) -> Request | None:
    """Forks for each request. Returns the request in a new process, and None in this one when nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}  # the number of a process and where its exit code goes, by its file
    with asked, selectors.DefaultSelector() as ready:
        ready.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd in running:
                    ready.unregister(key.fd)
                    _report(key.fd, *running.pop(key.fd))
                    continue
                text, files, _, _ = socket.recv_fds(asked, MAX_REQUEST_BYTES, FILES)
                if not text:
                    return None
                pid = os.fork()
                if pid == 0:
                    module, words, environment = json.loads(text)
                    return Request(module, words, environment, files)
                *outputs, code = files
                for output in outputs:
                    os.close(output)
                handle = os.pidfd_open(pid)
                running[handle] = pid, code
                ready.register(handle, selectors.EVENT_READ)
                socket.send_fds(asked, [str(pid).encode()], [handle])


def _report(handle: int, pid: int, code: int) -> None:
    """Says how a process has ended, unless nobody listens."""
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(code, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(handle)
    os.close(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who ends the tests at a terminal still learns how programs end
    gc.disable()
    for name in IMPORTED:
        import_module(name)
    read("auth: none", env={})  # builds the validators
    gc.freeze()
    gc.enable()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        request.become()
