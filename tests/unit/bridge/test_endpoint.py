"""The bridge as its callers see it, in front of a server that a test plays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.bridge.endpoint import MAX_BODY_BYTES, BridgeEndpoint
from gateway.bridge.handshake import Ready
from gateway.bridge.relay import MAX_UNSENT_BYTES
from gateway.bridge.run import LOCAL_NAMES, PATH
from gateway.protocols.mcp.wire import CAPABILITIES_MEMBER, MODERN, VERSION_MEMBER
from tests.unit.bridge.pipes import Server

pytestmark = pytest.mark.anyio

BEGUN = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
LEGACY_ONE, MODERN_ONE = Ready("2025-06-18", BEGUN), Ready(MODERN)
META = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: {}}


def answer(message: Any) -> list[Any]:
    """Tells progress to who wants it; knows no method but one."""
    token = message.get("params", {}).get("_meta", {}).get("progressToken")
    progress = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
    known = {"result": {"said": message["method"]}}
    response = known if message["method"] == "tools/call" else {"error": {"code": -32601, "message": "no"}}
    return [*([] if token is None else [progress]), {"id": message["id"], **response}]


@asynccontextmanager
async def bridge(ready: Ready = LEGACY_ONE, **more: bool) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    server = Server(answer, ready, **more)
    transport = httpx.ASGITransport(BridgeEndpoint(PATH, server, LOCAL_NAMES))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9110") as http:
        yield http, server


def request(method: str = "tools/call", id_: Any = 0, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def events(text: str) -> list[Any]:
    lines = text.split("\n")
    assert set(lines[0::3]) == {"event: message", ""}
    return [json.loads(line.removeprefix("data: ")) for line in lines[1::3]]


async def test_initialize_is_answered_with_what_the_server_said_and_each_caller_gets_a_session() -> None:
    async with bridge() as (http, server):
        replies = [await http.post(PATH, json=request("initialize", 5)) for _ in range(2)]
        assert [reply.json() for reply in replies] == [{"jsonrpc": "2.0", "id": 5, "result": BEGUN}] * 2
        assert len({reply.headers["mcp-session-id"] for reply in replies}) == 2
        assert server.pipe.sent == []


async def test_an_answer_is_json_and_an_error_of_a_legacy_server_is_no_error_of_http() -> None:
    async with bridge() as (http, _):
        called, unknown = [await http.post(PATH, json=request(name)) for name in ("tools/call", "prompts/list")]
    assert (called.status_code, called.json()["result"]) == (200, {"said": "tools/call"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (200, -32601)


async def test_a_caller_that_takes_only_events_gets_them_and_so_does_one_that_wants_progress() -> None:
    async with bridge() as (http, _):
        only = await http.post(PATH, json=request(), headers={"accept": "text/event-stream"})
        both = await http.post(PATH, json=request(_meta={"progressToken": "p"}))
        json_alone = {"accept": "application/json"}
        plain = await http.post(PATH, json=request(_meta={"progressToken": "p"}), headers=json_alone)
    assert only.headers["content-type"] == both.headers["content-type"] == "text/event-stream"
    assert only.headers["x-accel-buffering"] == "no"
    assert only.text.startswith(": \n\n")
    assert events(only.text.removeprefix(": \n\n"))[0]["result"] == {"said": "tools/call"}
    progress, response = events(both.text)
    assert progress["params"] == {"progressToken": "p", "progress": 1}
    assert response["id"] == 0
    assert plain.json()["result"] == {"said": "tools/call"}


async def test_notifications_and_responses_are_taken_and_what_concerns_the_bridge_alone_is_not_passed_on() -> None:
    async with bridge() as (http, server):
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        ):
            reply = await http.post(PATH, json=message)
            assert (reply.status_code, reply.content) == (202, b"")
        assert [message["method"] for message in server.pipe.sent] == ["notifications/roots/list_changed"]


async def test_a_modern_server_gets_modern_requests_and_its_errors_have_their_statuses() -> None:
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "a"}
    async with bridge(MODERN_ONE) as (http, server):
        good = await http.post(PATH, json=request(name="a", _meta=META), headers=headers)
        removed = await http.post(PATH, json=request("ping", _meta=META), headers={**headers, "mcp-method": "ping"})
        differs = await http.post(PATH, json=request(name="b", _meta=META), headers=headers)
        bare = await http.post(PATH, json=request(id_="x", name="a"), headers=headers)
        legacy = await http.post(PATH, json=request("initialize", protocolVersion="2025-06-18"))
        assert len(server.pipe.sent) == 2
    assert good.json()["result"] == {"said": "tools/call"}
    replies = [removed, differs, bare, legacy]
    assert [reply.status_code for reply in replies] == [404, 400, 400, 400]
    assert [reply.json()["error"]["code"] for reply in replies] == [-32601, -32020, -32602, -32022]
    assert bare.json()["id"] == "x"
    assert legacy.json()["error"]["data"] == {"supported": [MODERN], "requested": "2025-06-18"}


async def test_a_legacy_server_is_not_asked_in_the_modern_way() -> None:
    """A caller that tries gets a 400, and goes on with initialize."""
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "server/discover"}
    async with bridge() as (http, server):
        reply = await http.post(PATH, json=request("server/discover", _meta=META), headers=headers)
        assert (reply.status_code, server.pipe.sent) == (400, [])


REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/", {}, 404),
    ("POST", "/mcp/x", {"json": request()}, 404),
    ("DELETE", PATH, {}, 405),
    ("PUT", PATH, {"json": request()}, 405),
    ("GET", PATH, {"headers": {"accept": "application/json"}}, 405),
    ("POST", PATH, {"json": request(), "headers": {"host": "evil.example"}}, 403),
    ("POST", PATH, {"json": request(), "headers": {"origin": "https://evil.example"}}, 403),
    ("GET", PATH, {"headers": {"origin": "https://evil.example", "accept": "text/event-stream"}}, 403),
    ("POST", PATH, {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
    ("POST", PATH, {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
    ("POST", PATH, {"content": b" " * (MAX_BODY_BYTES + 1), "headers": {"content-type": "application/json"}}, 413),
]


@pytest.mark.parametrize(("method", "path", "options", "status"), REFUSED)
async def test_what_is_refused_never_reaches_the_server(
    method: str, path: str, options: dict[str, Any], status: int
) -> None:
    async with bridge() as (http, server):
        reply = await http.request(method, path, **options)
        assert (reply.status_code, server.pipe.sent) == (status, [])


async def test_a_server_that_does_not_run_is_a_503_which_says_that_nothing_was_sent() -> None:
    async with bridge(is_busy=True) as (http, _):
        reply = await http.post(PATH, json=request(id_=3))
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert reply.json()["id"] == 3
    assert "none was sent" in reply.json()["error"]["message"]


async def test_what_a_server_has_no_time_for_is_a_503_for_notifications_too() -> None:
    async with bridge() as (http, server):
        server.pipe.unsent_bytes = MAX_UNSENT_BYTES + 1
        replies = [await http.post(PATH, json=each) for each in (request(), {"jsonrpc": "2.0", "method": "x/y"})]
        assert server.pipe.sent == []
    assert [(reply.status_code, reply.headers["retry-after"]) for reply in replies] == [(503, "1")] * 2
