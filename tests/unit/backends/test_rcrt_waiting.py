"""For how long an outcome is looked for, and by which process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model import ToolResult
from tests.unit.backends.conftest import Crumbs
from tests.unit.backends.crumbs import (
    FAST_POLL,
    HELLO,
    SLOW_POLL,
    Kept,
    facing,
    invocation,
    new_id,
    new_run,
    until,
)

pytestmark = pytest.mark.anyio


async def test_what_is_not_worth_waiting_for_any_longer_is_forgotten(crumbs: Crumbs) -> None:
    crumbs.order("echo", "absent")
    async with facing(crumbs.url, timings=replace(FAST_POLL, watch_s=0.1)) as (backend, kept):
        await backend.dispatch(invocation("echo", new_id()), "")
        await until(lambda: backend.open_calls == 0)
    assert not kept.results


async def test_a_call_is_looked_for_as_long_as_it_is_kept(crumbs: Crumbs) -> None:
    """With the waits of a real gateway, whose polls are seconds apart."""
    crumbs.order("echo", "absent")
    async with facing(crumbs.url, timings=None, pending_s=0.2) as (backend, _):
        await backend.dispatch(invocation("echo", new_id()), "")
        assert backend.open_calls == 1
        await until(lambda: backend.open_calls == 0)


async def test_a_cancelled_call_is_no_longer_looked_for(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("echo", "late", seconds=0.2)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", call_id), "")
        await backend.cancel(call_id, "", "")
        assert backend.open_calls == 0
        await until(lambda: crumbs.listed(tag=f"request:{call_id}") != [])
        await kept.call(backend, invocation("echo", new_id()))
    assert call_id not in kept.settled


async def test_a_call_that_was_ended_by_another_process_is_no_longer_looked_for(crumbs: Crumbs) -> None:
    crumbs.order("echo", "absent", times=2)
    ended, other = new_id(), new_id()
    async with facing(crumbs.url) as (backend, kept):
        for call_id in (ended, other):
            await backend.dispatch(invocation("echo", call_id), "")
        kept.over.add(ended)
        await until(lambda: backend.open_calls < 2)
        await kept.call(backend, invocation("echo", new_id()))
        assert backend.open_calls == 1


async def test_what_comes_for_a_call_that_was_ended_by_another_process_ends_nothing(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("echo", "late", seconds=0.1)
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        kept.over.add(call_id)
        await backend.dispatch(invocation("echo", call_id), "")
        await until(lambda: backend.open_calls == 0)
    assert kept.settled == []


async def test_another_process_finds_the_outcome(crumbs: Crumbs) -> None:
    call_id, run = new_id(), new_run()
    crumbs.order("echo", "late", seconds=0.3)
    async with facing(crumbs.url) as (first, abandoned):
        await first.dispatch(invocation("echo", call_id, run=run), "")
    async with facing(crumbs.url) as (second, kept):
        await second.resume(call_id, run)
        await second.resume(call_id, run)
        assert (await kept.outcome(call_id)).value == HELLO
    assert not abandoned.results
    assert crumbs.executions(f"tg-{run}") == 1


async def test_what_could_not_be_kept_is_found_again(crumbs: Crumbs, caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(Kept):
        async def settle(self, call_id: str, result: ToolResult) -> bool:
            self.settled.append(call_id)
            if len(self.settled) == 1:
                raise ConnectionError("the state is away")
            return await super().settle(call_id, result)

    call_id, kept = new_id(), Forgetful()
    async with facing(crumbs.url, outcomes=kept) as (backend, _):
        await backend.dispatch(invocation("echo", call_id), "")
        assert (await kept.outcome(call_id)).value == HELLO
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "an outcome could not be kept"
    ]
