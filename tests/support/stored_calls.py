"""What the tests of the state say again and again."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from gateway.state.port import CallState, Created, Exists, Full, NewCall, Record, State, StateUnavailable
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
    """A call that was just registered, and moved on to a state."""
    begun = await state.begin(new or call())
    assert isinstance(begun, Created)
    for step in (DISPATCHING, ACCEPTED, AWAITING_USER):
        if step <= to:
            assert await state.advance(begun.record.key, [CallState(step - 1)], step)
    return begun.record


async def until(reached: Callable[[], bool | Awaitable[bool]], what: str, within_s: float = DEADLINE_S) -> None:
    """Waits for something that says nothing when it happens; it has not happened while the state is unavailable."""
    await processes.until(lambda: _is(reached), what, within_s)


async def _is(reached: Callable[[], bool | Awaitable[bool]]) -> bool:
    with suppress(StateUnavailable):
        answer = reached()
        return answer if isinstance(answer, bool) else await answer
    return False


async def joined(state: State, new: NewCall) -> Record:
    """What a call is taken for that is there already."""
    begun = await state.begin(new)
    assert isinstance(begun, Exists)
    return begun.record


async def begins(state: State, new: NewCall | None = None) -> bool:
    """Whether a call may be dispatched: a new one if none is given."""
    return isinstance(await state.begin(new or call()), Created)


def outcome_of(record: Record | None) -> bytes | None:
    """How a call that is there has ended."""
    assert record is not None
    return record.outcome


async def found(state: State, key: str) -> Record:
    """A call that is there."""
    record = await state.get(key)
    assert record is not None
    return record


async def until_gone(state: State, key: str) -> None:
    """Waits until nothing is left of a call but its key."""

    async def is_gone() -> bool:
        return await state.get(key) is None

    await until(is_gone, "the call is gone")


async def refusal(state: State, **more: Any) -> Full:
    """How a new call is refused."""
    begun = await state.begin(call(**more))
    assert isinstance(begun, Full)
    return begun


async def state_of(state: State, key: str) -> CallState | None:
    record = await state.get(key)
    return None if record is None else record.state


async def is_in(state: State, key: str, expected: CallState) -> bool:
    return await state_of(state, key) is expected


async def orphans(state: State, count: int) -> dict[str, Record]:
    """Claims until it has so many calls, as the gateway does every few seconds."""
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
