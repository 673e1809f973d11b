"""Calls whose replica died."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest

from gateway.kept.orphans import AT_ONCE, adopt_orphans
from gateway.kept.standing import PREFIX, Later, Note
from gateway.state.port import CallState, NewCall, Record
from tests.unit.desk import Desk, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def left(state: CallState, backend: str = "later", *, cancel_after_s: float = 0.0, created_s: float = 0.0) -> Record:
    later = Later(run="run", cancel_after_s=cancel_after_s)
    note = Note(dialect="oxp", spelling="1.0.0", call_id="k", tool="t", group="g", later=later)
    return Record(
        key="left",
        fingerprint="f",
        principal="p",
        backend=backend,
        state=state,
        replica="dead",
        created_s=created_s,
        note=note.packed(),
    )


class Cancellations:
    """Notes what is to be cancelled, and in how many seconds."""

    def __init__(self) -> None:
        self.due: list[tuple[float, str, str, str]] = []

    def __call__(self, seconds: float, key: str, backend: str, group: str) -> None:
        self.due.append((seconds, key, backend, group))


async def test_each_is_gone_on_with_as_far_as_possible(it: Desk, caplog: pytest.LogCaptureFixture) -> None:
    it.state.orphans = [
        left(CallState.UNKNOWN),
        left(CallState.ACCEPTED, "gone"),
        left(CallState.ACCEPTED, "now"),
        left(CallState.REGISTERED),
        left(CallState.ACCEPTED),
        left(CallState.AWAITING_USER),
    ]
    task = asyncio.create_task(
        adopt_orphans(it.state, {"later": it.later, "now": it.now}, Cancellations(), every_s=0.01)
    )
    async with asyncio.timeout(DEADLINE_S):
        while len(caplog.records) < 6:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
    task.cancel()
    assert it.later.resumed == [(PREFIX + "left", "run")] * 2
    assert {record.__dict__["state"] for record in caplog.records} == {
        "unknown",
        "accepted",
        "registered",
        "awaiting_user",
    }


async def test_one_that_is_to_be_cancelled_still_is_at_the_time_that_was_set(it: Desk) -> None:
    cancellations = Cancellations()
    it.state.orphans = [
        left(CallState.ACCEPTED, "gone", cancel_after_s=100.0, created_s=time.time() - 40.0),
        left(CallState.ACCEPTED, cancel_after_s=1.0, created_s=time.time() - 40.0),
    ]
    task = asyncio.create_task(adopt_orphans(it.state, {"later": it.later}, cancellations, every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    (left_s, *one), (over_s, *other) = cancellations.due
    assert (one, other) == (["left", "gone", "g"], ["left", "later", "g"])
    assert 60.0 - DEADLINE_S < left_s <= 60.0
    assert over_s == 0.0


async def test_one_that_was_never_dispatched_is_left_to_whoever_asks_again(it: Desk) -> None:
    new = NewCall(key="left", fingerprint="f", principal="p", backend="later")
    await it.state.begin(new)
    it.state.orphans = [left(CallState.REGISTERED)]
    task = asyncio.create_task(adopt_orphans(it.state, {"later": it.later}, Cancellations(), every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        assert await it.state.wait("left", DEADLINE_S) is None
    task.cancel()
    assert it.later.dispatched == []


async def test_one_that_cannot_be_gone_on_with_costs_the_others_nothing(
    it: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_call_id: str) -> None:
        it.later.on_resume = None
        raise ValueError("a bug")

    it.later.on_resume = fail
    it.state.orphans = [left(CallState.ACCEPTED), left(CallState.ACCEPTED)]
    task = asyncio.create_task(adopt_orphans(it.state, {"later": it.later}, Cancellations(), every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


async def test_many_are_not_kept_waiting_for_one_look_after_the_other(it: Desk) -> None:
    it.state.orphans = [left(CallState.ACCEPTED)] * 5 * AT_ONCE
    task = asyncio.create_task(adopt_orphans(it.state, {"later": it.later}, Cancellations(), every_s=1.0))
    async with asyncio.timeout(4.5):  # five looks, of which only the first is one that had to be waited for
        while len(it.later.resumed) < 5 * AT_ONCE:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    task.cancel()
