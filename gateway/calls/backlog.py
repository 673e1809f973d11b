"""Holds work that needs the state while that is away: in memory, bounded, done once the state is back.

Work for one call is done in order. Work for calls in a part of the state that is still away holds up no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import NamedTuple

from gateway.core.errors import StateUnavailable
from gateway.core.model import CallKey, public_id

log = logging.getLogger("gateway.backlog")

MAX_BYTES = 64 * 1024 * 1024  # some hundred large results, or a hundred thousand small ones
MAX_COUNT = 100_000  # each takes about a kilobyte besides the bytes that are counted
LOOK_S = 0.2  # between two looks at whether the state is back
MAX_NAMED = 100  # of the calls whose results are lost

Work = Callable[[], Awaitable[object]]


class Held(NamedTuple):
    size_bytes: int
    work: Work


class Backlog:
    """Does work as soon as the state `is_up` for its key. Work that raises StateUnavailable is tried again.

    Its length is the number of pieces still to be done; `lost` counts those that never will be.
    """

    def __init__(self, is_up: Callable[[str], bool]) -> None:
        self._is_up = is_up
        self.lost = 0
        self._held: dict[CallKey, deque[Held]] = {}  # by the key of their call
        self._count = self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._count

    def hold(self, key: CallKey, size_bytes: int, work: Work) -> bool:
        """Takes work that holds `size_bytes` of memory; False if there is no room for it."""
        if self._bytes + size_bytes > MAX_BYTES or self._count >= MAX_COUNT:
            return False
        self._held.setdefault(key, deque()).append(Held(size_bytes, work))
        self._count += 1
        self._bytes += size_bytes
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do())
        return True

    async def _do(self) -> None:
        while self._held:
            for key in [key for key in self._held if self._is_up(key)]:
                with contextlib.suppress(StateUnavailable):  # away again, perhaps before `is_up` has changed
                    await self._do_all(key)
            if self._held:
                await asyncio.sleep(LOOK_S)  # there is no event for it

    async def _do_all(self, key: CallKey) -> None:
        """Does the work for one call. Raises StateUnavailable."""
        while key in self._held:
            held = self._held[key][0]  # stays in the queue, and so is lost at the end, until it is done
            try:
                await held.work()
            except StateUnavailable:
                raise
            except Exception:  # one piece of work must not cost the others
                log.exception("work that waited for the state failed", extra={"calls": [public_id(key)]})
                self.lost += 1
            self._held[key].popleft()
            if not self._held[key]:
                del self._held[key]
            self._count -= 1
            self._bytes -= held.size_bytes

    async def aclose(self) -> None:
        """Drops what is still held, and logs which calls are concerned."""
        if self._task is not None and not self._task.done():
            calls = [public_id(key) for key in islice(self._held, MAX_NAMED)]
            extra = {"count": self._count, "calls": calls}
            log.warning("results that waited for the state are lost", extra=extra)
            self.lost += self._count
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
