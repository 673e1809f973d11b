"""The end of every run is reported once, also while the state is away, and of calls whose replica died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.calls.orphans import adopt_orphans
from gateway.calls.preference import Preference
from gateway.calls.records import CallMetadata, pack_metadata
from gateway.calls.status import UNREMEMBERED, UNSENT
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, ToolResult
from gateway.state.port import CallState, NewCall
from tests.unit.desk import DONE, Desk, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
AT_ONCE = Preference(wait_s=0.0)
ASYNC = Preference(respond_async=True)
TOOL = "Echo.Say@1.0.0"


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def reported(it: Desk) -> list[tuple[str, str, ToolResult | GatewayError]]:
    return [(run.backend, run.tool, ending) for run, ending in it.ended]


async def test_an_end_that_is_held_is_told_once_it_is_written_down(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    it.state.away = {"settle"}
    for result in (DONE, ToolResult(value="too late")):
        assert await it.calls.settle(kept.key, result)
    assert reported(it) == []
    done = asyncio.Event()

    async def come_last() -> None:
        done.set()

    assert it.endings.backlog.hold(CallKey("k"), 0, come_last)
    it.state.away = set()
    async with asyncio.timeout(DEADLINE_S):
        await done.wait()
    assert reported(it) == [("later", TOOL, DONE)]


async def test_an_end_that_cannot_be_looked_up_is_held(it: Desk) -> None:
    """As at a replica that has not begun the call."""
    kept = await it.ask(preference=AT_ONCE)
    it.state.forgets_what_it_holds = True
    it.state.away = {"get"}
    assert await it.calls.settle(kept.key, DONE)
    assert reported(it) == []
    it.state.away = set()
    async with asyncio.timeout(DEADLINE_S):
        assert (await it.ask()).status == DONE
    assert reported(it) == [("later", TOOL, DONE)]


async def test_a_refusal_that_was_not_delivered_counts_as_one(it: Desk) -> None:
    it.now.on_dispatch = lambda _call_id: it.now.opened.wait()
    it.now.at_once = GatewayError(ErrorCode.INVALID_REQUEST, "No.")
    kept = await it.ask(None, backend=it.now, preference=ASYNC)
    it.now.opened.set()
    await it.state.wait(kept.id.removeprefix("tg-"), DEADLINE_S)
    [(_, ending)] = it.ended
    assert isinstance(ending, ToolResult)
    assert ending.failure is not None
    assert ending.failure.outcome == "refused"


async def left(it: Desk, state: CallState, *, call_id: str = "k") -> None:
    """A call as a dead replica has left it."""
    note = CallMetadata(dialect="oxp", wire_version="1.0", call_id=call_id, tool=TOOL, begun_s=1.0)
    await it.state.begin(
        NewCall(key=CallKey("left"), fingerprint="f", principal="p", backend="now", note=pack_metadata(note))
    )
    if state is not CallState.REGISTERED:
        it.state.lose("left")
    record = await it.state.get("left")
    assert record is not None
    it.state.orphans.append(record)


async def adopted(it: Desk) -> None:
    """Returns when what was left is taken care of."""
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, {"now": it.now}, lambda *_what: None, every_s=0.001))
    async with asyncio.timeout(DEADLINE_S):
        while not it.ended:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.001)
    task.cancel()


async def test_one_whose_replica_died_is_told_once_also_if_its_outcome_comes_yet(it: Desk) -> None:
    await left(it, CallState.UNKNOWN)
    await adopted(it)
    assert reported(it) == [("now", TOOL, UNREMEMBERED)]
    assert it.ended[0][0].begun_s == 1.0
    assert await it.calls.settle(CallKey("left"), DONE)
    assert reported(it) == [("now", TOOL, UNREMEMBERED)]


async def test_one_that_never_ran_and_cannot_be_repeated_is_told(it: Desk) -> None:
    await left(it, CallState.REGISTERED, call_id="tg-left")
    await adopted(it)
    assert reported(it) == [("now", TOOL, UNSENT)]
