"""One call under one name: by the caller's own id across eras and dialects, or by the request of a legacy session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.keeping import begun, counted, gated
from tests.flow.toolserver import ToolServer, always, silence
from tests.protocols.mcp.requests import LEGACY, ask, post, session
from tests.streams import http_reply

pytestmark = pytest.mark.anyio

ECHO = "Echo_Say"
MINE = "toolgate/call_id"
NAMED: dict[str, Any] = {"_meta": {MINE: "mine"}}


def params(n: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": ECHO, "arguments": {"n": n}, **more}


async def ask_in(caller: Caller, begun: dict[str, str], asked: dict[str, Any], id_: Any = 1) -> dict[str, Any]:
    """The result of a legacy call with further members."""
    answer = await post(caller, {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": asked}, begun)
    result: dict[str, Any] = answer.json()["result"]
    return result


async def test_mcp_36_one_id_runs_once_across_eras_and_dialects(caller: Caller, server: ToolServer) -> None:
    server.handler = counted(server)
    mcp = (await ask(caller, "tools/call", params(**NAMED))).json()["result"]
    by_header = (await ask(caller, "tools/call", params(), headers={"idempotency-key": "mine"})).json()["result"]
    old = await ask_in(caller, await session(caller), params(**NAMED))
    assert mcp["_meta"][MINE] == by_header["_meta"][MINE] == old["_meta"][MINE] == "mine"
    values = [it["structuredContent"] for it in (mcp, by_header, old)]
    values += [(await caller.call(dialect, "Echo.Say", {"n": 1}, call_id="mine")).value for dialect in ("oxp", "otc")]
    assert values == [{"run": 1, "input": {"n": 1}}] * 5
    assert server.executions == 1


async def test_mcp_36_a_call_under_way_is_joined_by_other_dialects(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    asked = asyncio.create_task(ask(caller, "tools/call", params(**NAMED)))
    await begun(server)
    joining = asyncio.create_task(caller.call("oxp", "Echo.Say", {"n": 1}, call_id="mine"))
    opened.set()
    assert (await asked).json()["result"]["structuredContent"] == (await joining).value == {"run": 1, "input": {"n": 1}}
    looked = await caller.http.get("/calls/mine")
    assert looked.json()["result"]["structuredContent"] == {"run": 1, "input": {"n": 1}}
    assert server.executions == 1


async def test_mcp_36_the_same_id_for_something_else_is_a_conflict_that_a_model_can_read(
    caller: Caller, server: ToolServer
) -> None:
    await ask(caller, "tools/call", params(1, **NAMED))
    for result in (
        (await ask(caller, "tools/call", params(2, **NAMED))).json()["result"],
        await ask_in(caller, await session(caller), params(2, **NAMED)),
    ):
        assert result["isError"] is True
        assert result["_meta"]["toolgate/error"]["code"] == "call_conflict"
    assert server.executions == 1


@pytest.mark.parametrize("call_id", ["", "x" * 257, "é", "a\nb", 1, None])
async def test_mcp_36_an_id_that_is_none_is_refused(caller: Caller, server: ToolServer, call_id: Any) -> None:
    answer = await ask(caller, "tools/call", params(_meta={MINE: call_id}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)
    assert server.executions == 0


async def test_mcp_37_a_request_that_comes_again_joins_the_one_before_it(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    begun_ = await session(caller)
    asked = [asyncio.create_task(ask_in(caller, begun_, params())) for _ in range(3)]
    await begun(server)
    opened.set()
    results = [await one for one in asked]
    results.append(await ask_in(caller, begun_, params()))  # also after it was answered
    assert [it["structuredContent"] for it in results] == [{"run": 1, "input": {"n": 1}}] * 4
    assert {it["_meta"][MINE][:3] for it in results} == {"tg-"}
    assert server.executions == 1


async def test_mcp_37_a_refusal_or_what_may_be_tried_again_is_not_told_again(
    caller: Caller, server: ToolServer
) -> None:
    began = await session(caller)
    for refused in (
        http_reply(422, {"message": "Closed until noon."}),
        http_reply(400, {"message": "Not now.", "code": "backend_unavailable"}, toolgate_code="backend_unavailable"),
        server.result({"success": False, "error": {"message": "Full.", "can_retry": True}}),
    ):
        server.handler = always(refused)
        assert [(await ask_in(caller, began, params()))["isError"] for _ in range(2)] == [True, True]
    assert server.executions == 6
    server.handler = counted(server)
    assert [(await ask_in(caller, began, params()))["structuredContent"]["run"] for _ in range(2)] == [7, 7]


async def test_mcp_37_another_id_session_type_or_question_is_another_call(caller: Caller, server: ToolServer) -> None:
    first, second = await session(caller), await session(caller)
    assert first != second
    for begun_, id_, n in ((first, 1, 1), (first, 2, 1), (first, "1", 1), (second, 1, 1), (first, 1, 2)):
        assert (await ask_in(caller, begun_, params(n), id_))["structuredContent"] == {"n": n}
    assert server.executions == 5


async def test_mcp_37_an_id_of_the_callers_own_goes_before_that_of_its_request(
    caller: Caller, server: ToolServer
) -> None:
    begun_ = await session(caller)
    for call_id in ("one", "two"):
        assert "isError" not in await ask_in(caller, begun_, params(_meta={MINE: call_id}))
    assert server.executions == 2


async def test_mcp_37_more_calls_than_may_be_remembered_run_all_the_same(start: Start, server: ToolServer) -> None:
    state = {"max_pending_per_caller": 1}
    caller = (await start(config({"scripted": server.url}, state=state))).caller
    server.handler, opened = gated(server)
    begun_ = await session(caller)
    asked = [asyncio.create_task(ask_in(caller, begun_, params(id_), id_)) for id_ in range(3)]
    await begun(server, 3)
    opened.set()
    assert [(await one)["structuredContent"]["input"] for one in asked] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_mcp_38_how_long_a_caller_waits_shortens_the_deadline(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}))).caller
    server.handler = silence
    begun_, asked = await session(caller), params(_meta={"toolgate/wait": 2})
    answers = await asyncio.gather(
        ask_in(caller, begun_, asked),
        ask_in(caller, {"mcp-protocol-version": LEGACY}, asked),
        ask_in(caller, begun_ | {"prefer": "wait=2"}, params(), 2),
        *[_modern_result(caller, params(_meta=meta), **more) for meta, more in SHORT],
    )
    for result in answers:
        assert result["isError"] is True
        told = result["_meta"]["toolgate/error"]
        assert (told["code"], told["can_retry"]) == ("timeout", False)


SHORT: list[tuple[Any, Any]] = [({"toolgate/wait": 2}, {}), ({}, {"prefer": "wait=2"})]


async def _modern_result(caller: Caller, asked: dict[str, Any], **headers: str) -> dict[str, Any]:
    result: dict[str, Any] = (await ask(caller, "tools/call", asked, headers=headers)).json()["result"]
    return result


@pytest.mark.parametrize("wait", ["5", -1, True, [], {}])
async def test_mcp_38_a_time_that_is_none_is_refused(caller: Caller, server: ToolServer, wait: Any) -> None:
    answer = await ask(caller, "tools/call", params(_meta={"toolgate/wait": wait}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)
    assert server.executions == 0


async def test_mcp_38_who_has_not_waited_may_ask_again_only_by_an_id_of_its_own(
    caller: Caller, server: ToolServer
) -> None:
    server.handler, opened = gated(server)
    short: dict[str, Any] = {"_meta": {MINE: "mine", "toolgate/wait": 0}}
    own = (await ask(caller, "tools/call", params(**short))).json()["result"]["_meta"]["toolgate/error"]
    assert (own["code"], own["can_retry"]) == ("still_running", True)
    begun_ = await session(caller)
    left = await ask_in(caller, begun_ | {"prefer": "respond-async"}, params(2))
    told = left["_meta"]["toolgate/error"]
    assert (told["code"], told["can_retry"]) == ("still_running", False)
    assert "must not be called again" in left["content"][1]["text"]
    opened.set()
    assert (await ask(caller, "tools/call", params(**NAMED))).json()["result"]["structuredContent"]["run"] == 1
    assert (await ask_in(caller, begun_, params(2)))["structuredContent"]["input"] == {"n": 2}
    assert server.executions == 2


async def test_mcp_40_a_cancelled_notification_ends_the_call_of_its_session_alone(
    caller: Caller, server: ToolServer
) -> None:
    server.handler, opened = gated(server)
    first, second = await session(caller), await session(caller)
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params(0)}
    cancelled = asyncio.create_task(post(caller, body, first))
    other = asyncio.create_task(ask_in(caller, second, params(1), 7))
    await begun(server, 2)
    stray = {"mcp-protocol-version": LEGACY}
    for headers, id_ in ((stray, 7), (first, 8), (first, "7"), (second, 8), (first, 7)):
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_, "reason": "x"}}
        assert (await post(caller, body, headers)).status_code == 202
    unanswered = await cancelled  # Spec: 2025-11-25, Cancellation
    assert (unanswered.status_code, unanswered.content) == (202, b"")
    opened.set()
    assert (await other)["structuredContent"]["input"] == {"n": 1}
    again = await ask_in(caller, first, params(0), 7)
    assert again["_meta"]["toolgate/error"]["code"] == "cancelled"  # it stays so
    assert server.executions == 2


async def test_mcp_40_a_call_with_an_id_of_its_own_is_not_cancelled_by_its_request(
    caller: Caller, server: ToolServer
) -> None:
    server.handler, opened = gated(server)
    begun_ = await session(caller)
    asked = asyncio.create_task(ask_in(caller, begun_, params(**NAMED), 7))
    await begun(server)
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert (await post(caller, body, begun_)).status_code == 202
    opened.set()
    assert (await asked)["structuredContent"]["run"] == 1
