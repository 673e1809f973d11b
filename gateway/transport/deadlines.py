"""One timer for the deadlines of all exchanges of a pool.

A timer for each exchange costs 2 % of a whole call, and nearly all would be cancelled: replies come long before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import inf
from typing import Protocol

# Least time between two rounds: with ten thousand connections a round takes a millisecond. A loop under load is late by
# more than this anyway.
ROUND_S = 0.02


class Timed(Protocol):
    """A connection, as deadlines see it."""

    def expire(self, now: float) -> float:
        """Ends an exchange whose deadline has passed. Returns the deadline of the one under way, else infinity."""
        ...


class Deadlines:
    """Wakes at the earliest deadline among `connections`. All times are the loop's own, in seconds."""

    def __init__(self, connections: Collection[Timed]) -> None:
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None
        self.next = inf  # the time of the next round

    def wake_at(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Moves the next round forward to `at`, which must be earlier than `next`."""
        self.close()
        self.next = at
        self._timer = loop.call_at(at, self._round, loop)

    def close(self) -> None:
        """Cancels the next round."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.next = inf

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer, self.next = None, inf
        nearest = min([connection.expire(now) for connection in list(self._connections)], default=inf)
        if nearest < self.next:  # expiring one may have started another exchange
            self.wake_at(loop, max(nearest, now + ROUND_S))
