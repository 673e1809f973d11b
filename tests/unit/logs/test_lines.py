"""The thread that writes log lines: no line is torn or lost, and a reader that does not read blocks nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.logs import lines as module
from gateway.logs.lines import ATOMIC_WRITE_BYTES, MAX_QUEUED, RESERVED, Lines

DEADLINE_S = 10.0
CHECKOUT = Path(__file__).parents[2]


def report(count: int) -> bytes:
    return b"dropped %d\n" % count


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Its reading and its writing end; the smallest there is."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ATOMIC_WRITE_BYTES)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Reader:
    """Reads everything there is, in a thread."""

    def __init__(self, fd: int) -> None:
        self.data = b""
        self._fd = fd
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self.data.endswith(b"end\n"):
            self.data += os.read(self._fd, 65536)

    def lines(self) -> list[bytes]:
        """All lines before the one that says `end`."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.data.splitlines()[:-1]


class Late:
    """A line that is made when it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __bytes__(self) -> bytes:
        return self.text.encode() + b"\n"


def test_lines_of_both_kinds_are_written_in_order_and_whole(pipe: tuple[int, int]) -> None:
    lines, reader = Lines(pipe[1], report), Reader(pipe[0])
    texts = [f"{number} {'x' * (number * 7 % 5000)}" for number in range(500)]
    for number, text in enumerate(texts):
        if number % 3:
            lines.put_request(Late(text))
        else:
            lines.put(bytes(Late(text)))
    lines.put(b"end\n")
    assert reader.lines() == [text.encode() for text in texts]
    lines.close()


def test_a_reader_that_does_not_read_blocks_nothing_and_dropped_lines_are_reported(pipe: tuple[int, int]) -> None:
    lines = Lines(pipe[1], report)
    text = "x" * (ATOMIC_WRITE_BYTES - 1)
    lines.put(bytes(Late(text)))
    lines.put(bytes(Late(text)))
    until(lambda: lines._queue.qsize() == 0)  # the thread has the second, and the pipe is full
    for number in range(MAX_QUEUED + 500):
        lines.put_request(Late(str(number)))
    assert lines.dropped == 500
    for number in range(RESERVED + 7):  # there is room yet for what operators should hear of
        lines.put(b"%d\n" % number)
    assert lines.dropped == 507
    reader = Reader(pipe[0])
    until(lambda: b"dropped 507\n" in reader.data and lines._queue.qsize() == 0)  # then nothing is dropped any more
    lines.put(b"end\n")
    written = reader.lines()
    written.remove(b"dropped 507")  # said as soon as anything is
    assert written[2 : 2 + MAX_QUEUED] == [b"%d" % number for number in range(MAX_QUEUED)]
    assert len(written) == 2 + MAX_QUEUED + RESERVED
    lines.close()


def test_the_end_does_not_wait_for_a_reader_that_does_not_read(
    pipe: tuple[int, int],
) -> None:
    lines = Lines(pipe[1], report)
    os.set_blocking(pipe[1], False)
    for _ in range(100):
        lines.put(bytes(Late("x" * 1000)))
    started = time.monotonic()
    lines.close()
    assert time.monotonic() - started < module.CLOSE_S + DEADLINE_S / 2


def test_a_reader_that_takes_its_time_gets_everything_from_a_descriptor_that_does_not_block(
    pipe: tuple[int, int],
) -> None:
    os.set_blocking(pipe[1], False)
    lines = Lines(pipe[1], report)
    for number in range(50):
        lines.put(bytes(Late(f"{number} {'x' * 1000}")))
    until(lambda: lines._queue.qsize() == 0)
    lines.put(b"end\n")
    assert [line.split()[0] for line in Reader(pipe[0]).lines()] == [b"%d" % number for number in range(50)]
    lines.close()


def test_lines_go_on_when_the_reader_is_gone() -> None:
    reading, writing = os.pipe()
    lines = Lines(writing, report)
    os.close(reading)
    lines.put(b"lost\n")
    until(lambda: lines.dropped == 1)
    lines.close()
    os.close(writing)


PROCESS = """
import logging, sys
from gateway.logs import output
from gateway.http.accesslog import AccessLine, AccessLog
access = AccessLog(output.configure("info", "json"))
for number in range(2000):
    access.put(AccessLine("now", "r", "call", "/tools/call", 200, 1.0, 1, 2))
    if number % 10 == 0:
        logging.getLogger("gateway.x").info("between", extra={"text": "y" * 200})
sys.exit(3)
"""


def test_several_processes_write_into_one_pipe_without_tearing_a_line_and_finish_when_they_end(tmp_path: Path) -> None:
    script = tmp_path / "writes.py"
    script.write_text(PROCESS)
    reading, writing = os.pipe()
    processes = [subprocess.Popen([sys.executable, str(script)], cwd=CHECKOUT, stderr=writing) for _ in range(3)]
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        written = stream.read().splitlines()
    assert [process.wait() for process in processes] == [3, 3, 3]
    assert len(written) == 3 * 2200
    assert all(line.startswith(b"{") and line.endswith(b"}") for line in written)
