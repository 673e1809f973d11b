"""A call run again, through the demonstration server: what became of an earlier run does not touch a later one."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gateway.dialects import rcrt
from gateway.errors import ErrorCode, GatewayError
from gateway.model import Invocation
from tests.unit.backends.conftest import Crumbs
from tests.unit.backends.crumbs import SLOW_POLL, facing, invocation, new_id, until

pytestmark = pytest.mark.anyio


def run_of(call_id: str, message: str = "hello", run: str | None = None, **more: Any) -> Invocation:
    """A run of a call, another one each time unless it is named."""
    named = {"run": uuid.uuid4().hex if run is None else run, "arguments": {"message": message}}
    return invocation("echo", call_id, **named | more)


def requests_of(crumbs: Crumbs, run: Invocation) -> list[Any]:
    return crumbs.listed(tag=f"gateway:{rcrt.request_id(run.call_id, run.run)}")


async def test_a_run_after_one_that_failed_has_an_outcome_of_its_own(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("echo", "unparsable_output")
    async with facing(crumbs.url) as (backend, kept):
        first = await kept.call(backend, run_of(call_id, idempotent=True))
        del kept.results[call_id]  # a failure that may be repeated is not remembered
        second = await kept.call(backend, run_of(call_id, idempotent=True))
    assert first.failure is not None
    assert first.failure.can_retry
    assert second.value == {"echo": "hello"}


async def test_a_run_after_one_that_is_forgotten_gets_what_it_asked_for(crumbs: Crumbs) -> None:
    call_id, messages = new_id(), ("first", "second")
    async with facing(crumbs.url) as (backend, kept):
        for message in messages:
            assert (await kept.call(backend, run_of(call_id, message))).value == {"echo": message}
            del kept.results[call_id]
            await until(lambda: backend.open_calls == 0)


@pytest.mark.parametrize("fault", ["status_500", "status_503"])
async def test_a_run_after_one_that_was_not_stored_is_stored(crumbs: Crumbs, fault: str) -> None:
    call_id = new_id()
    crumbs.order("create", fault)
    async with facing(crumbs.url) as (backend, kept):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(run_of(call_id), "")
        assert (await kept.call(backend, run_of(call_id))).value == {"echo": "hello"}
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE


async def test_a_run_whose_key_was_spent_for_nothing_is_stored_under_another_where_the_route_allows_it(
    crumbs: Crumbs,
) -> None:
    """Whoever handed it over before died with a key that is good for nothing any more."""
    again = run_of(new_id(), idempotent=True)
    crumbs.order("create", "status_500")
    async with facing(crumbs.url) as (backend, kept):
        with pytest.raises(GatewayError):
            await backend.dispatch(again, "")
        assert (await kept.call(backend, again)).value == {"echo": "hello"}
        assert len(requests_of(crumbs, again)) == 1


async def test_no_third_key_is_tried(crumbs: Crumbs) -> None:
    again = run_of(new_id(), idempotent=True)
    crumbs.order("create", "reset", times=2)
    async with facing(crumbs.url) as (backend, kept):
        for _ in range(3):
            assert await backend.dispatch(again, "") is None
        failure = (await kept.outcome(again.call_id)).failure
        assert failure is not None
        assert failure.can_retry
    assert requests_of(crumbs, again) == []


async def test_what_comes_late_for_an_earlier_run_does_not_end_a_later_one(crumbs: Crumbs) -> None:
    call_id = new_id()
    earlier, later = run_of(call_id, "earlier"), run_of(call_id, "later")
    crumbs.order("echo", "late", seconds=0.1)
    crumbs.order("echo", "late", seconds=0.4)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(earlier, "")
        await backend.dispatch(later, "")
        assert backend.open_calls == 1
        assert (await kept.outcome(call_id)).value == {"echo": "later"}
        assert crumbs.listed(tag=f"request:tg-{earlier.run}") != []
    assert kept.settled == [call_id]


async def test_a_response_that_is_being_read_when_its_call_is_given_up_ends_nothing(crumbs: Crumbs) -> None:
    """By the time it has been read, another run may have begun."""
    call_id = new_id()
    earlier, later = run_of(call_id, "earlier"), run_of(call_id, "later")
    crumbs.order("echo", "absent")
    context = {"request_id": f"tg-{earlier.run}", "status": "success", "output": {"echo": "earlier"}}
    response = rcrt.Crumb(id=str(uuid.uuid4()), schema=rcrt.TOOL_RESPONSE, context=context)
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        await backend.dispatch(earlier, "")
        backend._take_event(response)
        await backend.cancel(call_id, "", "")
        assert (await kept.call(backend, later)).value == {"echo": "later"}
    assert kept.settled == [call_id]


async def test_another_process_looks_for_the_run_it_is_told_of(crumbs: Crumbs) -> None:
    call_id = new_id()
    earlier, later = run_of(call_id, "earlier"), run_of(call_id, "later")
    async with facing(crumbs.url) as (first, found):
        await found.call(first, earlier)
        del found.results[call_id]
        await found.call(first, later)
    async with facing(crumbs.url) as (second, kept):
        await second.resume(call_id, later.run)
        assert (await kept.outcome(call_id)).value == {"echo": "later"}


async def test_both_breadcrumbs_of_a_run_are_deleted_when_asked_for(crumbs: Crumbs) -> None:
    call = run_of(new_id())
    async with facing(crumbs.url, cleanup=True) as (backend, kept):
        await kept.call(backend, call)
        await until(lambda: not requests_of(crumbs, call) and not crumbs.listed(tag=f"request:tg-{call.run}"))
