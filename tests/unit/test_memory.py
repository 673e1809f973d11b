"""The memory that bodies and answers share."""

from __future__ import annotations

from gateway.memory import ARRIVING, BodyMemory


class Arriving:
    """An answer that notes when it may go on."""

    def __init__(self) -> None:
        self.went_on = 0

    def resume(self) -> None:
        self.went_on += 1


def test_one_caller_gets_a_quarter_and_bodies_a_half() -> None:
    memory = BodyMemory(400)
    memory.take("a", 100)
    assert not memory.fits_share("a", 1)
    assert memory.fits_share("b", 100)
    assert not memory.fits_share("b", 101)
    assert memory.fits_bodies(100)
    assert not memory.fits_bodies(101)
    memory.give("a", 100)
    assert memory.fits_share("a", 100)
    assert memory.held == 0


def test_while_it_is_full_one_answer_goes_on_and_the_others_wait() -> None:
    memory, first, second, third = BodyMemory(400), Arriving(), Arriving(), Arriving()
    assert not memory.must_wait(first)
    memory.take(ARRIVING, 401)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    assert memory.must_wait(third)
    assert not memory.must_wait(first)
    memory.leave(first)
    assert (second.went_on, third.went_on) == (1, 0)
    assert not memory.must_wait(second)


def test_they_all_go_on_when_there_is_room_again() -> None:
    memory, first, second = BodyMemory(400), Arriving(), Arriving()
    memory.take(ARRIVING, 500)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    memory.give(ARRIVING, 100)
    assert not memory.is_full
    assert (first.went_on, second.went_on) == (1, 1)


def test_another_limit_counts_at_once() -> None:
    memory, first, second = BodyMemory(400), Arriving(), Arriving()
    memory.take(ARRIVING, 300)
    memory.change(200)
    assert not memory.must_wait(first)
    assert memory.must_wait(second)
    memory.change(300)
    assert second.went_on == 1


def test_all_answers_wait_while_callers_who_do_not_read_hold_the_memory() -> None:
    memory, first = BodyMemory(400), Arriving()
    memory.take(ARRIVING, 150)
    memory.take("a", 300)
    assert memory.must_wait(first)
    memory.give("a", 300)
    assert first.went_on == 1
