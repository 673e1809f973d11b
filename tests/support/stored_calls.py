"""Helpers for tests of the state."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from gateway.core.errors import StateUnavailable
from gateway.state.port import CallState, Created, Exists, Full, NewCall, Record, State
from tests.support import processes

KEYS = ["the key of these tests, of enough characters"]
DEADLINE_S = 10.0
POLL_S = 0.01

REGISTERED, DISPATCHING, ACCEPTED = CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED
AWAITING_USER, UNKNOWN, DONE = CallState.AWAITING_USER, CallState.UNKNOWN, CallState.DONE

_numbers = itertools.count()


def call(**more: Any) -> NewCall:
    """A call with a new key."""
    return NewCall(**{"key": f"call-{next(_numbers)}", "fingerprint": "f", "principal": "p", "backend": "b"} | more)


async def began(state: State, new: NewCall | None = None, to: CallState = REGISTERED) -> Record:
    """Begins a call and moves it on to a state; returns its record from before the move."""
    begun = await state.begin(new or call())
    assert isinstance(begun, Created)
    for step in (DISPATCHING, ACCEPTED, AWAITING_USER):
        if step <= to:
            assert await state.advance(begun.record.key, [CallState(step - 1)], step)
    return begun.record


async def until(
    reached: Callable[[], bool | Awaitable[bool]], what: str, within_s: float = processes.DEADLINE_S
) -> None:
    """Polls a condition, which is false while the state is unavailable."""
    await processes.until(lambda: _is(reached), what, within_s)


async def _is(reached: Callable[[], bool | Awaitable[bool]]) -> bool:
    with suppress(StateUnavailable):
        answer = reached()
        return answer if isinstance(answer, bool) else await answer
    return False


async def joined(state: State, new: NewCall) -> Record:
    """The record of the call that a new one joins."""
    begun = await state.begin(new)
    assert isinstance(begun, Exists)
    return begun.record


async def begins(state: State, new: NewCall | None = None) -> bool:
    """Whether a call can begin: a new one if none is given."""
    return isinstance(await state.begin(new or call()), Created)


def outcome_of(record: Record | None) -> bytes | None:
    """The outcome of a call that exists."""
    assert record is not None
    return record.outcome


async def found(state: State, key: str) -> Record:
    """The record of a call that exists."""
    record = await state.get(key)
    assert record is not None
    return record


async def until_gone(state: State, key: str) -> None:
    """Waits until a call has no record."""

    async def is_gone() -> bool:
        return await state.get(key) is None

    await until(is_gone, "the call is gone")


async def refusal(state: State, **more: Any) -> Full:
    """Begins a new call, which is refused for lack of room."""
    begun = await state.begin(call(**more))
    assert isinstance(begun, Full)
    return begun


async def state_of(state: State, key: str) -> CallState | None:
    record = await state.get(key)
    return None if record is None else record.state


async def is_in(state: State, key: str, expected: CallState) -> bool:
    return await state_of(state, key) is expected


async def orphans(state: State, count: int) -> dict[str, Record]:
    """Claims until it has `count` calls, as the gateway does every few seconds."""
    claimed: dict[str, Record] = {}

    async def has_all() -> bool:
        claimed.update({record.key: record for record in await state.claim_orphans(100)})
        return len(claimed) >= count

    await until(has_all, f"{count} orphans are claimed")
    return claimed


async def judges(survivor: State, doomed: State) -> None:
    """Waits until `survivor` takes the silent for dead: it claims a call of `doomed`."""
    await began(doomed)
    await doomed.aclose()
    await orphans(survivor, 1)
