"""`wait` returns as soon as a call is over or waits for its user, and never later than asked."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.state.memory import MemoryState
from gateway.state.port import Record, State
from tests.support.stored_calls import ACCEPTED, AWAITING_USER, DISPATCHING, DONE, REGISTERED, began, outcome_of

pytestmark = pytest.mark.anyio

LONG_S = 10.0
SHORT_S = 0.05


async def waits(state: State, key: str) -> asyncio.Task[Record | None]:
    """Somebody who certainly waits by now: whatever it asks first has been answered."""
    task = asyncio.create_task(state.wait(key, LONG_S))
    await asyncio.sleep(0)
    await state.get(key)
    return task


async def test_waiters_get_the_outcome(state: State) -> None:
    key = (await began(state, to=ACCEPTED)).key
    waiting = [await waits(state, key) for _ in range(20)]
    await state.settle(key, b"outcome")
    for record in await asyncio.gather(*waiting):
        assert record is not None
        assert (record.state, record.outcome) == (DONE, b"outcome")


async def test_a_late_waiter_gets_the_outcome_at_once(state: State) -> None:
    key = (await began(state)).key
    await state.settle(key, b"outcome")
    record = await state.wait(key, 0.0001)
    assert outcome_of(record) == b"outcome"


async def test_waiters_learn_that_the_user_is_asked(state: State) -> None:
    key = (await began(state, to=ACCEPTED)).key
    waiting = await waits(state, key)
    await state.advance(key, [ACCEPTED], AWAITING_USER, note=b"challenge")
    for record in (await waiting, await state.wait(key, LONG_S)):
        assert record is not None
        assert (record.state, record.note) == (AWAITING_USER, b"challenge")


async def test_intermediate_states_wake_no_waiter(state: State) -> None:
    key = (await began(state)).key
    waiting = await waits(state, key)
    await state.advance(key, [REGISTERED], DISPATCHING)
    await state.advance(key, [DISPATCHING], ACCEPTED)
    await state.get(key)
    assert not waiting.done()
    await state.settle(key, b"")
    assert await waiting is not None


async def test_a_waiter_whose_time_is_over_gets_the_call_as_it_is(state: State) -> None:
    key = (await began(state)).key
    waiting = asyncio.create_task(state.wait(key, SHORT_S))
    await asyncio.sleep(0)
    await state.advance(key, [REGISTERED], DISPATCHING)
    record = await waiting
    assert record is not None
    assert record.state is DISPATCHING


async def test_waiters_of_a_forgotten_call_are_woken(state: State) -> None:
    key = (await began(state, to=DISPATCHING)).key
    waiting = await waits(state, key)
    await state.forget(key)
    assert await waiting is None


async def test_a_cancelled_waiter_leaves_nothing_behind(state: State) -> None:
    key = (await began(state, to=ACCEPTED)).key
    leaving, staying = await waits(state, key), await waits(state, key)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await state.settle(key, b"outcome")
    assert await staying is not None


async def test_waiting_costs_no_operation_in_memory(state: State) -> None:
    """Neither implementation asks again and again: a wait of many polls takes next to no processor time."""
    key = (await began(state, to=ACCEPTED)).key
    before = time.process_time()
    await state.wait(key, 0.3)
    assert time.process_time() - before < (0.05 if isinstance(state, MemoryState) else 0.15)
