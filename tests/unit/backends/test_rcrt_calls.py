"""Calls through the demonstration server: every outcome comes home once, whatever becomes of the events."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.admission import GivenUpError
from gateway.assembly import parts
from gateway.backends.rcrt import RcrtBackend
from gateway.backends.rcrt_client import FixedTokens
from gateway.errors import ErrorCode, GatewayError
from gateway.model import ONCE, ToolResult
from gateway.settings import RcrtBackendSettings
from tests.unit.backends.conftest import Crumbs
from tests.unit.backends.crumbs import AGENT, FAST_POLL, OWNER, SLOW_POLL, Kept, facing, invocation, until
from tests.unit.turn import given_up

pytestmark = pytest.mark.anyio

HELLO = {"echo": "hello"}


def new_id() -> str:
    return f"tg-{new_run()}"


def new_run() -> str:
    return uuid.uuid4().hex


async def result_of(crumbs: Crumbs, tool: str = "echo", call: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Hands one call over and waits for what comes home."""
    call_id = new_id()
    async with facing(crumbs.url, **settings) as (backend, kept):
        assert await backend.dispatch(invocation(tool, call_id, **(call or {})), "") is None
        result = await kept.outcome(call_id)
        await until(lambda: backend.waiting == 0)
    assert crumbs.executions(call_id) <= 1
    return result


async def test_a_result_comes_home_by_the_stream(crumbs: Crumbs) -> None:
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        ids = [new_id() for _ in range(20)]
        await asyncio.gather(*(backend.dispatch(invocation("echo", one), "") for one in ids))
        for one in ids:
            assert (await kept.outcome(one)).value == HELLO
        assert backend.stream_up
        await until(lambda: backend.waiting == 0)
    assert sorted(kept.settled) == sorted(ids)


async def test_a_request_carries_what_the_runner_needs_and_an_end(crumbs: Crumbs) -> None:
    call_id = new_id()
    async with facing(crumbs.url) as (backend, kept):
        await kept.call(backend, invocation("echo", call_id, group="d1g3st"))
        request = crumbs.listed(tag=f"gateway:{call_id}", include_context="true")[0]
        record = await backend._client.read(request["id"])
    assert request["tags"] == ["tool:request", "workspace:tools", f"gateway:{call_id}", "session:d1g3st"]
    assert (request["context"]["return_to_llm"], request["context"]["requestedBy"]) == (True, "toolgate")
    assert record is not None
    ends = datetime.fromisoformat(record["ttl"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < ends <= timedelta(hours=1)


async def test_the_letter_of_the_standard_works_where_the_server_understands_it(crumbs: Crumbs) -> None:
    result = await result_of(crumbs, request_schema="agent_response", timings=SLOW_POLL)
    assert result.value == HELLO


async def test_a_call_is_dispatched_and_nothing_else(crumbs: Crumbs) -> None:
    async with facing(crumbs.url) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.call(invocation())
        assert await backend.challenge_status("https://example.com/") == "failed"
    assert caught.value.code is ErrorCode.INTERNAL


# What a runner or broker does to the event about a response, which is stored all the same.
HEARD = [
    "event_without_context",
    "event_without_type",
    "created_event",
    "malformed_events",
    "no_request_id",
    "untagged",
]
UNHEARD = ["drop_event", "partial_event", "big_output"]


@pytest.mark.parametrize("fault", HEARD)
async def test_an_odd_event_is_understood(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("echo", fault)
    assert (await result_of(crumbs, timings=SLOW_POLL)).value == HELLO


@pytest.mark.parametrize("fault", UNHEARD)
async def test_a_response_nobody_announced_is_found_by_polling(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("echo", fault)
    result = await result_of(crumbs)
    assert result.value == HELLO or len(result.value["text"]) > 2**20


@pytest.mark.parametrize("fault", ["duplicate_event", "duplicate_response"])
async def test_of_several_responses_the_first_counts(crumbs: Crumbs, fault: str) -> None:
    call_id = new_id()
    crumbs.order("echo", fault)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", call_id), "")
        await kept.outcome(call_id)
        await kept.call(backend, invocation("echo", new_id()))  # whatever came before this has been heard
    assert kept.settled.count(call_id) == 1


async def test_a_response_that_names_another_call_is_none_of_ours(crumbs: Crumbs) -> None:
    """The list spans tenants, and tags are anybody's."""
    crumbs.order("echo", "other_request_id")
    call_id = new_id()
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", call_id), "")
        await until(lambda: crumbs.executions(call_id) == 1)
        assert (await kept.call(backend, invocation("echo", new_id()))).value == HELLO
        assert backend.waiting == 1
    assert call_id not in kept.results


VALUES = [
    ("list_output", [1, 2, 3]),
    ("scalar_output", 42),
    ("null_output", None),
    ("no_output", None),
    ("big_integer", {"count": 2**63 + 1}),
    ("unicode_output", {"text": "Grüße, 世界 🎛"}),
    ("older_shape", HELLO),
    ("no_status", HELLO),
]


@pytest.mark.parametrize(("fault", "value"), VALUES, ids=[fault for fault, _ in VALUES])
async def test_any_output_is_a_value(crumbs: Crumbs, fault: str, value: Any) -> None:
    crumbs.order("echo", fault)
    assert (await result_of(crumbs)).value == value


FAILURES = [
    ("failure_inside", "Requires net access"),
    ("error_in_output", "The rate limit is exceeded"),
    ("unparsable_output", "The tool ran, but its output could not be read."),
    ("refused_output", "The tool ran, but its server did not take its result, which may be too large."),
    ("unknown_status", "The tool server gave a broken answer."),
    ("context_not_an_object", "The tool server gave a broken answer."),
]


@pytest.mark.parametrize(("fault", "message"), FAILURES, ids=[fault for fault, _ in FAILURES])
async def test_a_failure_says_what_is_true(crumbs: Crumbs, fault: str, message: str) -> None:
    crumbs.order("echo", fault)
    result = await result_of(crumbs)
    assert result.failure is not None
    assert (result.failure.message, result.failure.can_retry) == (message, False)


async def test_what_a_tool_throws_comes_without_its_stack(crumbs: Crumbs) -> None:
    result = await result_of(crumbs, "calculator", {"arguments": {"expression": "1/0"}})
    assert result.failure is not None
    assert "file:" not in result.failure.message
    assert "\n" not in result.failure.message


@pytest.mark.parametrize("timings", [SLOW_POLL, FAST_POLL], ids=["by the stream", "by polling"])
async def test_a_tool_that_vanished_while_it_was_called_is_told(crumbs: Crumbs, timings: Any) -> None:
    """Gap of the runner: this one response has no tag of its request."""
    if timings is FAST_POLL:
        crumbs.order("stream", "status_503", times=100)
    result = await result_of(crumbs, "vanished", timings=timings)
    assert result.failure is not None
    assert result.failure.message == "The tool server no longer knows the tool; it has not run."


async def test_an_unknown_tool_is_refused_before_anything_is_stored(crumbs: Crumbs) -> None:
    call_id, changes = new_id(), asyncio.Event()
    async with facing(crumbs.url, on_change=changes.set) as (backend, _):
        await backend.list_tools()
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("vanished", call_id), "")
        async with asyncio.timeout(5):
            await changes.wait()  # the list is to be looked at anew
        assert backend.waiting == 0
    assert caught.value.code is ErrorCode.TOOL_NOT_FOUND
    assert crumbs.listed(tag=f"gateway:{call_id}") == []


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
        assert (await kept.call(backend, invocation("echo", new_id()))).value == HELLO
        crumbs.order("list", "status_500")  # nobody can say whether it is; the call will tell
        assert (await kept.call(backend, invocation("echo", new_id()))).value == HELLO


async def test_what_is_not_worth_waiting_for_any_longer_is_forgotten(crumbs: Crumbs) -> None:
    crumbs.order("echo", "absent")
    async with facing(crumbs.url, timings=replace(FAST_POLL, watch_s=0.1)) as (backend, kept):
        await backend.dispatch(invocation("echo", new_id()), "")
        await until(lambda: backend.waiting == 0)
    assert not kept.results


async def test_a_call_is_looked_for_as_long_as_it_is_kept(crumbs: Crumbs) -> None:
    """With the waits of a real gateway, whose polls are seconds apart."""
    crumbs.order("echo", "absent")
    settings = RcrtBackendSettings(protocol="rcrt", url=crumbs.url, owner_id=OWNER, agent_id=AGENT)
    way_in = parts.admission("crumbs", settings, ())
    backend = parts.backend("crumbs", settings, way_in, Kept(), lambda _: None, pending_s=0.2)
    assert isinstance(backend, RcrtBackend)
    try:
        await backend.dispatch(invocation("echo", new_id()), "")
        assert backend.waiting == 1
        await until(lambda: backend.waiting == 0)
    finally:
        await backend.aclose()


async def test_a_late_response_comes_home_all_the_same(crumbs: Crumbs) -> None:
    crumbs.order("echo", "late", seconds=0.4)
    assert (await result_of(crumbs, timings=SLOW_POLL)).value == HELLO


async def test_a_cancelled_call_is_no_longer_looked_for(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("echo", "late", seconds=0.2)
    async with facing(crumbs.url) as (backend, kept):
        await backend.dispatch(invocation("echo", call_id), "")
        await backend.cancel(call_id, "", "")
        assert backend.waiting == 0
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
        await until(lambda: backend.waiting < 2)
        await kept.call(backend, invocation("echo", new_id()))
        assert backend.waiting == 1


async def test_what_comes_for_a_call_that_was_ended_by_another_process_ends_nothing(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("echo", "late", seconds=0.1)
    async with facing(crumbs.url, timings=SLOW_POLL) as (backend, kept):
        kept.over.add(call_id)
        await backend.dispatch(invocation("echo", call_id), "")
        await until(lambda: backend.waiting == 0)
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


async def test_an_outcome_from_before_is_found_at_once(crumbs: Crumbs) -> None:
    call_id = new_id()
    async with facing(crumbs.url) as (backend, kept):
        await kept.call(backend, invocation("echo", call_id))
        kept.results.clear()
        await backend.resume(call_id, "")
        assert (await kept.outcome(call_id)).value == HELLO


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


async def test_both_breadcrumbs_are_deleted_when_asked_for(crumbs: Crumbs) -> None:
    call_id = new_id()
    async with facing(crumbs.url, cleanup=True) as (backend, kept):
        await backend.dispatch(invocation("echo", call_id), "")
        await kept.outcome(call_id)
        await until(lambda: not crumbs.listed(tag=f"gateway:{call_id}") and not crumbs.listed(tag=f"request:{call_id}"))


async def test_a_conversation_of_one_call_leaves_no_tag(crumbs: Crumbs) -> None:
    call_id = new_id()
    async with facing(crumbs.url) as (backend, kept):
        await kept.call(backend, invocation("echo", call_id, group=ONCE + "x"))
    assert crumbs.listed(tag=f"gateway:{call_id}")[0]["tags"] == [
        "tool:request",
        "workspace:tools",
        f"gateway:{call_id}",
    ]


# What a server does with the request: what it answers, and whether the tool runs.
STORED = ["reset_stored", "status_500_stored", "no_id", "response_first"]
REFUSED = ["status_401", "status_500", "status_503"]


@pytest.mark.parametrize("fault", STORED)
async def test_a_request_whose_acknowledgement_fails_is_sent_once_and_answered(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("create", fault, seconds=2)
    assert (await result_of(crumbs)).value == HELLO


async def test_a_request_that_is_acknowledged_too_late_is_sent_once(crumbs: Crumbs) -> None:
    crumbs.order("create", "slow", seconds=2)
    assert (await result_of(crumbs, call={"timeout_s": 0.3})).value == HELLO


@pytest.mark.parametrize("fault", REFUSED)
async def test_a_request_that_is_provably_not_stored_is_refused(crumbs: Crumbs, fault: str) -> None:
    call_id = new_id()
    crumbs.order("create", fault, times=2)
    async with facing(crumbs.url) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("echo", call_id, idempotent=True), "")
        assert backend.waiting == 0
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert crumbs.executions(call_id) == 0


async def test_a_request_that_may_be_stored_is_not_sent_again(crumbs: Crumbs) -> None:
    call_id = new_id()
    crumbs.order("create", "reset")
    async with facing(crumbs.url) as (backend, _):
        assert await backend.dispatch(invocation("echo", call_id), "") is None
        assert backend.waiting == 1
    assert crumbs.listed(tag=f"gateway:{call_id}") == []


async def test_a_request_that_may_run_twice_is_sent_again(crumbs: Crumbs) -> None:
    crumbs.order("create", "reset")
    assert (await result_of(crumbs, call={"idempotent": True})).value == HELLO


async def test_a_call_another_process_has_stored_is_not_stored_again(crumbs: Crumbs) -> None:
    call_id, run = new_id(), new_run()
    async with facing(crumbs.url) as (first, _), facing(crumbs.url) as (second, kept):
        await first.dispatch(invocation("echo", call_id, run=run), "")
        await second.dispatch(invocation("echo", call_id, run=run), "")
        assert (await kept.outcome(call_id)).value == HELLO
    assert crumbs.executions(f"tg-{run}") == 1


async def test_a_server_that_does_not_let_us_in_is_unavailable(
    crumbs: Crumbs, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = FixedTokens(((b"authorization", b"Bearer stale"),))
    async with facing(crumbs.url, tokens=tokens) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("echo", new_id()), "")
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert "a tool server does not accept our credential" in [record.message for record in caplog.records]


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with facing("http://127.0.0.1:9") as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation(), "")
        assert (backend.waiting, backend.stream_up) == (0, False)
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE


async def test_arguments_a_broker_would_lose_are_refused(crumbs: Crumbs) -> None:
    async with facing(crumbs.url) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation(arguments={"message": "x" * 2**20}), "")
    assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE


async def test_a_configuration_passes_only_if_it_is_allowed(crumbs: Crumbs) -> None:
    arguments = {"message": "hello", "config_id": "6f1c"}
    allowed = {"arguments": arguments, "config_ids": frozenset({"6f1c"})}
    assert (await result_of(crumbs, call=allowed)).value == HELLO
    async with facing(crumbs.url) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation(arguments=arguments), "")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


WORKFLOW = {"steps": [{"id": "a", "tool": "timer", "input": {"seconds": 0.2}}]}


async def test_workflows_do_not_block_each_other(crumbs: Crumbs) -> None:
    """Gap of the runner: four at once hold places their own steps need."""
    async with facing(crumbs.url) as (backend, kept):
        ids = [new_id() for _ in range(4)]
        dispatching = [
            asyncio.create_task(backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")) for one in ids
        ]
        await until(lambda: backend.waiting == 2)
        assert (await kept.call(backend, invocation("echo", new_id()))).value == HELLO
        assert backend.waiting == 2
        results = [await kept.outcome(one) for one in ids]
        await asyncio.gather(*dispatching)
    assert [result.failure for result in results] == [None] * 4


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_workflow_that_was_cancelled_holds_its_place_until_it_is_over(crumbs: Crumbs, where: str) -> None:
    """The runner cannot be told, and goes on with it."""
    crumbs.order("workflow", "late", seconds=0.5, times=2)
    async with facing(crumbs.url) as (backend, kept):
        ids = [new_id() for _ in range(2)]
        for one in ids:
            await backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")
            if where == "here":
                await backend.cancel(one, "", "")
            else:
                kept.over.add(one)
        with pytest.raises(GatewayError):
            await backend.dispatch(invocation("workflow", new_id(), arguments=WORKFLOW, timeout_s=0.1), "")
        assert (await kept.call(backend, invocation("workflow", new_id(), arguments=WORKFLOW))).failure is None
        assert any(crumbs.listed(tag=f"request:{one}") for one in ids)
        await until(lambda: backend.waiting == 0)


async def test_a_workflow_that_finds_no_place_in_time_is_refused(crumbs: Crumbs) -> None:
    crumbs.order("workflow", "absent", times=2)
    async with facing(crumbs.url) as (backend, _):
        for _ in range(2):
            await backend.dispatch(invocation("workflow", new_id(), arguments=WORKFLOW), "")
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("workflow", new_id(), arguments=WORKFLOW, timeout_s=0.1), "")
        assert backend.waiting == 2
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE


async def test_the_place_of_a_workflow_that_was_lost_is_free_again_after_a_while(crumbs: Crumbs) -> None:
    crumbs.order("workflow", "absent", times=2)
    async with facing(crumbs.url, timings=replace(FAST_POLL, workflow_s=0.1)) as (backend, kept):
        for _ in range(2):
            await backend.dispatch(invocation("workflow", new_id(), arguments=WORKFLOW), "")
        assert (await kept.call(backend, invocation("workflow", new_id(), arguments=WORKFLOW))).failure is None


async def test_a_call_nobody_wants_any_more_when_its_turn_comes_is_not_stored(crumbs: Crumbs) -> None:
    crumbs.order("workflow", "absent", times=2)
    late, turn, calls = new_id(), given_up(), [new_id() for _ in range(2)]
    async with facing(crumbs.url, timings=replace(FAST_POLL, workflow_s=0.3)) as (backend, kept):
        for one in calls:
            await backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")
        with pytest.raises(GivenUpError):
            await backend.dispatch(invocation("workflow", late, arguments=WORKFLOW), "", turn)
        assert turn.said == ["waits", "goes"]
        assert backend.waiting == 2
        assert (await kept.call(backend, invocation("workflow", new_id(), arguments=WORKFLOW))).failure is None
    assert crumbs.listed(tag=f"gateway:{late}") == []


async def test_a_call_that_need_not_wait_is_stored_unasked(crumbs: Crumbs) -> None:
    async with facing(crumbs.url) as (backend, kept):
        for tool in ("echo", "workflow"):
            call_id, turn = new_id(), given_up()
            arguments = WORKFLOW if tool == "workflow" else {"message": "hello"}
            assert await backend.dispatch(invocation(tool, call_id, arguments=arguments), "", turn) is None
            assert (await kept.outcome(call_id)).failure is None
            assert turn.said == []
