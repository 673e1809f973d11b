"""The event loop's time for input that is expensive to parse, such as a body in chunks of one byte.

The parser calls Python once per chunk, so 256 KiB in chunks of one byte, one read of the event loop, would hold the
loop for 40 ms, and a sender without a pause would take all of its time. Therefore large reads are parsed in slices,
and connections whose slices hold many chunks are parsed one after another, with rests in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

SLICE_BYTES = 8 * 1024  # parsed at once: 1,400 chunks at most, about a millisecond
# Chunks after which a connection queues. Servers and callers that mean well send chunks of kilobytes: one read of the
# event loop, 256 KiB, holds fewer than this.
MAX_PIECES = 500
# How many bytes of framing (chunk sizes, their extensions) may come with one byte of a body; a chunk of one byte has
# five. What exceeds that counts as a head does, and against the same limit.
FRAMING_PER_BYTE = 8
REST = 2.0  # after each slice, in durations of that slice: a third of the loop's time at most is spent on slices
LEAST_REST_S = 0.002  # twice what a slice takes: a connection that joins has just parsed one
NOTHING = memoryview(b"")


class ParseQueue:
    """Connections that wait to parse more; each is called in its turn, after a rest."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()

    def join(self, parse_on: Callable[[], None]) -> None:
        """Calls `parse_on` once when its turn comes. It may join again."""
        self._queue.append(parse_on)
        if len(self._queue) == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(LEAST_REST_S, self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        started = perf_counter()
        try:
            self._queue[0]()
        finally:
            self._queue.popleft()
            if self._queue:
                loop.call_later(max((perf_counter() - started) * REST, LEAST_REST_S), self._next, loop)


class SlicedInput:
    """What an asyncio protocol has read and not parsed yet; a base class of both kinds of connections.

    `data_received` gives more than SLICE_BYTES to `slice_input`, which calls it again for each slice. It counts
    `pieces`, and calls `queue_for_parsing` when there are more than MAX_PIECES. While `is_held`, nothing is parsed for
    a reason of the subclass's own. A subclass that stops reading for good sets `unparsed` to NOTHING.
    """

    __slots__ = ("is_held", "is_queued", "pieces", "unparsed")

    def __init__(self) -> None:
        self.unparsed = NOTHING
        self.pieces = 0  # of a body, since the last turn
        self.is_queued = self.is_held = False

    def data_received(self, data: bytes) -> None:
        """Parses a slice; the parser takes any buffer, so `data` may be a memoryview."""
        raise NotImplementedError

    def read_on(self) -> None:
        """Parses what was read before with `parse_slices`, then reads from the socket again unless it has to wait."""
        raise NotImplementedError

    def slice_input(self, data: bytes) -> None:
        """Parses a large read."""
        self.unparsed = memoryview(data)
        self.read_on()

    def parse_slices(self) -> None:
        """Parses on until nothing is left or the connection has to wait."""
        while self.unparsed and not (self.is_queued or self.is_held):
            data, self.unparsed = self.unparsed[:SLICE_BYTES], self.unparsed[SLICE_BYTES:]
            self.data_received(data)  # type: ignore[arg-type] # see there

    def queue_for_parsing(self, queue: ParseQueue, transport: asyncio.Transport) -> None:
        """Neither reads nor parses until the turn of this connection has come."""
        if not self.is_queued:
            self.is_queued = True
            if not transport.is_closing():
                transport.pause_reading()
            queue.join(self._take_turn)

    def _take_turn(self) -> None:
        self.is_queued, self.pieces = False, 0
        self.read_on()
