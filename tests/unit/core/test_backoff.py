"""Pauses that grow."""

from __future__ import annotations

from gateway.core.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest_and_a_success_starts_anew() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_s() == 0.5


def test_no_pause_is_longer_than_the_longest() -> None:
    assert Backoff(5.0, 2.0).next_s() == 2.0
