"""The places of questions that are asked at once, shared by callers in turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

MAX_WAITING = 1024  # questions of all callers; behind more, a caller meets its own timeout first


class NoPlaceError(Exception):
    """No place became free in time. The text is for our log."""


class Places:
    """So many questions are asked at once. The next free place goes to the caller whose turn it is, of those that wait.

    If too many wait, those of the caller with the most of them are refused, so that the others are not.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, dict[asyncio.Future[None], None]] = OrderedDict()  # by caller, in turn
        self._waiters = 0

    async def take(self, caller: str, timeout_s: float) -> None:
        """Waits for a place; it has to be given back. Raises NoPlaceError."""
        if self._free:
            self._free -= 1
            return
        if self._waiters >= MAX_WAITING:
            self._make_room(caller)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(caller, {})[waiter] = None
        self._waiters += 1
        timer = loop.call_later(timeout_s, _refuse, waiter, "no place for the question became free in time")
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back()  # it was cancelled after it got its place
            raise
        finally:
            timer.cancel()
            self._leave(caller, waiter)

    def give_back(self) -> None:
        """Frees a place, for the first caller in turn."""
        while self._waiting:
            caller, waiters = self._waiting.popitem(last=False)
            waiter = next(iter(waiters))
            del waiters[waiter]
            self._waiters -= 1
            if waiters:
                self._waiting[caller] = waiters
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _make_room(self, caller: str) -> None:
        """Refuses the latest question of the caller that has the most. Raises NoPlaceError if that is this one."""
        greediest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        if len(self._waiting[greediest]) <= len(self._waiting.get(caller, ())) + 1:
            raise NoPlaceError("too many questions wait for a place")
        waiter = next(reversed(self._waiting[greediest]))
        _refuse(waiter, "too many questions of its caller wait for a place")
        self._leave(greediest, waiter)

    def _leave(self, caller: str, waiter: asyncio.Future[None]) -> None:
        """Takes a question out of the queue, if it is still there."""
        waiters = self._waiting.get(caller)
        if waiters is None or waiter not in waiters:
            return
        del waiters[waiter]
        self._waiters -= 1
        if not waiters:
            del self._waiting[caller]


def _refuse(waiter: asyncio.Future[None], why: str) -> None:
    if not waiter.done():
        waiter.set_exception(NoPlaceError(why))
