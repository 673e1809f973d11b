"""Work that waits for the state to come back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.calls.backlog import MAX_BYTES, MAX_COUNT, Backlog, Work
from gateway.core.errors import StateUnavailable
from gateway.core.model import CallKey

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0
KEY = CallKey("k" * 43)


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
    backlog = Backlog(lambda key: bench.is_up)
    assert all(backlog.hold(KEY, 1, bench.work(number)) for number in range(3))
    await asyncio.sleep(0)
    assert bench.done == []
    bench.is_up = True
    await bench.until_done(0, 1, 2)
    assert backlog.hold(KEY, 1, bench.work(3))
    await bench.until_done(0, 1, 2, 3)
    await backlog.aclose()


async def test_work_that_finds_the_state_gone_again_is_tried_again_in_its_place() -> None:
    bench = Bench()
    bench.is_up = True
    backlog = Backlog(lambda key: bench.is_up)
    backlog.hold(KEY, 1, bench.work(0, StateUnavailable(), StateUnavailable()))
    backlog.hold(KEY, 1, bench.work(1))
    await bench.until_done(0, 1)
    await backlog.aclose()


async def test_work_for_calls_whose_part_of_the_state_is_away_holds_up_no_other() -> None:
    bench = Bench()
    away = {KEY, "unnoticed"}
    backlog = Backlog(lambda key: key != KEY or key not in away)
    backlog.hold(KEY, 1, bench.work(0))
    backlog.hold(CallKey("unnoticed"), 1, bench.work(1, StateUnavailable()))
    backlog.hold(CallKey("other"), 1, bench.work(2))
    backlog.hold(KEY, 1, bench.work(3))
    await bench.until_done(2, 1)
    away.clear()
    await bench.until_done(2, 1, 0, 3)
    await backlog.aclose()


async def test_work_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.is_up = True
    backlog = Backlog(lambda key: bench.is_up)
    backlog.hold(KEY, 1, bench.work(0, ValueError("a bug")))
    backlog.hold(KEY, 1, bench.work(1))
    await bench.until_done(1)
    await backlog.aclose()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert backlog.lost == 1


async def test_the_bytes_it_remembers_are_bounded_until_the_work_is_done() -> None:
    bench = Bench()
    backlog = Backlog(lambda key: bench.is_up)
    sizes = {1: MAX_BYTES + 1, 2: MAX_BYTES - 4, 3: 5, 4: 4, 5: 1, 6: 0}
    held = [number for number, size in sizes.items() if backlog.hold(KEY, size, bench.work(number))]
    assert held == [2, 4, 6]
    bench.is_up = True
    await bench.until_done(2, 4, 6)
    bench.is_up = False
    assert backlog.hold(KEY, MAX_BYTES, bench.work(7))
    await backlog.aclose()


async def test_the_pieces_of_work_it_holds_are_bounded() -> None:
    bench = Bench()
    backlog = Backlog(lambda key: bench.is_up)
    work = bench.work(1)
    assert all(backlog.hold(KEY, 0, work) for _ in range(MAX_COUNT))
    assert not backlog.hold(KEY, 0, work)
    await backlog.aclose()


async def test_what_is_lost_at_the_end_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    backlog = Backlog(lambda key: bench.is_up)
    await backlog.aclose()
    assert caplog.records == []
    assert (len(backlog), backlog.lost) == (0, 0)
    for number in range(3):
        backlog.hold(CallKey("k") if number else KEY, 1, bench.work(number))
    assert len(backlog) == 3
    await backlog.aclose()
    [record] = caplog.records
    assert (record.levelno, vars(record)["count"]) == (logging.WARNING, 3)
    assert vars(record)["calls"] == [f"tg-{KEY}", "tg-k"]
    assert backlog.lost == 3
    assert bench.done == []
