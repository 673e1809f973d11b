"""Which endings a process remembers, and for how long."""

from __future__ import annotations

from gateway.state.port import REGISTERED, NewCall, Record
from gateway.state.recent import MAX_BYTES, MAX_COUNT, Recent

RECORD = Record.of(NewCall(key="k", fingerprint="f", principal="p", backend="b"), "replica", 0.0, REGISTERED, b"")
KEPT_S = 3600.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def keys(recent: Recent) -> list[str]:
    return [ended.key for ended in recent.all()]


def test_both_halves_of_an_ending_are_remembered_as_one_in_either_order() -> None:
    recent = Recent(KEPT_S, Clock())
    recent.note("k", RECORD)
    recent.note("k", None, b"outcome")
    recent.note("l", None, b"")
    recent.note("l", RECORD)
    told = [(ended.key, ended.record, ended.outcome) for ended in recent.all()]
    assert told == [("k", RECORD, b"outcome"), ("l", RECORD, b"")]


def test_no_more_is_remembered_of_a_call_than_is_kept_of_it() -> None:
    recent = Recent(KEPT_S, Clock())
    for number in range(10):
        recent.note(str(number), RECORD, bytes(MAX_BYTES // 2))
        recent.reduce(str(number), b"told")
    recent.reduce("nobody", b"told")
    told = [(ended.key, ended.record, ended.outcome, ended.is_reduced) for ended in recent.all()]
    assert told == [(str(number), RECORD, b"told", True) for number in range(10)]


def test_an_ending_is_remembered_as_long_as_its_result_and_goes_when_something_ends() -> None:
    clock = Clock()
    recent = Recent(KEPT_S, clock)
    recent.note("old", None, bytes(MAX_BYTES // 2))
    clock.now = KEPT_S - 1
    assert keys(recent) == ["old"]
    clock.now = KEPT_S
    assert keys(recent) == []
    recent.note("new", None, bytes(MAX_BYTES // 2))
    recent.note("newer", None, bytes(MAX_BYTES // 4))
    assert keys(recent) == ["new", "newer"]  # there is room for them


def test_count_and_bytes_are_bounded_and_the_latest_stays() -> None:
    recent = Recent(KEPT_S, Clock())
    for number in range(MAX_COUNT + 10):
        recent.note(str(number), RECORD)
    assert keys(recent) == [str(number) for number in range(10, MAX_COUNT + 10)]
    recent.note("big", None, bytes(MAX_BYTES // 2))
    recent.note("bigger", None, bytes(MAX_BYTES // 2))
    assert keys(recent) == ["bigger"]
    recent.note("small", None, b"")
    assert keys(recent) == ["bigger", "small"]
