"""Which endings a process remembers, and for how long."""

from __future__ import annotations

from gateway.state.port import NewCall, Record
from gateway.state.recent import KEPT_S, MAX_BYTES, MAX_COUNT, Recent

RECORD = Record.new(NewCall(key="k", fingerprint="f", principal="p", backend="b"), "replica", 0.0)
LONG_S = 1e9


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def keys(recent: Recent) -> list[str]:
    return [ended.key for ended in recent.younger_than(LONG_S)]


def test_both_halves_of_an_ending_are_remembered_as_one_in_either_order() -> None:
    recent = Recent(Clock())
    recent.note("k", RECORD)
    recent.note("k", None, b"outcome")
    recent.note("l", None, b"")
    recent.note("l", RECORD)
    told = [(ended.key, ended.record, ended.outcome) for ended in recent.younger_than(LONG_S)]
    assert told == [("k", RECORD, b"outcome"), ("l", RECORD, b"")]


def test_what_is_not_recent_goes_when_something_ends() -> None:
    clock = Clock()
    recent = Recent(clock)
    recent.note("old", RECORD)
    clock.now = KEPT_S + 1
    assert keys(recent) == ["old"]  # nothing has ended since: Redis may be away
    recent.note("new", RECORD)
    assert keys(recent) == ["new"]


def test_an_ending_older_than_a_result_may_be_is_not_told() -> None:
    clock = Clock()
    recent = Recent(clock)
    recent.note("k", RECORD)
    clock.now = 10.0
    assert recent.younger_than(10.0) == []
    assert recent.younger_than(11.0) != []


def test_count_and_bytes_are_bounded_and_the_latest_stays() -> None:
    recent = Recent(Clock())
    for number in range(MAX_COUNT + 10):
        recent.note(str(number), RECORD)
    assert keys(recent) == [str(number) for number in range(10, MAX_COUNT + 10)]
    recent.note("big", None, bytes(MAX_BYTES // 2))
    recent.note("bigger", None, bytes(MAX_BYTES // 2))
    assert keys(recent) == ["bigger"]
    recent.note("small", None, b"")
    assert keys(recent) == ["bigger", "small"]
