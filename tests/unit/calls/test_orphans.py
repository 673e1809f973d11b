"""Calls whose replica died."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable

import pytest
from msgspec.structs import replace

from gateway.calls.orphans import MAX_STRANDED, ORPHANS_PER_CLAIM, adopt_orphans
from gateway.calls.preference import Preference
from gateway.calls.records import CallMetadata, DeferredCall, pack_metadata
from gateway.core.model import CallKey
from gateway.core.ports import Backend
from gateway.state.port import CallState, NewCall, Record, StateLimits
from tests.unit.desk import Away, Clock, Desk, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 60.0  # for what takes milliseconds on an idle machine
LOOK_S = 0.5  # several times the pause before the next look where there are more
LONG_S = 60.0  # for ten thousand calls


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def left(
    state: CallState,
    backend: str = "later",
    *,
    key: str = "left",
    cancel_after_s: float = 0.0,
    created_s: float = 0.0,
) -> Record:
    later = DeferredCall(run="run", cancel_after_s=cancel_after_s)
    note = CallMetadata(dialect="oxp", wire_version="1.0.0", call_id="k", tool="t", group="g", deferred=later)
    return Record(
        key=CallKey(key),
        fingerprint="f",
        principal="p",
        backend=backend,
        state=state,
        replica="dead",
        created_s=created_s,
        note=pack_metadata(note),
    )


class Cancellations:
    """Notes what is to be cancelled, and in how many seconds."""

    def __init__(self) -> None:
        self.due: list[tuple[float, str, str, str]] = []

    def __call__(self, seconds: float, key: str, backend: str, note: CallMetadata) -> None:
        self.due.append((seconds, key, backend, note.group))


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
        adopt_orphans(it.state, it.endings, {"later": it.later, "now": it.now}, Cancellations(), every_s=0.01)
    )
    async with asyncio.timeout(DEADLINE_S):
        while len(caplog.records) < 6:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
    task.cancel()
    assert it.later.resumed == [("left", "run")] * 2
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
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, {"later": it.later}, cancellations, every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    (left_s, *one), (over_s, *other) = cancellations.due
    assert (one, other) == (["left", "gone", "g"], ["left", "later", "g"])
    assert 0.0 < left_s <= 60.0
    assert over_s == 0.0


async def test_one_that_was_never_dispatched_can_be_begun_again(it: Desk) -> None:
    new = NewCall(key=CallKey("left"), fingerprint="f", principal="p", backend="later")
    await it.state.begin(new)
    it.state.orphans = [left(CallState.REGISTERED)]
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, {"later": it.later}, Cancellations(), every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        assert await it.state.wait("left", DEADLINE_S) is None
    task.cancel()
    assert it.later.dispatched == []


async def test_one_without_a_name_that_was_never_dispatched_says_so_when_it_is_asked_for(it: Desk) -> None:
    asked = await it.ask(None, preference=Preference(respond_async=True))
    key = asked.key
    record = await it.state.get(key)
    assert record is not None
    it.state.orphans = [replace(record, state=CallState.REGISTERED)]
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, {"later": it.later}, Cancellations(), every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        await it.state.wait(key, DEADLINE_S)
    task.cancel()
    end = await it.status_of_call(asked.id)
    assert (end.failure.can_retry, "did not run" in end.failure.message) == (True, True)


def fail_once(it: Desk) -> None:
    """Has the next call that it is to go on with run into a bug."""

    async def fail(_call_id: str) -> None:
        it.later.on_resume = None
        raise ValueError("a bug")

    it.later.on_resume = fail


async def test_one_that_cannot_be_gone_on_with_costs_the_others_nothing(
    it: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    fail_once(it)
    it.state.orphans = [left(CallState.ACCEPTED), left(CallState.ACCEPTED)]
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, {"later": it.later}, Cancellations(), every_s=0.01))
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


class Pauses:
    """Counts how many pauses of that length go by on the loop; a machine that stands still for a while adds one."""

    def __init__(self, seconds: float) -> None:
        self.number = 0
        self._task = asyncio.create_task(self._count(seconds))

    async def _count(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.number += 1

    def stop(self) -> int:
        self._task.cancel()
        return self.number


async def test_many_are_not_kept_waiting_for_one_look_after_the_other(it: Desk) -> None:
    it.state.orphans = [left(CallState.ACCEPTED)] * 5 * ORPHANS_PER_CLAIM
    pauses = Pauses(LOOK_S)
    looking = adopt_orphans(it.state, it.endings, {"later": it.later}, Cancellations(), every_s=LOOK_S)
    task = asyncio.create_task(looking)
    await have_been_resumed(it, 5 * ORPHANS_PER_CLAIM)
    task.cancel()
    assert pauses.stop() < 4  # of five looks only the first is one that had to be waited for


async def strand(state: Away, keys: Iterable[str]) -> None:
    """Leaves calls behind that are known to the state."""
    for key in keys:
        record = left(CallState.ACCEPTED, key=key)
        new = NewCall(key=CallKey(key), fingerprint="f", principal="p", backend="later", note=record.note)
        await state.begin(new)
        state.orphans.append(record)


async def have_been_claimed(state: Away) -> None:
    async with asyncio.timeout(LONG_S):
        while state.orphans:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def have_been_resumed(it: Desk, number: int) -> None:
    async with asyncio.timeout(LONG_S):
        while len(it.later.resumed) < number:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def test_one_whose_backend_is_not_here_is_gone_on_with_when_it_comes_unless_it_is_over(it: Desk) -> None:
    """Ours: while a configuration is rolled out, replicas have different backends."""
    await strand(it.state, ["over", "waits", "gone"])
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, backends, Cancellations(), every_s=0.01))
    await have_been_claimed(it.state)
    await it.state.settle("over", b"[1]")
    await it.state.forget("gone")
    backends["later"] = it.later
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    it.state.orphans = [left(CallState.UNKNOWN)]  # by the time it is claimed, the look before is over
    await have_been_claimed(it.state)
    task.cancel()
    assert it.later.resumed == [("waits", "run")]


async def test_one_whose_backend_comes_while_the_state_is_away_is_gone_on_with_afterwards(it: Desk) -> None:
    await strand(it.state, ["waits"])
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, backends, Cancellations(), every_s=0.01))
    await have_been_claimed(it.state)
    it.state.away.add("get")
    backends["later"] = it.later
    for _ in range(2):  # by the time the second is claimed, it has been looked for in vain
        it.state.orphans = [left(CallState.UNKNOWN)]
        await have_been_claimed(it.state)
    assert it.later.resumed == []
    it.state.away.clear()
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    assert it.later.resumed == [("waits", "run")]


async def test_one_whose_backend_came_and_fails_costs_the_others_nothing(
    it: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    fail_once(it)
    await strand(it.state, ["one", "two"])
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, backends, Cancellations(), every_s=0.01))
    await have_been_claimed(it.state)
    backends["later"] = it.later
    async with asyncio.timeout(DEADLINE_S):
        await it.later.took.wait()
    task.cancel()
    assert it.later.resumed == [("two", "run")]
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


class Lost(Away):
    """A state that has given its calls to another replica, which took this one for dead."""

    async def get(self, key: str) -> Record | None:
        record = await super().get(key)
        return None if record is None else replace(record, replica="another")


async def test_one_that_another_replica_has_taken_over_meanwhile_is_left_to_it(it: Desk) -> None:
    state = Lost(StateLimits(), Clock())
    await strand(state, ["lost"])
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(state, it.endings, backends, Cancellations(), every_s=0.01))
    await have_been_claimed(state)
    backends["later"] = it.later
    for _ in range(2):  # by the time the second is claimed, it has been looked at
        state.orphans = [left(CallState.UNKNOWN)]
        await have_been_claimed(state)
    task.cancel()
    assert it.later.resumed == []


async def test_many_whose_backend_comes_are_not_kept_waiting_for_one_look_after_the_other(it: Desk) -> None:
    await strand(it.state, map(str, range(8 * ORPHANS_PER_CLAIM)))
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, backends, Cancellations(), every_s=LOOK_S))
    await have_been_claimed(it.state)
    backends["later"] = it.later
    pauses = Pauses(LOOK_S)
    await have_been_resumed(it, 8 * ORPHANS_PER_CLAIM)
    task.cancel()
    assert pauses.stop() < 6  # of eight looks only the first may be one that had to be waited for


async def test_of_those_whose_backend_is_not_here_a_bounded_number_is_looked_after_and_all_of_these_are_gone_on_with(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Desk(max_pending=2 * MAX_STRANDED, max_records=2 * MAX_STRANDED)  # not started: it would adopt some itself
    await strand(it.state, map(str, range(MAX_STRANDED + 1)))
    backends: dict[str, Backend] = {}
    task = asyncio.create_task(adopt_orphans(it.state, it.endings, backends, Cancellations(), every_s=0.0))
    await have_been_claimed(it.state)
    backends["later"] = it.later
    await have_been_resumed(it, MAX_STRANDED)
    task.cancel()
    assert len(set(it.later.resumed)) == len(it.later.resumed) == MAX_STRANDED
    assert caplog.text.count("too many calls belong to backends that are not configured here") == 1
