"""How calls end: what is delivered at once, what is recorded, and what waits for a state that is away."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from gateway.calls.preference import Preference
from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolFailure, ToolResult
from tests.unit.desk import Desk, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
ASYNC = Preference(respond_async=True)
AT_ONCE = Preference(wait_s=0.0)
REPEATABLE = ToolResult(failure=ToolFailure(message="Busy.", can_retry=True))


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def refuse_after(turns: int, it: Desk) -> None:
    """Has the tool server refuse a call so many turns of the event loop after it came."""

    async def think(_call_id: str) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    it.now.on_dispatch = think
    it.now.at_once = GatewayError(ErrorCode.INVALID_REQUEST, "No.")


@pytest.mark.parametrize("preference", [ASYNC, AT_ONCE])
@pytest.mark.parametrize("turns", range(8))
async def test_who_will_not_wait_is_told_of_a_refusal_as_one_or_not_yet(
    it: Desk, turns: int, preference: Preference
) -> None:
    refuse_after(turns, it)
    kept = await it.ask(None, backend=it.now, preference=preference)
    assert kept.status is None or isinstance(kept.status, GatewayError)


async def test_a_failure_that_may_be_repeated_is_not_kept_for_who_was_told(it: Desk) -> None:
    it.later.at_once = REPEATABLE
    for kept in (await it.ask(None), await it.ask("k")):
        assert (kept.status, kept.remembered) == (REPEATABLE, False)


async def test_an_undelivered_failure_that_cannot_be_repeated_is_kept(it: Desk) -> None:
    kept = await it.ask(None, timeout_s=0.01)
    assert (kept.status, kept.remembered) == (None, True)
    assert await it.calls.settle(kept.key, REPEATABLE)
    assert await it.status_of_call(kept.id) == REPEATABLE


async def test_delivered_refusals_count_against_no_quota() -> None:
    """Else a tool server that is away would take its callers' calls of all others away, for as long as results live."""
    async with desk(max_records=3) as it:
        for backend in (it.later, it.now):
            backend.at_once = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "Not now.")
            for _ in range(5):
                kept = await it.ask(None, backend=backend)
                assert (str(kept.status), kept.remembered) == ("Not now.", False)
        it.later.at_once = None
        assert (await it.ask(None, preference=AT_ONCE)).remembered


async def test_an_undelivered_refusal_is_kept_as_long_as_a_result() -> None:
    async with desk(result_ttl_s=100.0, tombstone_ttl_s=10.0) as it:
        refuse_after(20, it)
        kept = await it.ask(None, backend=it.now, preference=ASYNC)
        assert kept.status is None
        await it.state.wait(kept.key, DEADLINE_S)
        it.clock.now += 50
        status = await it.status_of_call(kept.id)
        assert isinstance(status, ToolResult)
        assert status.failure is not None
        assert status.failure.message == "The tool did not run: No."


async def test_what_is_held_weighs_what_is_counted_for_it(it: Desk) -> None:
    """Its text; a value made of it may weigh twenty times as much, and 64 MiB may be held."""
    kept = await it.ask(preference=AT_ONCE)
    it.state.away = {"settle"}
    count = 50_000
    tracemalloc.start()
    try:
        assert await it.calls.settle(kept.key, ToolResult(value=[{} for _ in range(count)]))
        gc.collect()
        weight, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert weight < 2 * count * len("{},")
    it.state.away = set()
    async with asyncio.timeout(DEADLINE_S):
        ended = (await it.ask()).status
    assert isinstance(ended, ToolResult)
    assert jsontext.encode(ended.value) == jsontext.encode([{}] * count)
