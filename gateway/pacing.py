"""The event loop's time for input that is dear to parse, such as a body in chunks of one byte.

The parser calls Python once per chunk, so 256 KiB in chunks of one byte, one read of the event loop, would hold the
loop for 40 ms, and a sender without a pause would take all of its time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

SLICE_BYTES = 8 * 1024  # parsed in one go: at the worst 1,400 chunks, about a millisecond
# Chunks after which a connection waits for its turn. Servers and callers that mean well send chunks of kilobytes: one
# read of the event loop, 256 KiB, holds fewer than this.
MAX_PIECES = 500
# How many bytes of framing (chunk sizes, their extensions) may come with one byte of a body; a chunk of one byte has
# five. What exceeds that counts as a head does, and against the same limit.
FRAMING_PER_BYTE = 8
REST = 2.0  # after each turn, in lengths of that turn: at most a third of the loop's time is spent on turns
LEAST_REST_S = 0.002  # twice what a slice takes: a connection that joins has just parsed one


class Turns:
    """Lets connections go on one after the other, each for one turn, with a rest before each turn."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()

    def join(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` when it is its turn. It may join again."""
        self._queue.append(go_on)
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
