"""Runs a command to its end, within a limit of time, and keeps what it prints."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

MAX_OUTPUT_BYTES = 1024 * 1024  # kept of each stream
DRAIN_S = 2.0  # for the output of a command that has ended


@contextmanager
def interruptible() -> Iterator[None]:
    """Makes commands start with SIGINT as it is by default, even if we ignore it, as in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: None)  # exec(3) resets handlers, and keeps what is ignored
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


async def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    limit_s: float,
    interruption: asyncio.Event,
) -> tuple[int | None, str, str]:
    """Returns exit code, output and error output; the code is None at the limit. Kills the whole process group.

    The `interruption` sends SIGINT to the group, as Ctrl-C at a terminal does.
    """
    # Pipes of our own: with those of asyncio, a process ends only once nobody holds them any more.
    (stdout, stdout_end), (stderr, stderr_end) = await _pipe(), await _pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout_end,
            stderr=stderr_end,
            env=environment,
            start_new_session=True,
        )
    except BaseException:
        stdout.close()
        stderr.close()
        raise
    finally:
        os.close(stdout_end)
        os.close(stderr_end)
    code: int | None = None
    interrupting = asyncio.create_task(_interrupt(process.pid, interruption))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                code = await process.wait()
    finally:
        interrupting.cancel()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # who has left the group may still hold the pipes
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(process.wait(), stdout.ended.wait(), stderr.ended.wait())
        stdout.close()
        stderr.close()
    return code, stdout.text, stderr.text


async def _interrupt(group: int, interruption: asyncio.Event) -> None:
    await interruption.wait()
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)


class _Output(asyncio.Protocol):
    """Reads what comes through a pipe, and keeps what is within the limit."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._kept += data[: MAX_OUTPUT_BYTES - len(self._kept)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


async def _pipe() -> tuple[_Output, int]:
    """A pipe that is read, and the descriptor of its other end."""
    reading, writing = os.pipe()
    output = _Output()
    await asyncio.get_running_loop().connect_read_pipe(lambda: output, os.fdopen(reading, "rb", 0))
    return output, writing
