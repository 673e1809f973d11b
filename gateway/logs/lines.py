"""The one thread that writes log lines, so that nothing else ever waits for their reader.

Lines of requests are gathered and written several at a time: waking a thread for each of them costs a call more than
everything else about its line.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import SupportsBytes

MAX_QUEUED = 10_000  # lines, some 4 MB: several tenths of a second of all that one process can answer
RESERVED = 1_000  # more for warnings and errors, when requests have filled the queue
GATHER_S = 0.01  # how long lines of requests are gathered before they are written
ATOMIC_WRITE_BYTES = 4096  # bytes; writes to a pipe up to this size are atomic (POSIX, PIPE_BUF on Linux)
CLOSE_S = 2.0  # to write what is left at the end; a reader that takes nothing must not keep the process alive
LOOK_AGAIN_S = 0.2  # whether a reader that took nothing takes more


class Lines:
    """Writes whole lines to a file descriptor, which it does not close.

    Lines that do not fit are dropped and counted; `report` makes the line that says how many. `mark` adds to each line
    what all of them have in common.
    """

    def __init__(self, fd: int, report: Callable[[int], bytes], mark: Callable[[bytes], bytes] | None = None) -> None:
        self.dropped = 0
        self._fd = fd
        self._report = report
        self._mark = mark
        self._queue: SimpleQueue[SupportsBytes | None] = SimpleQueue()
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log lines", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queues a line that is written at once."""
        if self._queue.qsize() >= MAX_QUEUED + RESERVED:
            self.dropped += 1
        else:
            self._queue.put(line)

    def put_request(self, line: SupportsBytes) -> None:
        """Queues one of many lines, which the thread encodes and writes within some milliseconds."""
        if self._queue.qsize() >= MAX_QUEUED:
            self.dropped += 1
        else:
            self._queue.put(line)

    def close(self) -> None:
        """Writes what is left, for up to CLOSE_S. Lines that are put later are not written."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(CLOSE_S)
            self._given_up.set()

    def _run(self) -> None:
        reported, is_open = 0, True
        while is_open:
            batch = [self._queue.get()]
            if batch[0] is not None and not isinstance(batch[0], bytes):
                time.sleep(GATHER_S)
            batch += self._waiting()
            is_open = None not in batch
            self._write_all(_in_pieces(self._marked(line for line in batch if line is not None)))
            if self.dropped > reported:
                more, reported = self.dropped - reported, self.dropped
                with suppress(OSError):
                    self._write(b"".join(self._marked([self._report(more)])))

    def _marked(self, lines: Iterable[SupportsBytes]) -> Iterable[bytes]:
        encoded = map(bytes, lines)
        return encoded if self._mark is None else map(self._mark, encoded)

    def _waiting(self) -> Iterator[SupportsBytes | None]:
        """What is in the queue, without waiting for more."""
        try:
            for _ in range(MAX_QUEUED):
                yield self._queue.get_nowait()
        except Empty:
            return

    def _write_all(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            try:
                self._write(piece)
            except OSError:  # its reader is gone, or the disk is full: the gateway goes on
                self.dropped += piece.count(b"\n")

    def _write(self, piece: bytes) -> None:
        while piece and not self._given_up.is_set():
            try:
                piece = piece[os.write(self._fd, piece) :]
            except BlockingIOError:  # a terminal or pipe that another process has made non-blocking
                select.select([], [self._fd], [], LOOK_AGAIN_S)


def _in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Joins lines up to ATOMIC_WRITE_BYTES; a longer one is written alone."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if gathered and size + len(line) > ATOMIC_WRITE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += len(line)
    if gathered:
        yield b"".join(gathered)
