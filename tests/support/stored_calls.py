"""What the tests of the state say again and again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from gateway.state.port import CallState, Created, NewCall, Record, State, StateUnavailable

KEYS = ["the key of these tests, of enough characters"]
DEADLINE_S = 10.0
POLL_S = 0.01

REGISTERED, DISPATCHING, ACCEPTED = CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED
AWAITING_USER, UNKNOWN, DONE = CallState.AWAITING_USER, CallState.UNKNOWN, CallState.DONE

_numbers = itertools.count()


def call(**more: Any) -> NewCall:
    """A call nobody has made before."""
    return NewCall(**{"key": f"call-{next(_numbers)}", "fingerprint": "f", "principal": "p", "backend": "b"} | more)


async def began(state: State, new: NewCall | None = None, to: CallState = REGISTERED) -> Record:
    """A call that was just registered, and moved on to a state."""
    begun = await state.begin(new or call())
    assert isinstance(begun, Created)
    for step in (DISPATCHING, ACCEPTED, AWAITING_USER):
        if step <= to:
            assert await state.advance(begun.record.key, [CallState(step - 1)], step)
    return begun.record


async def until(reached: Callable[[], Awaitable[bool]], what: str, within_s: float = DEADLINE_S) -> None:
    """Waits for something that says nothing when it happens."""
    try:
        async with asyncio.timeout(within_s):
            while not await reached():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"after {within_s:g} s still not: {what}") from None


async def state_of(state: State, key: str) -> CallState | None:
    record = await state.get(key)
    return None if record is None else record.state


async def orphans(state: State, count: int) -> dict[str, Record]:
    """Claims until it has so many calls, as the gateway does every few seconds."""
    claimed: dict[str, Record] = {}

    async def has_all() -> bool:
        with suppress(StateUnavailable):
            claimed.update({record.key: record for record in await state.claim_orphans(100)})
        return len(claimed) >= count

    await until(has_all, f"{count} orphans are claimed")
    return claimed


async def judges(heir: State, doomed: State) -> None:
    """Waits until `heir` has seen Redis long enough to tell the dead from the silent: it claims a call of `doomed`."""
    await began(doomed)
    await doomed.aclose()
    await orphans(heir, 1)
