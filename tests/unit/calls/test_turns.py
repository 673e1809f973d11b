"""Kept calls that wait for their turn: nothing of them is sent yet, and somebody else may send them instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.calls.status import CANCELLED, CallView
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, ToolResult
from gateway.state.port import CallState
from tests.unit.desk import DONE, Desk, Later, Now, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


async def queued(it: Desk, backend: Later | Now, call_id: str | None = "k") -> tuple[asyncio.Task[CallView], CallKey]:
    """A call that waits for its turn, and its key."""
    backend.queued = asyncio.Queue()
    asked = asyncio.create_task(it.ask(call_id, backend=backend))
    async with asyncio.timeout(DEADLINE_S):
        while not it.state.moves:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    return asked, CallKey(it.state.moves[0][0])


def go(backend: Later | Now) -> None:
    """It is the turn of the next call."""
    assert backend.queued is not None
    backend.queued.put_nowait(None)


@pytest.mark.parametrize("name", ["now", "later"])
async def test_a_call_that_waits_for_its_turn_may_be_sent_by_others_until_it_goes(it: Desk, name: str) -> None:
    backend = it.now if name == "now" else it.later
    asked, key = await queued(it, backend)
    it.later.on_dispatch = lambda key: it.calls.settle(key, DONE)
    it.now.opened.set()
    go(backend)
    assert (await asked).status == DONE
    assert it.state.moves == [(key, CallState.REGISTERED), (key, CallState.DISPATCHING)]


@pytest.mark.parametrize("name", ["now", "later"])
@pytest.mark.parametrize("call_id", ["k", None])
async def test_a_call_that_was_ended_before_its_turn_is_not_sent(it: Desk, name: str, call_id: str | None) -> None:
    """It was cancelled at another replica."""
    backend = it.now if name == "now" else it.later
    asked, key = await queued(it, backend, call_id)
    await it.calls.settle(key, CANCELLED)
    go(backend)
    standing = (await asked).status
    assert isinstance(standing, ToolResult)
    assert standing.failure == CANCELLED.failure
    assert backend.dispatched == []


@pytest.mark.parametrize("name", ["now", "later"])
async def test_a_call_that_others_may_have_sent_is_refused(it: Desk, name: str) -> None:
    backend = it.now if name == "now" else it.later
    asked, key = await queued(it, backend)
    it.state.away.add("advance")
    go(backend)
    refusal = (await asked).status
    assert isinstance(refusal, GatewayError)
    assert refusal.code is ErrorCode.BACKEND_UNAVAILABLE
    assert (backend.dispatched, it.state.local_record(key)) == ([], None)
