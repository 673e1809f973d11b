"""Calls without an id of their caller's whose result the waiting caller got: they take no more room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.calls.preference import Preference
from gateway.calls.status import CANCELLED, NOT_KEPT, CallView, ConsentPending
from gateway.core.model import ToolFailure, ToolResult
from tests.unit.desk import ADA, BOB, DONE, Desk, Now, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
CHALLENGE = {"id": "1", "url": "https://login.example/"}
REPEATABLE = ToolResult(failure=ToolFailure(message="Busy.", can_retry=True))
LONG_WAIT = Preference(wait_s=1000.0, respond_async=True)


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk(max_records=2) as opened:
        yield opened


async def answered(it: Desk, result: ToolResult = DONE, call_id: str | None = None) -> CallView:
    """A call whose result came while its caller waited."""
    it.later.took.clear()
    async with asyncio.timeout(DEADLINE_S):
        asking = asyncio.create_task(it.ask(call_id))
        await it.later.took.wait()
        assert await it.calls.settle(it.later.dispatched[-1].key, result)
        return await asking


@pytest.mark.parametrize("result", [DONE, REPEATABLE, ToolResult(failure=ToolFailure(message="No."))], ids=repr)
async def test_a_look_says_that_the_waiting_caller_got_the_result(it: Desk, result: ToolResult) -> None:
    for _ in range(5):
        kept = await answered(it, result)
        assert (kept.status, kept.remembered, kept.joined) == (result, False, False)
        assert await it.status_of_call(kept.id) == NOT_KEPT
        assert await it.calls.stored_calls.view(kept.id, BOB) is None
    assert it.state.capacity.used_bytes == 0


async def test_it_is_over_for_its_tool_server_too(it: Desk) -> None:
    kept = await answered(it)
    assert not await it.calls.settle(kept.key, ToolResult(value="another"))
    assert not await it.calls.challenge(kept.key, CHALLENGE)
    assert not await it.calls.is_open(kept.key, it.later.dispatched[0].run)
    cancelled = await it.calls.stored_calls.cancel(kept.id, ADA)
    assert cancelled is not None
    assert (cancelled.status, it.later.cancelled) == (NOT_KEPT, [])
    assert await it.status_of_call(kept.id) == NOT_KEPT
    assert len(it.later.dispatched) == 1


@pytest.mark.parametrize("call_id", [None, "k"])
async def test_a_cancel_says_so_even_if_the_waiting_caller_is_answered_first(it: Desk, call_id: str | None) -> None:
    async with asyncio.timeout(DEADLINE_S):
        asking = asyncio.create_task(it.ask(call_id))
        await it.later.took.wait()
        it.later.on_cancel = lambda: asyncio.wait([asking])
        cancelled = await it.calls.stored_calls.cancel(it.later.dispatched[0].call_id, ADA)
    assert cancelled is not None
    assert (cancelled.status, (await asking).status) == (CANCELLED, CANCELLED)


async def test_a_result_at_once_is_one_too(it: Desk) -> None:
    it.later.at_once = ToolResult(failure=ToolFailure(message="The tool server did not accept the call."))
    for _ in range(5):
        kept = await it.ask(None)
        assert (kept.status, kept.remembered) == (it.later.at_once, False)
        assert await it.status_of_call(kept.id) == NOT_KEPT


@pytest.mark.parametrize("backend", ["later", "now"])
async def test_so_it_does_if_its_caller_has_left(it: Desk, backend: str) -> None:
    server = it.now if backend == "now" else it.later
    asking = asyncio.create_task(it.ask(None, backend=server, preference=LONG_WAIT))
    async with asyncio.timeout(DEADLINE_S):
        await server.took.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        [invocation] = server.dispatched
        if isinstance(server, Now):
            server.opened.set()
        else:
            assert await it.calls.settle(invocation.key, DONE)
        while await it.status_of_call(invocation.call_id) is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    assert await it.status_of_call(invocation.call_id) == DONE


async def test_so_it_does_if_it_has_waited_for_its_user(it: Desk) -> None:
    it.later.on_dispatch = lambda key: it.calls.challenge(key, CHALLENGE)
    kept = await it.ask(None)
    assert (kept.status, kept.remembered) == (ConsentPending(CHALLENGE), True)
    async with asyncio.timeout(DEADLINE_S):
        joining = asyncio.create_task(it.ask(None))
        await asyncio.sleep(0)
        assert await it.calls.settle(kept.key, DONE)
        joined = await joining
    assert (joined.id, joined.remembered) == (kept.id, True)
    assert await it.status_of_call(kept.id) == DONE


async def test_without_the_state_its_caller_is_told_all_the_same(it: Desk) -> None:
    it.state.away.add("settle")
    it.later.at_once = DONE
    assert (await it.ask(None)).status == DONE
