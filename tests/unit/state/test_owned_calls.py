"""Calls that a process owns, dated by the clock of Redis, and the endings that it remembers."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from gateway.core.model import CallKey
from gateway.core.sealing import Sealer
from gateway.redisclient.store import Scripts
from gateway.state.owned_calls import MAX_RECENT, MAX_RECENT_BYTES, OwnedCalls, RecentEndings
from gateway.state.port import ACCEPTED, REGISTERED, NewCall, Record, StateLimits
from gateway.state.records import Records

TTL_S = 600.0
KEY = CallKey("k" * 43)
NEW = NewCall(key=CallKey("k"), fingerprint="f", principal="p", backend="b")
RECORD = Record.of(NEW, "replica", 0.0, REGISTERED, b"")
KEPT_S = 3600.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def keys(recent: RecentEndings) -> list[str]:
    return [ending.key for ending in recent.all()]


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_call_is_owned_for_its_whole_time_though_redis_has_another_clock(ahead_s: float) -> None:
    limits = StateLimits(pending_ttl_s=TTL_S)
    owned = OwnedCalls(cast(Scripts, None), Records(Sealer((), "state")), limits, RecentEndings(KEPT_S))
    redis_s = time.time() + ahead_s
    made: dict[str, Any] = {"fingerprint": "f", "principal": "p", "backend": "b", "state": ACCEPTED, "replica": "r"}
    owned[KEY] = record = Record(key=KEY, created_s=redis_s, **made)
    owned.set_clock(redis_s + TTL_S / 2)
    assert owned.expired() == []
    assert owned.current(KEY) is not None
    owned.set_clock(redis_s + TTL_S + 1)
    assert owned.expired() == [record]
    assert owned.current(KEY) is None


def test_both_halves_of_an_ending_are_remembered_as_one_in_either_order() -> None:
    recent = RecentEndings(KEPT_S, Clock())
    recent.add("k", RECORD)
    recent.add("k", None, b"outcome")
    recent.add("l", None, b"")
    recent.add("l", RECORD)
    known = [(ending.key, ending.record, ending.outcome) for ending in recent.all()]
    assert known == [("k", RECORD, b"outcome"), ("l", RECORD, b"")]


def test_an_ending_is_reduced_with_its_call() -> None:
    recent = RecentEndings(KEPT_S, Clock())
    for number in range(10):
        recent.add(str(number), RECORD, bytes(MAX_RECENT_BYTES // 2))
        recent.reduce(str(number), b"short")
    recent.reduce("unknown", b"short")
    known = [(ending.key, ending.record, ending.outcome, ending.is_reduced) for ending in recent.all()]
    assert known == [(str(number), RECORD, b"short", True) for number in range(10)]


def test_an_ending_is_remembered_as_long_as_its_result_and_goes_when_something_ends() -> None:
    clock = Clock()
    recent = RecentEndings(KEPT_S, clock)
    recent.add("old", None, bytes(MAX_RECENT_BYTES // 2))
    clock.now = KEPT_S - 1
    assert keys(recent) == ["old"]
    clock.now = KEPT_S
    assert keys(recent) == []
    recent.add("new", None, bytes(MAX_RECENT_BYTES // 2))
    recent.add("newer", None, bytes(MAX_RECENT_BYTES // 4))
    assert keys(recent) == ["new", "newer"]  # there is room for them


def test_count_and_bytes_are_bounded_and_the_latest_stays() -> None:
    recent = RecentEndings(KEPT_S, Clock())
    for number in range(MAX_RECENT + 10):
        recent.add(str(number), RECORD)
    assert keys(recent) == [str(number) for number in range(10, MAX_RECENT + 10)]
    assert [ending.key for ending in recent.all("333")] == ["333", *(f"333{digit}" for digit in range(10))]
    recent.add("big", None, bytes(MAX_RECENT_BYTES // 2))
    recent.add("bigger", None, bytes(MAX_RECENT_BYTES // 2))
    assert keys(recent) == ["bigger"]
    recent.add("small", None, b"")
    assert keys(recent) == ["bigger", "small"]
