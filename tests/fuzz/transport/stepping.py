"""Coroutines that are cancelled at one await, or at one turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from tests.fuzz.transport.loops import DEADLINE_S, turns


class Stepped:
    """Awaits a coroutine, counts where it is suspended, and cancels the task at one of these points.

    `at_once`: the cancellation is there when it begins to wait; else it comes a turn of the loop later.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], cancel_at: int, *, at_once: bool) -> None:
        self.points = 0
        self._coroutine = coroutine
        self._cancel_at = cancel_at
        self._at_once = at_once

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            try:
                waited = resume(value)
            except StopIteration as stop:
                return stop.value
            self._count()
            try:
                resume, value = self._coroutine.send, (yield waited)
            except BaseException as exc:
                resume, value = self._coroutine.throw, exc

    def _count(self) -> None:
        self.points += 1
        if self.points == self._cancel_at:
            task = asyncio.current_task()
            assert task is not None
            if self._at_once:
                task.cancel()
            else:
                asyncio.get_running_loop().call_soon(task.cancel)


Cancel = Callable[[Coroutine[Any, Any, Any]], Awaitable[int]]


def at_point(number: int, *, at_once: bool) -> Cancel:
    """Cancels where the coroutine is suspended for that time. Returns how often it was."""

    async def cancel(coroutine: Coroutine[Any, Any, Any]) -> int:
        stepped = Stepped(coroutine, number, at_once=at_once)

        async def step() -> Any:
            return await stepped

        task = asyncio.create_task(step())
        await asyncio.wait([task], timeout=DEADLINE_S)
        assert task.done()
        assert task.cancelled() or task.exception() is None  # the reply may come in the same turn
        return stepped.points

    return cancel


def after_turns(number: int) -> Cancel:
    """Cancels after so many turns of the loop. Returns 0 when it was over before."""

    async def cancel(coroutine: Coroutine[Any, Any, Any]) -> int:
        task = asyncio.create_task(coroutine)
        await turns(number)
        was_over = task.done()
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_S)
        assert task.done()
        return int(not was_over)

    return cancel
