"""Operations of an HTTP API as tools of the whole gateway: what callers of each surface send, and what they get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.protocols.mcp.requests import ask, call, call_in, session
from tests.streams import http_reply
from tests.support.httpapi import http_api, operation, parameter
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

INTEGER = {"type": "integer"}
NOTE = {
    "type": "object",
    "properties": {
        "id": {**INTEGER, "readOnly": True},
        "text": {"type": "string"},
        "tag": {"type": ["string", "null"]},
    },
    "required": ["id", "text"],
}
BODY = {"required": True, "content": {"application/json": {"schema": NOTE}}}
COLOURS = parameter("colours", schema={"type": "array", "items": {"type": "string"}}, explode=False)
PATHS = {
    "/notes/{id}": {
        "parameters": [parameter("id", "path", INTEGER)],
        "get": operation("readNote", COLOURS, parameter("X-Shelf", "header"), summary="Reads a note."),
        "put": operation("writeNote", parameter("id", "query"), requestBody=BODY),
        "delete": operation("dropNote"),
    },
    "/notes": {"get": operation("listNotes"), "post": operation("addNote", requestBody=BODY)},
}
ALL = {"operations": {"methods": ["all"]}}


async def everywhere(caller: Caller, tool: str, arguments: Any) -> list[Any]:
    """The value of a call by each surface, which must be a success."""
    values = [(await caller.call(dialect, f"Api.{tool}", arguments)).value for dialect in ("oxp", "otc", "rfc")]
    for answered in (
        await call(caller, f"Api_{tool}", arguments),
        await call_in(caller, await session(caller), f"Api_{tool}", arguments),
    ):
        result = answered.json()["result"]
        assert not result.get("isError"), result
        values.append(result.get("structuredContent") or json.loads(result["content"][0]["text"]))
    return values


async def told(caller: Caller, tool: str, arguments: Any = None) -> dict[str, Any]:
    """How a call failed, which OXP and MCP must tell alike."""
    error = (await caller.call("oxp", f"Api.{tool}", arguments)).error
    result = (await call(caller, f"Api_{tool}", arguments)).json()["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == error["message"]
    also = result["_meta"]["toolgate/error"]
    assert {key: also.get(key) for key in ("code", "can_retry", "retry_after_ms")} == {
        key: error.get(key) for key in ("code", "can_retry", "retry_after_ms")
    }
    return error


REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "readNote",
        {"id": 7, "colours": ["red", "a,b"], "X-Shelf": "top"},
        {"method": "GET", "target": "/notes/7?colours=red,a%2Cb", "body": ""},
    ),
    (
        "writeNote",
        {"id": 7, "query_id": "é/?", "body": {"text": "", "tag": None}},
        {"method": "PUT", "target": "/notes/7?id=%C3%A9%2F%3F", "body": '{"text":"","tag":null}'},
    ),
    ("addNote", {"body": {"text": "hello"}}, {"method": "POST", "target": "/notes", "body": '{"text":"hello"}'}),
    ("dropNote", {"id": 0}, {"method": "DELETE", "target": "/notes/0", "body": ""}),
]


@pytest.mark.parametrize(("tool", "arguments", "request_"), REQUESTS, ids=[name for name, _, _ in REQUESTS])
async def test_openapi_17_an_operation_is_the_same_request_whatever_its_caller_speaks(
    tool: str, arguments: Any, request_: Any, start: Start
) -> None:
    async with http_api(PATHS) as api:
        caller = (await start(config({"api": api.backend(**ALL)}))).caller
        assert await everywhere(caller, tool, arguments) == [request_] * 5
        assert len(api.calls) == 5
        for request in api.calls:
            assert request.header("x-shelf") == arguments.get("X-Shelf")
            assert request.header("content-type") == ("application/json" if "body" in arguments else None)
            assert request.header("authorization") is None


async def test_openapi_57_only_operations_that_read_are_tools_unless_the_file_says_so(start: Start) -> None:
    async with http_api(PATHS) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        assert (await caller.list("oxp")).ids == ["Api.listNotes@1.0.0", "Api.readNote@1.0.0"]
        assert (await caller.call("otc", "Api.addNote", {"body": {"text": ""}})).document["code"] == "tool_not_found"
        assert api.calls == []


async def test_openapi_23_callers_see_schemas_and_models_what_a_tool_does(start: Start) -> None:
    async with http_api(PATHS) as api:
        caller = (await start(config({"api": api.backend(**ALL)}))).caller
        listed = {tool["name"]: tool for tool in (await ask(caller, "tools/list", {})).json()["result"]["tools"]}
        read, written = listed["Api_readNote"], listed["Api_writeNote"]
        assert read["description"] == "Reads a note."
        assert read["inputSchema"]["required"] == ["id"]
        assert set(read["inputSchema"]["properties"]) == {"id", "colours", "X-Shelf"}
        assert read["annotations"]["readOnlyHint"] is True
        assert not written["annotations"].get("readOnlyHint")
        text = json.dumps(written["inputSchema"])
        assert "readOnly" not in text
        assert set(written["inputSchema"]["required"]) == {"id", "body"}
        for argument in ({"id": 7, "unheard": 1}, {"id": "seven"}, {}):  # 22: the first would be a filter that is lost
            assert (await caller.call("oxp", "Api.readNote", argument)).document["code"] == "invalid_arguments"
        assert api.calls == []


ANSWERS: list[tuple[bytes, Any]] = [
    (http_reply(200, {"a": None}), {"a": None}),
    (http_reply(204, b""), None),
    (http_reply(200, b"caf\xe9", content_type="text/plain; charset=latin-1"), "café"),
]


@pytest.mark.parametrize(("reply", "value"), ANSWERS, ids=["json", "204", "text"])
async def test_openapi_41_answers_are_values(reply: bytes, value: Any, start: Start) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.write(reply)

    shows = {"operationId": "show", "responses": {"200": {"description": "Whatever."}}}
    async with http_api({"/": {"get": shows}}, answer) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        for dialect in ("oxp", "otc"):
            assert (await caller.call(dialect, "Api.show")).value == value
        result = (await call(caller, "Api_show")).json()["result"]
        assert not result.get("isError")


PROBLEM = http_reply(404, {"title": "No note", "detail": "7 is gone"}, content_type="application/problem+json")
FAILURES: list[tuple[bytes, str, dict[str, Any]]] = [
    (PROBLEM, "No note: 7 is gone", {"can_retry": False}),
    (http_reply(429, {}, retry_after="3"), "", {"can_retry": True, "retry_after_ms": 3000}),
    (http_reply(500, b"<h1>Traceback</h1>", content_type="text/html"), "", {"can_retry": True}),
]


@pytest.mark.parametrize(("reply", "words", "more"), FAILURES, ids=[str(reply[9:12]) for reply, _, _ in FAILURES])
async def test_openapi_42_what_an_api_refuses_is_a_failure_in_its_words_and_never_html(
    reply: bytes, words: str, more: dict[str, Any], start: Start
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.write(reply)

    async with http_api({"/": {"get": operation("ask")}}, answer) as api:
        caller = (await start(config({"api": api.backend(breaker={"failures": 0})}))).caller
        error = await told(caller, "ask")
        assert words in error["message"]
        assert "<" not in json.dumps(error)
        assert {key: error.get(key) for key in more} == more


async def test_openapi_58_the_operator_shapes_arguments_and_results(start: Start) -> None:
    async def answer(exchange: Exchange) -> None:
        items = [{"n": number, "noise": "x" * 100} for number in range(3)]
        await exchange.write(http_reply(200, {"data": {"items": items}}, link='</notes?page=2>; rel="next"'))

    keys = {
        "arguments": {"X-Shelf": "top"},
        "tools": {
            "listNotes": {"name": "notes", "description": "All notes.", "select": "data.items[?n > `0`].n"},
            "GET /notes/{id}": {"hide": ["colours"], "select": "/data/items/0/n", "response_headers": ["link"]},
        },
    }
    async with http_api(PATHS, answer) as api:
        caller = (await start(config({"api": api.backend(**keys)}))).caller
        assert await everywhere(caller, "notes", {}) == [[1, 2]] * 5
        listed = {tool["id"]: tool for tool in (await caller.list("oxp")).tools}
        assert listed["Api.notes@1.0.0"]["description"] == "All notes."
        assert list(listed["Api.readNote@1.0.0"]["input_schema"]["properties"]) == ["id"]
        value = (await caller.call("oxp", "Api.readNote", {"id": 1})).value
        assert value == {"body": 0, "headers": {"link": '</notes?page=2>; rel="next"'}}
        assert api.last.header("x-shelf") == "top"
        for stolen in ({"id": 1, "X-Shelf": "mine"}, {"id": 1, "colours": ["red"]}):
            assert (await caller.call("oxp", "Api.readNote", stolen)).document["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    ("tool", "arguments", "keys", "sent"),
    [
        ("readNote", {"id": 1}, {}, 2),
        ("writeNote", {"id": 1, "body": {"text": ""}}, {}, 2),
        ("addNote", {"body": {"text": ""}}, {}, 1),
        ("dropNote", {"id": 1}, {}, 1),
        ("readNote", {"id": 1}, {"tools": {"readNote": {"unsafe": True}}}, 1),
        ("addNote", {"body": {"text": ""}}, {"idempotency_key": {}}, 2),
    ],
    ids=["get", "put", "post", "delete", "unsafe get", "post with key"],
)
async def test_openapi_47_only_what_may_be_sent_twice_is(
    tool: str, arguments: Any, keys: Any, sent: int, start: Start
) -> None:
    async def reset(exchange: Exchange) -> None:
        exchange.reset()

    async with http_api(PATHS, reset) as api:
        caller = (await start(config({"api": api.backend(**ALL, **keys)}))).caller
        error = (await caller.call("oxp", f"Api.{tool}", arguments)).error
        assert error["can_retry"] is (sent == 2)
        assert len(api.calls) == sent
        names = {request.header("idempotency-key") for request in api.calls}
        assert len(names) == 1
        assert (names == {None}) is ("idempotency_key" not in keys)


async def test_openapi_45_a_call_with_an_id_runs_once_also_where_the_api_says_wait(start: Start) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.write(http_reply(200, {"n": len(api.calls)}))

    async with http_api(PATHS, answer) as api:
        caller = (await start(config({"api": api.backend(**ALL)}, state={}))).caller
        arguments = {"body": {"text": "once"}}
        for dialect in ("oxp", "otc", "oxp"):
            answered = await caller.call(dialect, "Api.addNote", arguments, call_id="note-1")
            assert answered.value == {"n": 1}
        assert len(api.calls) == 1


async def test_openapi_48_what_crashes_is_shut_and_what_refuses_is_not(start: Start) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.reply({"title": "No"}, status=int(exchange.request.target.rpartition("/")[2]))

    paths = {"/status/{code}": {"get": operation("get", parameter("code", "path"))}}
    paths["/status/500"] = {"get": operation("crash")}
    async with http_api(paths, answer) as api:
        backend = api.backend(breaker={"failures": 3, "open_for": "10m"})
        caller = (await start(config({"api": backend}))).caller
        for code in ("400", "403", "404", "409", "410", "422", "429") * 2:
            expected = "backend_busy" if code == "429" else "tool_error"
            assert (await caller.call("oxp", "Api.get", {"code": code})).headers["toolgate-code"] == expected
        sent = len(api.calls)
        codes = [(await caller.call("oxp", "Api.crash")).headers["toolgate-code"] for _ in range(5)]
        assert codes == ["tool_error"] * 3 + ["backend_unavailable"] * 2
        assert len(api.calls) == sent + 3
        assert (await caller.call("oxp", "Api.get", {"code": "404"})).headers["toolgate-code"] == "tool_error"
