"""Calls through the demonstration server: every outcome comes home once, whatever becomes of the events."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import SINGLE_CALL_GROUP
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.crumbs import FAST_POLL, HELLO, SLOW_POLL, facing, invocation, new_key, result_of, until

pytestmark = pytest.mark.anyio


async def test_a_result_comes_home_by_the_stream(crumbs: Crumbs) -> None:
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        ids = [new_key() for _ in range(20)]
        await asyncio.gather(*(backend.dispatch(invocation("echo", one), "") for one in ids))
        for one in ids:
            assert (await kept.outcome(one)).value == HELLO
        assert backend.stream_up
        await until(lambda: backend.open_calls == 0)
    assert sorted(kept.settled) == sorted(ids)


@pytest.mark.parametrize(("group", "tags"), [("d1g3st", ["session:d1g3st"]), (SINGLE_CALL_GROUP + "x", [])])
async def test_a_request_carries_what_the_runner_needs_and_an_end(crumbs: Crumbs, group: str, tags: list[str]) -> None:
    """A conversation of one call leaves no tag."""
    key = new_key()
    async with facing(crumbs.url) as (backend, kept):
        await kept.call(backend, invocation("echo", key, group=group))
        request = crumbs.listed(tag=f"gateway:tg-{key}", include_context="true")[0]
        record = await backend._client.read(request["id"])
    assert request["tags"] == ["tool:request", "workspace:tools", f"gateway:tg-{key}", *tags]
    assert (request["context"]["return_to_llm"], request["context"]["requestedBy"]) == (True, "toolgate")
    assert record is not None
    ends = datetime.fromisoformat(record["ttl"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < ends <= timedelta(hours=1)


async def test_the_letter_of_the_standard_works_where_the_server_understands_it(crumbs: Crumbs) -> None:
    result = await result_of(crumbs, request_schema="agent_response", timings=SLOW_POLL)
    assert result.value == HELLO


# What a runner or broker does to the event about a response, which is stored all the same.
HEARD = [
    "event_without_context",
    "event_without_type",
    "created_event",
    "malformed_events",
    "no_request_id",
    "untagged",
]
LOST = ["drop_event", "partial_event"]


@pytest.mark.parametrize("fault", HEARD + LOST)
async def test_a_response_is_found_by_its_event_or_else_by_polling(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("echo", fault)
    assert (await result_of(crumbs, timings=SLOW_POLL if fault in HEARD else FAST_POLL)).value == HELLO


@pytest.mark.parametrize("fault", ["duplicate_event", "duplicate_response"])
async def test_of_several_responses_the_first_counts(crumbs: Crumbs, fault: str) -> None:
    key = new_key()
    crumbs.order("echo", fault)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", key), "")
        await kept.outcome(key)
        await kept.call(backend, invocation("echo", new_key()))  # whatever came before this has been heard
    assert kept.settled.count(key) == 1


async def test_a_response_that_names_another_call_is_ignored(crumbs: Crumbs) -> None:
    """The list spans tenants, and any tenant may use any tag."""
    crumbs.order("echo", "other_request_id")
    key = new_key()
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", key), "")
        await until(lambda: crumbs.executions(key) == 1)
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
        assert backend.open_calls == 1
    assert key not in kept.results


@pytest.mark.parametrize("timings", [SLOW_POLL, FAST_POLL], ids=["by the stream", "by polling"])
async def test_a_call_of_a_tool_that_vanished_meanwhile_fails(crumbs: Crumbs, timings: Any) -> None:
    """Gap of the runner: this one response has no tag of its request."""
    if timings is FAST_POLL:
        crumbs.order("stream", "status_503", times=100)
    result = await result_of(crumbs, "vanished", timings=timings)
    assert result.failure is not None
    assert result.failure.message == "The tool server no longer knows the tool; it has not run."


async def test_an_unknown_tool_is_refused_before_anything_is_stored(crumbs: Crumbs) -> None:
    key, changes = new_key(), asyncio.Event()
    async with facing(crumbs.url, on_change=changes.set) as (backend, _):
        await backend.list_tools()
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("vanished", key), "")
        async with asyncio.timeout(5):
            await changes.wait()  # the list is to be looked at anew
        assert backend.open_calls == 0
    assert caught.value.code is ErrorCode.TOOL_NOT_FOUND
    assert crumbs.listed(tag=f"gateway:tg-{key}") == []


async def test_a_response_that_cannot_be_read_ends_the_call(crumbs: Crumbs) -> None:
    crumbs.order("stream", "status_503", times=100)
    crumbs.order("list", "invalid_json", times=100)
    result = await result_of(crumbs)
    assert result.failure is not None
    assert result.failure.message == "The tool server gave a broken answer."


@pytest.mark.parametrize("fault", ["status_500", "status_503", "empty"])
async def test_polls_that_fail_are_repeated(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("stream", "status_503", times=100)
    crumbs.order("list", fault, times=3)
    assert (await result_of(crumbs)).value == HELLO


async def test_a_tool_that_is_still_there_is_called_though_the_list_is_old(crumbs: Crumbs) -> None:
    async with facing(crumbs.url) as (backend, kept):
        await backend.list_tools()
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
        crumbs.order("list", "status_500")  # the server cannot say whether it is; the call will show
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
