"""Work that waits for the state to come back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.kept.backlog import Backlog, Work
from gateway.state.port import StateUnavailable

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0


class Bench:
    """A state that is away until it is said to be up, and the work that got done."""

    def __init__(self) -> None:
        self.is_up = False
        self.done: list[int] = []
        self.changed = asyncio.Event()

    def work(self, number: int, *errors: Exception) -> Work:
        """Fails with each of the errors, then gets done."""
        left = list(errors)

        async def do() -> None:
            if left:
                raise left.pop(0)
            self.done.append(number)
            self.changed.set()

        return do

    async def until_done(self, *numbers: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.done != list(numbers):
                self.changed.clear()
                await self.changed.wait()


async def test_work_is_done_in_order_as_soon_as_the_state_is_up() -> None:
    bench = Bench()
    backlog = Backlog(lambda: bench.is_up)
    assert all(backlog.hold(1, bench.work(number)) for number in range(3))
    await asyncio.sleep(0)
    assert bench.done == []
    bench.is_up = True
    await bench.until_done(0, 1, 2)
    assert backlog.hold(1, bench.work(3))
    await bench.until_done(0, 1, 2, 3)
    await backlog.aclose()


async def test_work_that_finds_the_state_gone_again_is_tried_again_in_its_place() -> None:
    bench = Bench()
    bench.is_up = True
    backlog = Backlog(lambda: bench.is_up)
    backlog.hold(1, bench.work(0, StateUnavailable(), StateUnavailable()))
    backlog.hold(1, bench.work(1))
    await bench.until_done(0, 1)
    await backlog.aclose()


async def test_work_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.is_up = True
    backlog = Backlog(lambda: bench.is_up)
    backlog.hold(1, bench.work(0, ValueError("a bug")))
    backlog.hold(1, bench.work(1))
    await bench.until_done(1)
    await backlog.aclose()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_what_it_remembers_is_bounded_until_it_is_done() -> None:
    bench = Bench()
    backlog = Backlog(lambda: bench.is_up, max_bytes=10, max_count=3)
    assert [backlog.hold(size, bench.work(size)) for size in (11, 6, 5, 4, 1, 0, 0)] == [
        False,
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    bench.is_up = True
    await bench.until_done(6, 4, 0)
    bench.is_up = False
    assert backlog.hold(10, bench.work(10))
    await backlog.aclose()


async def test_what_is_lost_at_the_end_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    backlog = Backlog(lambda: bench.is_up)
    await backlog.aclose()
    assert caplog.records == []
    for number in range(3):
        backlog.hold(1, bench.work(number))
    await backlog.aclose()
    [record] = caplog.records
    assert (record.levelno, record.__dict__["count"]) == (logging.WARNING, 3)
    assert bench.done == []
