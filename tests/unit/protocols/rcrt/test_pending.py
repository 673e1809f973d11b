"""How long an outcome is looked for, by which process, and for which run of a call."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.core.model import CallKey, Invocation, ToolResult
from gateway.protocols.rcrt import breadcrumbs as rcrt
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.crumbs import (
    FAST_POLL,
    HELLO,
    SLOW_POLL,
    Kept,
    facing,
    invocation,
    new_key,
    new_run,
    until,
)

pytestmark = pytest.mark.anyio


async def test_a_call_is_forgotten_when_its_time_is_over(crumbs: Crumbs) -> None:
    crumbs.order("echo", "absent")
    async with facing(crumbs.url, timings=replace(FAST_POLL, watch_s=0.1)) as (backend, kept):
        await backend.dispatch(invocation("echo", new_key()), "")
        await until(lambda: backend.open_calls == 0)
    assert not kept.results


async def test_a_call_is_looked_for_as_long_as_it_is_kept(crumbs: Crumbs) -> None:
    """With the waits of a real gateway, whose polls are seconds apart."""
    crumbs.order("echo", "absent")
    async with facing(crumbs.url, timings=None, pending_s=0.2) as (backend, _):
        await backend.dispatch(invocation("echo", new_key()), "")
        assert backend.open_calls == 1
        await until(lambda: backend.open_calls == 0)


async def test_a_cancelled_call_is_no_longer_looked_for(crumbs: Crumbs) -> None:
    key = new_key()
    crumbs.order("echo", "late", seconds=0.2)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", key), "")
        await backend.cancel(key, "", "")
        assert backend.open_calls == 0
        await until(lambda: crumbs.listed(tag=f"request:tg-{key}") != [])
        await kept.call(backend, invocation("echo", new_key()))
    assert key not in kept.settled


async def test_a_call_that_was_ended_by_another_process_is_no_longer_looked_for(crumbs: Crumbs) -> None:
    crumbs.order("echo", "absent", times=2)
    ended, other = new_key(), new_key()
    async with facing(crumbs.url) as (backend, kept):
        for key in (ended, other):
            await backend.dispatch(invocation("echo", key), "")
        kept.over.add(ended)
        await until(lambda: backend.open_calls < 2)
        await kept.call(backend, invocation("echo", new_key()))
        assert backend.open_calls == 1


async def test_what_comes_for_a_call_that_was_ended_by_another_process_ends_nothing(crumbs: Crumbs) -> None:
    key = new_key()
    crumbs.order("echo", "late", seconds=0.1)
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        kept.over.add(key)
        await backend.dispatch(invocation("echo", key), "")
        await until(lambda: backend.open_calls == 0)
    assert kept.settled == []


async def test_another_process_finds_the_outcome(crumbs: Crumbs) -> None:
    key, run = new_key(), new_run()
    crumbs.order("echo", "late", seconds=0.3)
    async with facing(crumbs.url) as (first, abandoned):
        await first.dispatch(invocation("echo", key, run=run), "")
    async with facing(crumbs.url) as (second, kept):
        await second.resume(key, run)
        await second.resume(key, run)
        assert (await kept.outcome(key)).value == HELLO
    assert not abandoned.results
    assert crumbs.executions(run) == 1


async def test_an_outcome_that_could_not_be_kept_is_found_again(
    crumbs: Crumbs, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(Kept):
        async def settle(self, key: CallKey, result: ToolResult) -> bool:
            self.settled.append(key)
            if len(self.settled) == 1:
                raise ConnectionError("the state is away")
            return await super().settle(key, result)

    key, kept = new_key(), Forgetful()
    async with facing(crumbs.url, outcomes=kept) as (backend, _):
        await backend.dispatch(invocation("echo", key), "")
        assert (await kept.outcome(key)).value == HELLO
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "an outcome could not be stored"
    ]


def run_of(key: CallKey, message: str = "hello", run: str | None = None, **more: Any) -> Invocation:
    """A run of a call, another one each time unless it is named."""
    named = {"run": uuid.uuid4().hex if run is None else run, "arguments": {"message": message}}
    return invocation("echo", key, **named | more)


def requests_of(crumbs: Crumbs, run: Invocation) -> list[Any]:
    return crumbs.listed(tag=f"gateway:{rcrt.request_id(run.key, run.run)}")


async def test_a_run_whose_key_was_spent_for_nothing_is_stored_under_another_where_the_route_allows_it(
    crumbs: Crumbs,
) -> None:
    """The replica that handed it over before died, and its key cannot be used again."""
    again = run_of(new_key(), idempotent=True)
    crumbs.order("create", "status_500")
    async with facing(crumbs.url) as (backend, kept):
        with pytest.raises(GatewayError):
            await backend.dispatch(again, "")
        assert (await kept.call(backend, again)).value == {"echo": "hello"}
        assert len(requests_of(crumbs, again)) == 1


async def test_no_third_key_is_tried(crumbs: Crumbs) -> None:
    again = run_of(new_key(), idempotent=True)
    crumbs.order("create", "reset", times=2)
    async with facing(crumbs.url) as (backend, kept):
        for _ in range(3):
            assert await backend.dispatch(again, "") is None
        failure = (await kept.outcome(again.key)).failure
        assert failure is not None
        assert failure.can_retry
    assert requests_of(crumbs, again) == []


async def test_what_comes_late_for_an_earlier_run_does_not_end_a_later_one(crumbs: Crumbs) -> None:
    key = new_key()
    earlier, later = run_of(key, "earlier"), run_of(key, "later")
    crumbs.order("echo", "late", seconds=0.1)
    crumbs.order("echo", "late", seconds=0.4)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(earlier, "")
        await backend.dispatch(later, "")
        assert backend.open_calls == 1
        assert (await kept.outcome(key)).value == {"echo": "later"}
        assert crumbs.listed(tag=f"request:tg-{earlier.run}") != []
    assert kept.settled == [key]


async def test_a_response_that_is_being_read_when_its_call_is_given_up_ends_nothing(crumbs: Crumbs) -> None:
    """By the time it has been read, another run may have begun."""
    key = new_key()
    earlier, later = run_of(key, "earlier"), run_of(key, "later")
    crumbs.order("echo", "absent")
    context = {"request_id": f"tg-{earlier.run}", "status": "success", "output": {"echo": "earlier"}}
    response = rcrt.Breadcrumb(id=str(uuid.uuid4()), schema=rcrt.TOOL_RESPONSE, context=context)
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        await backend.dispatch(earlier, "")
        backend._take_event(response)
        await backend.cancel(key, "", "")
        assert (await kept.call(backend, later)).value == {"echo": "later"}
    assert kept.settled == [key]


async def test_both_breadcrumbs_of_a_run_are_deleted_when_asked_for(crumbs: Crumbs) -> None:
    call = run_of(new_key())
    async with facing(crumbs.url, cleanup=True) as (backend, kept):
        await kept.call(backend, call)
        await until(lambda: not requests_of(crumbs, call) and not crumbs.listed(tag=f"request:tg-{call.run}"))
