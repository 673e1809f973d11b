"""What a server does with a request, whether the tool runs, and how many workflows run at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.ports import NotDispatchedError
from tests.unit.dispatch_gate import refusing
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.crumbs import FAST_POLL, HELLO, facing, invocation, new_key, new_run, result_of, until

pytestmark = pytest.mark.anyio

# What a server does with the request: what it answers, and whether the tool runs.
STORED = ["reset_stored", "status_500_stored", "no_id", "response_first"]
ONCE_SEEN = replace(FAST_POLL, seen_s=60.0)  # a tool that was called is not looked for again
REFUSED = ["status_401", "status_500", "status_503"]


@pytest.mark.parametrize("fault", STORED)
async def test_a_request_whose_acknowledgement_fails_is_sent_once_and_answered(crumbs: Crumbs, fault: str) -> None:
    crumbs.order("create", fault, seconds=2)
    assert (await result_of(crumbs)).value == HELLO


async def test_a_request_that_is_acknowledged_too_late_is_sent_once(crumbs: Crumbs) -> None:
    crumbs.order("create", "slow", seconds=3)
    assert (await result_of(crumbs, call={"timeout_s": 1.5})).value == HELLO


@pytest.mark.parametrize("fault", REFUSED)
async def test_a_request_that_is_provably_not_stored_is_refused(crumbs: Crumbs, fault: str) -> None:
    key = new_key()
    crumbs.order("create", fault, times=2)
    async with facing(crumbs.url) as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("echo", key, idempotent=True), "")
        assert backend.open_calls == 0
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert crumbs.executions(key) == 0


async def test_a_request_that_the_server_does_not_accept_fails_for_good(crumbs: Crumbs) -> None:
    """A caller who is told that the tool is unavailable would repeat it in vain."""
    key = new_key()
    crumbs.order("create", "status_422")
    async with facing(crumbs.url) as (backend, _):
        result = await backend.dispatch(invocation("echo", key, idempotent=True), "")
        assert backend.open_calls == 0
    assert result is not None
    assert result.failure is not None
    assert (result.failure.message, result.failure.can_retry) == ("The tool server did not accept the call.", False)
    assert crumbs.executions(key) == 0


async def test_a_request_has_no_outcome_while_the_server_cannot_say_whether_it_is_stored(crumbs: Crumbs) -> None:
    """`dispatch` waits no longer than its caller, and the search goes on until it is answered."""
    key = new_key()
    async with facing(crumbs.url, timings=ONCE_SEEN) as (backend, kept):
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
        crumbs.order("create", "reset")
        crumbs.order("list", "status_500", times=20)
        assert await backend.dispatch(invocation("echo", key, timeout_s=0.2), "") is None
        assert key not in kept.results
        assert (await kept.outcome(key)).failure is not None
        assert crumbs.http.get("/faults").json()["due"] == []


async def test_a_request_that_is_found_late_is_waited_for(crumbs: Crumbs) -> None:
    """The server may go on with what a proxy has given up, and replicas of its database lag."""
    key = new_key()
    crumbs.order("stream", "deaf")
    async with facing(crumbs.url, timings=ONCE_SEEN) as (backend, kept):
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
        crumbs.order("create", "reset_stored")
        crumbs.order("list", "empty", times=3)
        assert (await kept.call(backend, invocation("echo", key))).value == HELLO
        assert crumbs.http.get("/faults").json()["due"] == []
    assert crumbs.executions(key) == 1


async def test_a_request_that_may_run_twice_is_sent_again(crumbs: Crumbs) -> None:
    crumbs.order("create", "reset")
    assert (await result_of(crumbs, call={"idempotent": True})).value == HELLO


async def test_a_call_another_process_has_stored_is_not_stored_again(crumbs: Crumbs) -> None:
    key, run = new_key(), new_run()
    async with facing(crumbs.url) as (first, _), facing(crumbs.url) as (second, kept):
        await first.dispatch(invocation("echo", key, run=run), "")
        await second.dispatch(invocation("echo", key, run=run), "")
        assert (await kept.outcome(key)).value == HELLO
    assert crumbs.executions(run) == 1


async def test_a_server_that_does_not_let_us_in_is_unavailable(
    crumbs: Crumbs, caplog: pytest.LogCaptureFixture
) -> None:
    async with facing(crumbs.url, token="stale") as (backend, _):
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("echo", new_key()), "")
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert "a tool server does not accept our credential" in [record.message for record in caplog.records]


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
        ids = [new_key() for _ in range(4)]
        dispatching = [
            asyncio.create_task(backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")) for one in ids
        ]
        await until(lambda: backend.open_calls == 2)
        assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
        assert backend.open_calls == 2
        results = [await kept.outcome(one) for one in ids]
        await asyncio.gather(*dispatching)
    assert [result.failure for result in results] == [None] * 4


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_workflow_that_was_cancelled_holds_its_place_until_it_is_over(crumbs: Crumbs, where: str) -> None:
    """The runner has no way to stop it, and goes on with it."""
    crumbs.order("workflow", "late", seconds=0.5, times=2)
    async with facing(crumbs.url) as (backend, kept):
        ids = [new_key() for _ in range(2)]
        for one in ids:
            await backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")
            if where == "here":
                await backend.cancel(one, "", "")
            else:
                kept.over.add(one)
        with pytest.raises(GatewayError) as caught:
            await backend.dispatch(invocation("workflow", new_key(), arguments=WORKFLOW, timeout_s=0.1), "")
        assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
        assert (await kept.call(backend, invocation("workflow", new_key(), arguments=WORKFLOW))).failure is None
        assert any(crumbs.listed(tag=f"request:tg-{one}") for one in ids)
        await until(lambda: backend.open_calls == 0)


async def test_the_place_of_a_workflow_that_was_lost_is_free_again_after_a_while(crumbs: Crumbs) -> None:
    crumbs.order("workflow", "absent", times=2)
    async with facing(crumbs.url, timings=replace(FAST_POLL, workflow_s=0.1)) as (backend, kept):
        for _ in range(2):
            await backend.dispatch(invocation("workflow", new_key(), arguments=WORKFLOW), "")
        assert (await kept.call(backend, invocation("workflow", new_key(), arguments=WORKFLOW))).failure is None


async def test_a_call_that_is_given_up_before_its_turn_is_not_stored(crumbs: Crumbs) -> None:
    crumbs.order("workflow", "absent", times=2)
    late, gate, calls = new_key(), refusing(), [new_key() for _ in range(2)]
    async with facing(crumbs.url, timings=replace(FAST_POLL, workflow_s=0.3)) as (backend, kept):
        for one in calls:
            await backend.dispatch(invocation("workflow", one, arguments=WORKFLOW), "")
        with pytest.raises(NotDispatchedError):
            await backend.dispatch(invocation("workflow", late, arguments=WORKFLOW), "", gate)
        assert gate.events == ["queued", "sent"]
        assert backend.open_calls == 2
        assert (await kept.call(backend, invocation("workflow", new_key(), arguments=WORKFLOW))).failure is None
    assert crumbs.listed(tag=f"gateway:{late}") == []


async def test_a_call_that_need_not_wait_does_not_ask_its_gate(crumbs: Crumbs) -> None:
    async with facing(crumbs.url) as (backend, kept):
        for tool in ("echo", "workflow"):
            key, gate = new_key(), refusing()
            arguments = WORKFLOW if tool == "workflow" else {"message": "hello"}
            assert await backend.dispatch(invocation(tool, key, arguments=arguments), "", gate) is None
            assert (await kept.outcome(key)).failure is None
            assert gate.events == []
