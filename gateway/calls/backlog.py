"""Holds work that needs the state while that is away: in memory, bounded, done in order once the state is back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import NamedTuple

from gateway.state.port import CALL_ID_PREFIX, StateUnavailable

log = logging.getLogger("gateway.backlog")

MAX_BYTES = 64 * 1024 * 1024  # some hundred large results, or a hundred thousand small ones
MAX_COUNT = 100_000  # each takes about a kilobyte besides the bytes that are counted
LOOK_S = 0.2  # between two looks at whether the state is back
MAX_NAMED = 100  # of the calls whose results are lost

Work = Callable[[], Awaitable[object]]


class Held(NamedTuple):
    """Work for the call of that key."""

    key: str
    size_bytes: int
    work: Work


class Backlog:
    """Does work in order while `is_up`. Work that raises StateUnavailable is tried again.

    Its length is the number of pieces still to be done; `lost` counts those that never will be.
    """

    def __init__(self, is_up: Callable[[], bool]) -> None:
        self._is_up = is_up
        self.lost = 0
        self._held: deque[Held] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: str, size_bytes: int, work: Work) -> bool:
        """Takes work that holds `size_bytes` of memory; False if there is no room for it."""
        if self._bytes + size_bytes > MAX_BYTES or len(self._held) >= MAX_COUNT:
            return False
        self._held.append(Held(key, size_bytes, work))
        self._bytes += size_bytes
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do())
        return True

    async def _do(self) -> None:
        while self._held:
            while not self._is_up():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(LOOK_S)
            held = self._held[0]  # stays in the queue, and so is lost at the end, until it is done
            try:
                await held.work()
            except StateUnavailable:
                await asyncio.sleep(LOOK_S)  # away again, perhaps before `is_up` has changed
                continue
            except Exception:  # one piece of work must not cost the others
                log.exception("work that waited for the state failed", extra={"calls": [CALL_ID_PREFIX + held.key]})
                self.lost += 1
            self._held.popleft()
            self._bytes -= held.size_bytes

    async def aclose(self) -> None:
        """Drops what is still held, and logs which calls are concerned."""
        if self._task is not None and not self._task.done():
            calls = dict.fromkeys(CALL_ID_PREFIX + held.key for held in self._held)
            extra = {"count": len(self._held), "calls": list(islice(calls, MAX_NAMED))}
            log.warning("results that waited for the state are lost", extra=extra)
            self.lost += len(self._held)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
