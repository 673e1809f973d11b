"""The command line as a user has it: programs in processes of their own, with everything they say."""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import httpx

from gateway.__main__ import main
from tests import plainhttp
from tests.support.forking import Program
from tests.support.processes import LISTENING

TOOLGATE = (sys.executable, "-W", "error", "-m", "gateway")
DEADLINE_S = 60.0  # for anything a command does; each takes about half a second on an idle machine
LOOK_S = 0.02  # between two looks at a condition
ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    """Ours, without the variables that would lead a command to another gateway."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLGATE_", "DEMO_"))}
    return kept | {"PYTHONPATH": str(ROOT)} | variables


def toolgate(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end."""
    return finished([*TOOLGATE, *words], env=env, cwd=cwd, stdin=stdin)


def finished(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    stdin: str = "",
    first: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; `first` is done in its process before it begins."""
    return subprocess.run(
        command,
        input=stdin,
        env=environment(**(env or {})),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        preexec_fn=first,
    )


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@contextmanager
def own_logging() -> Iterator[None]:
    """Takes back whatever a command made of this process's logging."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def entered(*words: str) -> Done:
    """Runs one command in this process, which spares half a second of imports; nothing else is different."""
    with own_logging(), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(words)
    return Done(code, out.getvalue(), err.getvalue())


def healthy(url: str) -> bool:
    """Whether a gateway is ready."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=DEADLINE_S) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition; fails with a sentence when it does not come true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S:.0f} s"
        time.sleep(LOOK_S)


class Running:
    """A command that runs until it is stopped; a session of its own, as a terminal would give it."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            words,
            env=environment(**env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # A shell that runs the tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.out = b""
        self.err = b""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(self.process.stdout, selectors.EVENT_READ, "out")
        self._pipes.register(self.process.stderr, selectors.EVENT_READ, "err")

    def wait_for(self, text: str) -> str:
        """Reads until the text has appeared on either stream; returns the line it stands in."""
        deadline = time.monotonic() + DEADLINE_S
        while text.encode() not in self.out + b"\n" + self.err:
            assert self._read(deadline - time.monotonic()), f"{text!r} never came: {self.err.decode()}"
        return next(line for line in (self.out + b"\n" + self.err).decode().split("\n") if text in line)

    def _read(self, timeout_s: float) -> bool:
        """Takes in what is there; False when the streams have ended or the time is up."""
        assert timeout_s > 0, f"too slow: {self.out.decode()}{self.err.decode()}"
        for key, _ in self._pipes.select(timeout_s):
            data = os.read(key.fd, 65536)
            if not data:
                self._pipes.unregister(key.fileobj)
            setattr(self, key.data, getattr(self, key.data) + data)
        return bool(self._pipes.get_map())

    def children(self) -> list[int]:
        """The processes it has started."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def interrupt(self) -> None:
        """Ctrl-C: the signal goes to everything in the foreground."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        """Reads to the end and returns the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self._pipes.get_map():
            self._read(deadline - time.monotonic())
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        """Ends whatever is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        self._pipes.close()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@contextmanager
def running(words: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Iterator[Running]:
    """A command that runs for the length of a block."""
    command = Running(words, env or {}, cwd)
    try:
        yield command
    finally:
        command.close()


@contextmanager
def tool_server(module: str = "otc_server") -> Iterator[str]:
    """A demonstration tool server; yields its URL."""
    with _server(f"gateway.demo.{module}") as url:
        yield url


@contextmanager
def connected(module: str, *arguments: str) -> Iterator[httpx.Client]:
    """A client of a server of its own."""
    with _server(module, *arguments) as url, plainhttp.client(base_url=url, timeout=DEADLINE_S) as client:
        yield client


@contextmanager
def _server(module: str, *arguments: str) -> Iterator[str]:
    """A server on a free port, which must stop without output."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as output:
        with os.fdopen(writing, "w"):
            program = Program(module, ["--port", "0", *arguments], writing, writing)
        try:
            line = output.readline()
            assert line.startswith(LISTENING), line
            yield line.removeprefix(LISTENING).strip()
        finally:
            program.send_signal(signal.SIGTERM)
            assert select.select([program], [], [], DEADLINE_S)[0]
            program.close()
        assert output.read() == ""


def gone(pids: Sequence[int]) -> bool:
    """Whether none of these processes is left, not even as a zombie."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
