"""Work that came up while the state was away: held in memory, bounded, and done as soon as it is back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import NamedTuple

from gateway.state.port import StateUnavailable

log = logging.getLogger("gateway.backlog")

MAX_BYTES = 64 * 1024 * 1024  # some hundred large results, or a hundred thousand small ones
MAX_COUNT = 100_000  # a piece of work weighs about a kilobyte besides what it remembers
LOOK_S = 0.2  # between two looks at whether the state is back
MAX_NAMED = 100  # of the calls whose results are lost

Work = Callable[[], Awaitable[object]]


class Held(NamedTuple):
    """Work for the call of that key."""

    key: str
    size_bytes: int
    work: Work


class Backlog:
    """Work to be done in order once `is_up` says so. Work that raises StateUnavailable is tried again.

    Its length is how many pieces are to be done; `lost` counts those that never will be.
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
        """Keeps work that remembers `size_bytes`; False when there is no room for it."""
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
            held = self._held[0]  # it counts as held, and as lost at the end, until it is done
            try:
                await held.work()
            except StateUnavailable:
                await asyncio.sleep(LOOK_S)  # gone again, perhaps before `is_up` has noticed
                continue
            except Exception:  # one piece of work must not cost the others
                log.exception("work that was held while the state was away failed", extra={"calls": [held.key]})
                self.lost += 1
            self._held.popleft()
            self._bytes -= held.size_bytes

    async def aclose(self) -> None:
        """Drops what is still held, and names the calls that this is about."""
        if self._task is not None and not self._task.done():
            calls = dict.fromkeys(held.key for held in self._held)
            told = {"count": len(self._held), "calls": list(islice(calls, MAX_NAMED))}
            log.warning("results held for the state are lost", extra=told)
            self.lost += len(self._held)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
