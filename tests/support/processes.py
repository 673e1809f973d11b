"""Gateways and demonstration tool servers as processes that a test may stop, freeze and kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import httpx

from tests import plainhttp
from tests.support.forking import Program

START_S = 60.0  # an interpreter and all imports take 0.6 s alone, several on a busy machine
STOP_S = 20.0  # from SIGTERM to gone, with nothing under way
DEADLINE_S = 60.0  # for anything else a test waits for; all of it takes a second or two on an idle machine
POLL_S, LONGEST_PAUSE_S = 0.01, 0.05
STDERR = 2
LISTENING = "listening on "

Settings = dict[str, Any]


async def until(reached: Callable[[], bool | Awaitable[bool]], what: str, within_s: float = DEADLINE_S) -> None:
    """Waits for something that says nothing when it happens."""
    pause_s = POLL_S
    try:
        async with asyncio.timeout(within_s):
            while True:
                answer = reached()
                if not isinstance(answer, bool):  # most often a process is asked, which has better things to do
                    answer, pause_s = await answer, min(pause_s * 1.2, LONGEST_PAUSE_S)
                if answer:
                    return
                await asyncio.sleep(pause_s)
    except TimeoutError:
        raise AssertionError(f"after {within_s:g} s still not: {what}") from None


def settings(backends: Mapping[str, Settings], **more: Any) -> Settings:
    """A configuration with free ports, everything logged, and all tools of all backends published to everybody."""
    return {
        "server": {"port": 0, "admin": {"port": 0}},
        "auth": "none",
        "backends": dict(backends),
        "routes": [{"tools": "*", "backend": name} for name in backends],
        "logging": {"level": "debug"},
    } | more


class Process(Program):
    """What it writes goes to `output`; without one, its standard output is read by `line`."""

    def __init__(self, module: str, *words: str, output: IO[bytes] | None = None) -> None:
        self._lines: IO[bytes] | None = None
        if output is not None:
            super().__init__(module, words, output.fileno(), output.fileno())
            return
        reading, writing = os.pipe()
        self._lines = os.fdopen(reading, "rb")
        with os.fdopen(writing, "wb"):
            super().__init__(module, words, writing, STDERR)

    async def line(self) -> str:
        """The next line of its output, empty when there is none."""
        assert self._lines is not None
        return (await asyncio.to_thread(self._lines.readline)).decode().strip()

    async def wait(self) -> int:
        """Its exit code."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.fileno(), ended.set)
        try:
            while (code := self.returncode) is None:
                await ended.wait()
        finally:
            loop.remove_reader(self.fileno())
        return code

    def close(self) -> None:
        super().close()
        if self._lines is not None:
            self._lines.close()


def processor_s(pid: int) -> float:
    """How long a process has had a processor (proc_pid_stat(5), utime and stime); 0 when it is gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@dataclass
class GatewayProcess:
    """A gateway that listens."""

    process: Process
    log: Path
    url: str
    admin_url: str

    def log_text(self) -> str:
        """All it has logged so far."""
        return self.log.read_text()

    def logged(self, message: str) -> list[dict[str, Any]]:
        """The lines with that message."""
        return [line for line in _lines(self.log) if line["message"] == message]

    def processor_s(self) -> float:
        """How long it has had a processor."""
        return processor_s(self.process.pid)

    def memory_bytes(self) -> int:
        """The memory it holds now."""
        return self._status_bytes("VmRSS:")

    def peak_memory_bytes(self) -> int:
        """The most memory it has ever held."""
        return self._status_bytes("VmHWM:")

    def _status_bytes(self, name: str) -> int:
        """A figure of proc_pid_status(5)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith(name)))


def _lines(log: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; what is none of them, such as a traceback of the interpreter, fails the test."""
    text = log.read_text()
    try:
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    except ValueError:
        raise AssertionError(f"the gateway wrote what is no log line:\n{text}") from None


@asynccontextmanager
async def gateway(config: Settings, *, ready: bool = True, ahead_s: float = 0.0) -> AsyncIterator[GatewayProcess]:
    """Runs `toolgate serve`; yields once it is ready, or with `ready` false as soon as it listens.

    Its clock is `ahead_s` ahead of the machine's.
    """
    program = ["tests.support.wrong_clock", str(ahead_s)] if ahead_s else ["gateway"]
    with _files(config) as (file, log, output):
        process = Process(*program, "serve", "-c", str(file), output=output)
        try:
            running = await _listening(process, log)
            if ready:
                await until_ready(running)
            yield running
        finally:
            await _end(process)


@contextmanager
def _files(config: Settings) -> Iterator[tuple[Path, Path, IO[bytes]]]:
    """A configuration file, and where the log goes."""
    with TemporaryDirectory(prefix="toolgate-") as directory:
        file, log = Path(directory, "gateway.yaml"), Path(directory, "gateway.log")
        file.write_text(json.dumps(config, indent=1))  # JSON is YAML, with a line for each key
        with log.open("wb") as output:
            yield file, log, output


async def _listening(process: Process, log: Path) -> GatewayProcess:
    def announced() -> list[dict[str, Any]]:
        assert process.returncode is None, f"the gateway ended with {process.returncode}:\n{log.read_text()}"
        return [line for line in _lines(log) if line["message"] == "listening"]

    await until(lambda: bool(announced()), "the gateway listens", START_S)
    line = announced()[0]
    public, admin = (it[0] if isinstance(it, list) else it for it in (line["public"], line["admin"]))
    return GatewayProcess(process, log, f"http://{public}", f"http://{admin}")


async def until_ready(running: GatewayProcess, within_s: float = START_S) -> None:
    """Waits until a gateway says that it is ready."""
    async with plainhttp.async_client() as http:

        async def ready() -> bool:
            return (await http.get(f"{running.url}/health")).status_code == httpx.codes.OK

        await until(ready, "the gateway is ready", within_s)


async def until_listed(running: GatewayProcess) -> None:
    """Waits until every tool server is up: a gateway is ready, too, when one did not answer at first."""
    async with plainhttp.async_client() as http:

        async def listed() -> bool:
            found = (await http.get(f"{running.admin_url}/health")).json()["backends"]
            return all(each["up"] for each in found.values())

        await until(listed, "every tool server is listed", START_S)


async def _end(process: Process) -> None:
    """Stops a process, frozen ones too; without waiting for its calls."""
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGINT):  # the second that asks for the end insists
        with suppress(ProcessLookupError):
            process.send_signal(number)
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    process.close()


@dataclass
class DemoServer:
    """A demonstration tool server that listens."""

    process: Process
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def executions(self) -> dict[str, int]:
        """How often each tool ran in this process."""
        async with plainhttp.async_client() as http:
            counts: dict[str, int] = (await http.get(f"{self.url}/executions")).json()
        return counts

    async def kill(self) -> None:
        """Ends it as an out-of-memory killer would."""
        self.process.kill()
        async with asyncio.timeout(STOP_S):
            await self.process.wait()

    def freeze(self) -> None:
        """Stops it without closing anything: its kernel still takes connections and bytes."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def listening(module: str, *words: str) -> AsyncIterator[tuple[Process, str]]:
    """Runs a server that says first where it listens; its process and its URL."""
    process = Process(module, *words)
    try:
        async with asyncio.timeout(START_S):
            line = await process.line()
        assert line.startswith(LISTENING), f"{module} did not start"
        yield process, line.removeprefix(LISTENING)
    finally:
        await _end(process)


@asynccontextmanager
async def demo_server(kind: str, port: int = 0) -> AsyncIterator[DemoServer]:
    """Runs a demonstration server: `rap` and `rcrt` with faults on order, the others as they are."""
    is_faulty = kind in ("rap", "rcrt")
    module = f"tests.support.faulty_{kind}_server" if is_faulty else f"gateway.demo.{kind}_server"
    async with listening(module, "--port", str(port)) as (process, url):
        yield DemoServer(process, url)
