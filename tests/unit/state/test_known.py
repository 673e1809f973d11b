"""What was seen before is never taken for new."""

from __future__ import annotations

from gateway.state.known import Known

LIFETIME_S = 100.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_was_added_is_known_and_hardly_anything_else() -> None:
    known = Known(LIFETIME_S, 100_000, Clock())
    names = [f"name {number}" for number in range(10_000)]
    for name in names:
        known.add(name)
    assert all(name in known for name in names)
    assert sum(f"new {number}" in known for number in range(10_000)) < 10


def test_a_name_is_known_for_a_lifetime_at_least_and_for_two_at_most() -> None:
    clock = Clock()
    known = Known(LIFETIME_S, 1000, clock)
    clock.now = 60.0
    known.add("late in its generation")
    clock.now = 100.0
    known.add("early in the next")
    clock.now = 160.0
    assert "late in its generation" in known
    clock.now = 200.0
    assert "late in its generation" not in known
    assert "early in the next" in known
    clock.now = 300.0
    assert "early in the next" not in known


def test_after_a_long_silence_nothing_is_known() -> None:
    clock = Clock()
    known = Known(LIFETIME_S, 1000, clock)
    known.add("name")
    clock.now = 250.0
    assert "name" not in known


def test_one_that_is_full_takes_everything_for_known() -> None:
    known = Known(LIFETIME_S, 16, Clock())
    for number in range(1000):
        known.add(f"name {number}")
    assert "new" in known
