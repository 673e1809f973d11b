"""The memory that bodies and answers share."""

from __future__ import annotations

import asyncio

import pytest

from gateway.net.body_memory import ARRIVED, ARRIVING, COPIES, BodyMemory

MIB = 1024 * 1024
pytestmark = pytest.mark.anyio


class Arriving:
    """An answer that notes when it may go on."""

    def __init__(self) -> None:
        self.went_on = 0

    def resume(self) -> None:
        self.went_on += 1


def test_one_caller_gets_a_quarter_and_bodies_a_half() -> None:
    memory = BodyMemory(400 * MIB)
    memory.take("a", 100 * MIB)
    assert not memory.fits_share("a", 1)
    assert memory.fits_share("b", 100 * MIB)
    assert not memory.fits_share("b", 100 * MIB + 1)
    assert memory.fits_bodies(100 * MIB)
    assert not memory.fits_bodies(100 * MIB + 1)
    memory.give("a", 100 * MIB)
    assert memory.fits_share("a", 100 * MIB)
    assert memory.held == 0


def test_while_it_is_full_one_answer_goes_on_and_the_others_wait() -> None:
    memory, first, second, third = BodyMemory(400 * MIB), Arriving(), Arriving(), Arriving()
    assert not memory.must_wait(first)
    memory.take(ARRIVING, 401 * MIB)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    assert memory.must_wait(third)
    assert not memory.must_wait(first)
    memory.leave(first)
    assert (second.went_on, third.went_on) == (1, 0)
    assert not memory.must_wait(second)


def test_they_all_go_on_when_there_is_room_again() -> None:
    memory, first, second = BodyMemory(400 * MIB), Arriving(), Arriving()
    memory.take(ARRIVING, 500 * MIB)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    memory.give(ARRIVING, 110 * MIB)
    assert not memory.is_full
    assert (first.went_on, second.went_on) == (2, 1)  # the first need not have waited


def test_another_limit_counts_at_once() -> None:
    memory, first, second = BodyMemory(400 * MIB), Arriving(), Arriving()
    memory.take(ARRIVING, 300 * MIB)
    memory.change(200 * MIB)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    memory.change(310 * MIB)
    assert second.went_on == 1


def test_all_answers_wait_while_callers_who_do_not_read_hold_the_memory() -> None:
    memory, first = BodyMemory(400 * MIB), Arriving()
    memory.take(ARRIVING, 150 * MIB)
    memory.take("a", 300 * MIB)
    assert memory.must_wait(first)
    memory.give("a", 300 * MIB)
    assert first.went_on == 1


def test_only_as_many_go_on_as_there_is_room_for_once_they_are_complete() -> None:
    memory, waiting = BodyMemory(400 * MIB), [Arriving() for _ in range(4)]
    memory.take(ARRIVING, 190 * MIB)
    memory.take("a", 300 * MIB)
    for one in waiting:
        assert memory.must_wait(one, 45 * MIB)
    memory.give("a", 190 * MIB)
    assert [one.went_on for one in waiting] == [1, 1, 0, 0]
    memory.give("a", 110 * MIB)
    assert all(one.went_on for one in waiting)


async def test_an_answer_counts_twice_until_its_task_has_handed_it_on_or_is_over() -> None:
    memory = BodyMemory(400 * MIB)

    async def answer(hands_on: bool) -> None:
        memory.keep(10 * MIB)
        assert memory.held == COPIES * 10 * MIB
        if hands_on:
            memory.hand_on(asyncio.current_task())
            assert memory.held == 0

    for hands_on in (False, True):
        await asyncio.create_task(answer(hands_on))
        await asyncio.sleep(0)
        assert memory.held == 0


def test_what_has_arrived_does_not_let_more_arrive() -> None:
    memory, one = BodyMemory(400 * MIB), Arriving()
    memory.take(ARRIVED, 401 * MIB)
    assert memory.must_wait(one)
