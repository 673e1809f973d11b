"""Ends exchanges whose time is up, with one timer for all of a pool.

A timer for each exchange costs 2 % of a whole call, and nearly every one is cancelled: replies come long before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import inf
from typing import Protocol

# Two rounds are at least so far apart: with ten thousand connections a round takes a millisecond. No timeout is exact
# to less than a loop under load is late.
ROUND_S = 0.02


class Timed(Protocol):
    """A connection, as deadlines see it."""

    def expire(self, now: float) -> float:
        """Ends an exchange whose time is up. Returns when the one under way has to end, infinity if none has to."""
        ...


class Deadlines:
    """Sleeps until the earliest end among `connections`. All times are the loop's own, in seconds."""

    def __init__(self, connections: Collection[Timed]) -> None:
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None
        self.next = inf  # when the connections are looked at next

    def wake_at(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Looks at time `at`, which must be earlier than `next`, in place of then."""
        self.close()
        self.next = at
        self._timer = loop.call_at(at, self._round, loop)

    def close(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.next = inf

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer, self.next = None, inf
        nearest = min([connection.expire(now) for connection in list(self._connections)], default=inf)
        if nearest < self.next:  # ending one may have led to another request
            self.wake_at(loop, max(nearest, now + ROUND_S))
