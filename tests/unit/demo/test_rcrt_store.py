from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.demo import rcrt_store
from gateway.demo.rcrt_store import Actor, Store, TooLargeError

MEBIBYTE = 1024 * 1024
ACTOR = Actor("owner", "agent", ("emitter",))


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = datetime(2025, 11, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def draft(context: Any = None, **more: Any) -> dict[str, Any]:
    return {"title": "a note", "tags": [], "context": context, **more}


def test_what_has_expired_is_readable_until_the_next_sweep() -> None:
    clock = Clock()
    store = Store(MEBIBYTE, clock)
    mortal = store.create(draft(ttl="2025-11-10T00:00:10Z"), ACTOR)
    immortal = store.create(draft(), ACTOR)
    clock.now += rcrt_store.SWEEP_INTERVAL - timedelta(seconds=1)
    assert store.get(mortal.id) is mortal
    clock.now += timedelta(seconds=1)
    assert store.get(mortal.id) is None
    assert store.select() == [immortal]


def test_the_longest_untouched_go_when_there_are_too_many() -> None:
    store = Store(MEBIBYTE)
    pinned = store.create(draft(), ACTOR, pinned=True)
    first, second = store.create(draft(), ACTOR), store.create(draft(), ACTOR)
    store.update(first, {}, ACTOR)
    for _ in range(rcrt_store.MAX_BREADCRUMBS - 2):
        store.create(draft(), ACTOR)
    assert store.get(second.id) is None
    assert store.get(first.id) is first
    assert store.get(pinned.id) is pinned


def test_the_longest_untouched_go_when_there_is_too_much() -> None:
    store = Store(MEBIBYTE)
    text = "x" * (MEBIBYTE - 2)
    kept = [store.create(draft(text), ACTOR) for _ in range(rcrt_store.MAX_TOTAL_BYTES // MEBIBYTE + 1)]
    assert store.get(kept[0].id) is None
    assert store.get(kept[1].id) is kept[1]


def test_a_context_that_is_too_large_is_not_stored() -> None:
    store = Store(10)
    with pytest.raises(TooLargeError):
        store.create(draft("x" * 10), ACTOR)
    assert store.select() == []


def test_an_idempotency_key_is_remembered_until_there_are_too_many() -> None:
    store = Store(10)
    assert store.burn("first")
    assert not store.burn("first")
    for number in range(rcrt_store.MAX_KEYS):
        store.burn(str(number))
    assert store.burn("first")
