"""A limit for workflow tools, whose steps wait for places in the very runner the workflow holds a place of.

A runner of November 2025 has five places; four workflows at once were seen to block each other until all timed out.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from gateway.admission import DispatchGate
from gateway.dialects.rcrt import WORKFLOW
from gateway.errors import unavailable

AT_ONCE = 2


class Workflows:
    """At most two at a time from this process; other tools pass freely."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._places = asyncio.Semaphore(AT_ONCE)

    async def enter(self, tool: str, timeout_s: float, gate: DispatchGate | None) -> Place | None:
        """Waits for a place, which is held for the limit at the most. None: the tool needs none.

        Raises BACKEND_UNAVAILABLE, and what its `gate` raises.
        """
        if tool != WORKFLOW:
            return None
        has_to_wait = self._places.locked()
        if gate is not None and has_to_wait:
            await gate.waits()
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise unavailable("too many workflows run") from None
        place = Place(self._places, self._limit_s)
        with ExitStack() as unless_entered:
            unless_entered.callback(place.leave)
            if gate is not None and has_to_wait:
                await gate.goes()
            unless_entered.pop_all()
        return place


class Place:
    """One of them, until it is left or its time is up."""

    def __init__(self, places: asyncio.Semaphore, limit_s: float) -> None:
        self._places = places
        self._timer = asyncio.get_running_loop().call_later(limit_s, self.leave)
        self._is_taken = True

    def leave(self) -> None:
        """Gives it back. A second call does nothing."""
        if self._is_taken:
            self._is_taken = False
            self._timer.cancel()
            self._places.release()
