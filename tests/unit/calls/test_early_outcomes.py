"""Outcomes that come before a tool server has said that it took the call: many run the tool before they say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.calls.executor import ACKNOWLEDGED_WITHIN_S
from gateway.calls.preference import Preference
from gateway.calls.status import CallView
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, JsonObject, ToolFailure, ToolResult
from gateway.state.port import CallState
from tests.unit.desk import DONE, Desk, desk

pytestmark = pytest.mark.anyio

SOON_S = 5.0  # for what takes milliseconds; who waits for the acknowledgement waits for ever
CHALLENGE: JsonObject = {"id": "c", "url": "https://login.example/"}
REFUSED = ToolResult(failure=ToolFailure(message="It did not take the call.", can_retry=True))
NOT_SENT = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "It is not there.")


class Hasty:
    """Asks for calls whose tool server brings what it has, and acknowledges them when a test says so."""

    def __init__(self, at: Desk) -> None:
        self.desk = at
        self.brings: ToolResult | JsonObject | None = DONE
        self.acknowledges = asyncio.Event()
        self.hung_up = 0
        self.dispatches: list[asyncio.Task[Any]] = []  # in which it is listened to
        at.later.on_dispatch = self._run

    async def _run(self, key: CallKey) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.dispatches.append(task)
        if isinstance(self.brings, ToolResult):
            assert await self.desk.calls.settle(key, self.brings)
        elif self.brings is not None:
            assert await self.desk.calls.challenge(key, self.brings)
        try:
            await self.acknowledges.wait()
        except asyncio.CancelledError:
            self.hung_up += 1
            raise

    async def ask(self, call_id: str | None = "k", **how: object) -> CallView:
        async with asyncio.timeout(SOON_S):
            return await self.desk.ask(call_id, **how)  # type: ignore[arg-type]

    async def acknowledge(self, so: ToolResult | Exception | None = None) -> None:
        self.desk.later.at_once = so
        self.acknowledges.set()
        await asyncio.wait(self.dispatches, timeout=SOON_S)


@pytest.fixture
async def it() -> AsyncIterator[Hasty]:
    async with desk() as opened:
        hasty = Hasty(opened)
        try:
            yield hasty
        finally:
            hasty.acknowledges.set()


async def test_who_would_not_wait_is_told_at_once_and_finds_the_result_before_the_acknowledgement(it: Hasty) -> None:
    kept = await it.ask(preference=Preference(respond_async=True))
    assert kept.status is None
    assert (await it.ask()).status == DONE


async def test_a_result_after_a_consent_ends_the_call_before_the_acknowledgement(it: Hasty) -> None:
    it.brings = CHALLENGE
    kept = await it.ask()
    assert await it.desk.calls.settle(kept.key, DONE)
    assert (await it.ask()).status == DONE
    await it.acknowledge(REFUSED)
    assert (await it.ask()).status == DONE
    assert len(it.desk.later.dispatched) == 1


async def test_a_result_while_the_state_is_away_waits_until_it_is_back(it: Hasty) -> None:
    it.desk.state.away.add("settle")
    kept = await it.ask(preference=Preference(respond_async=True))
    assert it.desk.state.local_record(kept.id.removeprefix("tg-")) is not None
    it.desk.state.away.clear()
    assert (await it.ask()).status == DONE


async def test_stopping_does_not_wait_for_a_needless_acknowledgement(it: Hasty) -> None:
    await it.ask()
    assert it.desk.calls.running() == set()
    async with asyncio.timeout(ACKNOWLEDGED_WITHIN_S):
        await it.desk.calls.aclose()
    assert it.hung_up == 1
    assert [task.done() for task in it.dispatches] == [True]


async def test_a_call_of_which_nothing_has_come_goes_on_to_wait(it: Hasty) -> None:
    it.brings = None
    kept = await it.ask(preference=Preference(wait_s=0.05))
    assert kept.status is None
    await it.acknowledge()
    assert it.desk.state.moves[-1] == (kept.id.removeprefix("tg-"), CallState.ACCEPTED)
