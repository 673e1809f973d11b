"""When each backend is asked for its tools: at most so many at once, and whether all have had their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress

MAX_PARALLEL_LISTS = 256  # but for slow backends: each needs a file, and a few threads look up their names
SLOW_S = 1.0  # after which one that has not answered no longer keeps others waiting


class Turns:
    """The turns of backends, by name. Each has `limit_s` for its first answer, from when it was first asked."""

    def __init__(
        self, names: Iterable[str], clock: Callable[[], float], limit_s: float, at_once: int = MAX_PARALLEL_LISTS
    ) -> None:
        self._untried = set(names)
        self._unasked = set(self._untried)
        self._clock = clock
        self._limit_s = limit_s
        self._asked_at: float | None = None  # when the last of them was asked for the first time
        self._are_over = asyncio.Event()
        self._places = asyncio.Semaphore(at_once)

    def begin(self) -> None:
        """Backends are asked from now on."""
        self._asked_at = self._clock()
        self._look()

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """The turn of a backend, for which it may have to wait."""
        await self._places.acquire()
        place = ExitStack()
        place.callback(self._places.release)
        slow = asyncio.get_running_loop().call_later(SLOW_S, place.close)
        if name in self._unasked:
            self._unasked.discard(name)
            self._asked_at = self._clock()
        try:
            yield
        finally:
            slow.cancel()
            place.close()

    def note_tried(self, name: str) -> None:
        """Notes that a backend was asked, whatever came of it."""
        self._unasked.discard(name)
        self._untried.discard(name)
        self._look()

    def was_tried(self, name: str) -> bool:
        return name not in self._untried

    @property
    def are_over(self) -> bool:
        """Whether every backend was asked once, or has had its time; never false again afterwards."""
        if self._are_over.is_set():
            return True
        return self._asked_at is not None and not self._unasked and self._left_s(self._asked_at) <= 0

    async def wait(self) -> None:
        """Returns when they are over; to be awaited after `begin`."""
        assert self._asked_at is not None
        while not self.are_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limit_s if self._unasked else self._left_s(self._asked_at)):
                    await self._are_over.wait()
        self._are_over.set()

    def _left_s(self, asked_at: float) -> float:
        return asked_at + self._limit_s - self._clock()

    def _look(self) -> None:
        if not self._untried and self._asked_at is not None:
            self._are_over.set()
