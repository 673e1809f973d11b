"""What is kept of a call, for how long, for whom, and what it costs its caller. All of it is ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.flow.builds import builds
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config, listed_until
from tests.flow.keeping import begun, counted, gated
from tests.flow.toolserver import ToolServer, object_of, tool
from tests.streams import Request, http_reply
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
JWT = {"jwt": [{"secret": SECRET}]}


async def test_a_call_without_an_id_is_not_kept(caller: Caller, server: ToolServer) -> None:
    server.handler = counted(server)
    answers = [await caller.call("oxp", "Echo.Say", {"a": 1}) for _ in range(2)]
    assert [answer.value["run"] for answer in answers] == [1, 2]
    for answer, received in zip(answers, server.calls, strict=True):
        assert answer.headers["toolgate-call-id"] == answer.result["call_id"] == received.call["call_id"]
        assert "location" not in answer.headers
        assert (await caller.send("bare", "kept", "GET", f"/calls/{answer.result['call_id']}")).status == 404


async def test_the_tool_server_gets_the_id_that_the_caller_gets(caller: Caller, server: ToolServer) -> None:
    answer = await caller.call("oxp", "Echo.Say", call_id="mine")
    [received] = server.calls
    assert received.call["call_id"] == answer.headers["toolgate-call-id"] != "mine"


async def test_refusals_of_the_tool_server_name_the_call_too(caller: Caller, server: ToolServer) -> None:
    async def refuse(_received: Request) -> bytes:
        return http_reply(400, {"message": "No."})

    server.handler = refuse
    for answer in (await caller.call("oxp", "Echo.Say"), await caller.call("oxp", "Echo.Say", call_id="k")):
        assert answer.headers["toolgate-call-id"] in {received.call["call_id"] for received in server.calls}


async def test_a_full_quota_is_a_429_with_retry_after(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    gateway = await start(config({"scripted": server.url}, auth=JWT, state={"max_pending_per_caller": 2}))
    ada, bob = (gateway.caller.with_token(token(who)) for who in ("ada", "bob"))
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        running = [
            group.create_task(ada.call("oxp", "Echo.Say", {"n": number}, call_id=f"k-{number}")) for number in (1, 2)
        ]
        await begun(server, 2)
        refused = await ada.call("oxp", "Echo.Say", {"n": 3}, call_id="k-3")
        assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (429, True)
        others = group.create_task(bob.call("oxp", "Echo.Say", {"n": 3}, call_id="k-3"))
        joined = group.create_task(ada.call("oxp", "Echo.Say", {"n": 1}, call_id="k-1"))
        await begun(server, 3)
        opened.set()
    assert (await joined).body == (await running[0]).body
    assert (await others).value["input"] == {"n": 3}
    assert (await ada.call("oxp", "Echo.Say", {"n": 3}, call_id="k-3")).value["input"] == {"n": 3}


async def test_finished_calls_count_until_they_are_forgotten(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, state={"max_records_per_caller": 2}))).caller
    for number in (1, 2):
        await caller.call("oxp", "Echo.Say", call_id=f"k-{number}")
    refused = await caller.call("oxp", "Echo.Say", call_id="k-3")
    assert (refused.status, int(refused.headers["retry-after"]) > 3000) == (429, True)
    assert (await caller.call("oxp", "Echo.Say", call_id="k-1")).status == 200
    assert (await caller.call("oxp", "Echo.Say")).status == 200
    assert server.executions == 3


async def test_a_result_too_large_to_keep_is_given_once(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, state={"max_result": "1KiB"}))).caller
    large = {"text": "x" * 1024}
    assert (await caller.call("oxp", "Echo.Say", large, call_id="k")).value == large
    again = await caller.call("oxp", "Echo.Say", large, call_id="k")
    assert (again.error["can_retry"], "too large" in again.error["message"]) == (False, True)
    assert server.executions == 1


async def test_an_expired_result_is_a_refusal_and_no_second_run(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, state={"result_ttl": "1s"}))).caller
    first = await caller.call("oxp", "Echo.Say", call_id="k")
    async with asyncio.timeout(DEADLINE_S):
        while (again := await caller.call("oxp", "Echo.Say", call_id="k")).status == 200:
            assert again.body == first.body
            await asyncio.sleep(0.05)
    assert (again.status, again.message) == (400, "The call with this call_id has expired.")
    assert (await caller.send("bare", "kept", "GET", "/calls/k")).status == 404
    assert server.executions == 1


@pytest.mark.parametrize("check", ["off", "warn", "fail"])
async def test_output_is_checked_on_every_look(start: Start, server: ToolServer, check: str) -> None:
    server.tools = [tool("Echo.Say", output_schema=object_of(n={"type": "integer"}))]
    route = {"tools": "*", "backend": "scripted", "validate_output": check}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    first = await caller.call("oxp", "Echo.Say", {"n": "one"}, call_id="k")
    assert first.result["success"] is (check != "fail")
    again = await caller.call("oxp", "Echo.Say", {"n": "one"}, call_id="k")
    looked = await caller.send("oxp", "kept", "GET", "/calls/k")
    assert first.body == again.body == looked.body
    assert b"one" not in looked.body or check != "fail"
    assert server.executions == 1


async def test_a_repetition_is_judged_by_the_version_that_ran(start: Start, server: ToolServer) -> None:
    """The latest may be another one by then, with another output schema."""
    server.tools = [tool("Echo.Say", output_schema=object_of(n={"type": "integer"}))]
    route = {"tools": "*", "backend": "scripted", "validate_output": "fail"}
    gateway = await start(config({"scripted": server.url}, [route]))
    first = await gateway.caller.call("oxp", "Echo.Say", {"n": 1}, call_id="k")
    server.tools.append(tool("Echo.Say@2.0.0", output_schema=object_of(m={"type": "integer"})))
    gateway.gateway.catalogue.refresh("scripted")
    await listed_until(gateway.caller, lambda listed: "Echo.Say@2.0.0" in listed.ids)
    assert (await gateway.caller.call("oxp", "Echo.Say", {"n": 1}, call_id="k")).body == first.body


NOT_KEPT = "The call is over. Its result was delivered to the caller that waited for it, and was not stored."


async def test_delivered_callback_results_use_no_quota() -> None:
    async with builds(state={"max_records_per_caller": 2}) as server:
        for _ in range(5):
            answer, invoked = await server.answered()
            assert (answer.status, answer.value, "location" in answer.headers) == (200, "done", False)
            assert answer.headers["toolgate-call-id"] == invoked.call_id


async def test_a_delivered_callback_result_is_reported_as_over() -> None:
    async with builds() as server:
        answer, _ = await server.answered()
        path = f"/calls/{answer.headers['toolgate-call-id']}"
        for method, status in (("GET", 200), ("DELETE", 202), ("GET", 200)):
            looked = await server.caller.send("oxp", "kept", method, path)
            assert (looked.status, looked.error["message"], looked.error["can_retry"]) == (status, NOT_KEPT, False)


async def test_a_delivered_async_result_has_no_location(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, state={"max_records_per_caller": 2}))).caller
    for _ in range(5):
        answer = await caller.call("oxp", "Echo.Say", {"a": 1}, headers={"prefer": "respond-async, wait=60"})
        assert (answer.status, answer.value, "location" in answer.headers) == (200, {"a": 1}, False)
