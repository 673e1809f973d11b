"""Both eras of MCP at one path: decided per request, by nothing but the request (2026-07-28, and those before it)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.toolserver import ToolServer
from tests.protocols.mcp.requests import LEGACY, MODERN, ask, call, call_in, modern, post, session

pytestmark = pytest.mark.anyio

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ECHO = "Echo_Say"
PREFIX = "io.modelcontextprotocol/"


def legacy(method: str, params: Any = None, id_: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}


def code(document: Mapping[str, Any]) -> int:
    """The code of a JSON-RPC error."""
    found: int = document["error"]["code"]
    return found


async def test_mcp_01_a_modern_call_needs_no_request_before_it(caller: Caller) -> None:
    answer = (await call(caller, ECHO, {"n": 1})).json()
    assert answer["result"]["structuredContent"] == {"n": 1}
    assert answer["result"]["resultType"] == "complete"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_mcp_02_a_legacy_caller_begins_lists_and_calls(caller: Caller, revision: str) -> None:
    begun = await session(caller, version=revision)
    initialized = await post(caller, {"jsonrpc": "2.0", "method": "notifications/initialized"}, begun)
    assert initialized.status_code == 202
    listed = (await post(caller, legacy("tools/list"), begun)).json()
    assert ECHO in [tool["name"] for tool in listed["result"]["tools"]]
    answer = (await call_in(caller, begun, ECHO, {"n": 2})).json()
    assert answer["result"]["structuredContent"] == {"n": 2}
    assert "resultType" not in answer["result"]


async def test_mcp_02_an_unknown_revision_is_answered_with_the_newest_legacy_one(caller: Caller) -> None:
    offered = {"protocolVersion": "2031-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = (await post(caller, legacy("initialize", offered))).json()
    assert answer["result"]["protocolVersion"] == LEGACY


async def test_mcp_03_both_eras_at_once_at_one_path(caller: Caller) -> None:
    begun = await session(caller)
    both = (call(caller, ECHO, {"n": 1}), call_in(caller, begun, ECHO, {"n": 2}), ask(caller, "server/discover", {}))
    new, old, found = [reply.json()["result"] for reply in await asyncio.gather(*both)]
    assert (new["structuredContent"], old["structuredContent"]) == ({"n": 1}, {"n": 2})
    assert found["supportedVersions"] == [MODERN]
    assert "resultType" in new
    assert "resultType" not in old


FOREIGN = base64.urlsafe_b64encode(bytes(60)).decode().rstrip("=")


@pytest.mark.parametrize("id_", ["", "7", "not-ours", "=", "é", FOREIGN, "x" * 5000])
async def test_mcp_05_a_session_that_is_not_ours_is_ignored(caller: Caller, id_: str) -> None:
    headers = {"mcp-protocol-version": LEGACY, "mcp-session-id": id_.encode()}
    answer = await call_in(caller, headers, ECHO, {"n": 1})  # type: ignore[arg-type] # httpx takes bytes
    assert answer.json()["result"]["structuredContent"] == {"n": 1}


async def test_mcp_05_without_a_session_every_call_is_another(caller: Caller, server: ToolServer) -> None:
    for _ in range(2):
        await call_in(caller, {"mcp-protocol-version": LEGACY}, ECHO)
    assert server.executions == 2


async def test_mcp_06_initialize_ignores_the_session_before_it(caller: Caller) -> None:
    offered = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for stale in (await session(caller), {"mcp-session-id": "gone"}):
        answer = await post(caller, legacy("initialize", offered), stale)
        assert answer.json()["result"]["protocolVersion"] == LEGACY
        assert answer.headers["mcp-session-id"] != stale["mcp-session-id"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_mcp_07_get_is_405_and_so_is_delete(caller: Caller, method: str) -> None:
    for headers in ({}, await session(caller), {"last-event-id": "not-ours"} if method == "GET" else {}):
        answer = await post(caller, None, {"accept": "text/event-stream", **headers}, method=method)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "POST"


NOTIFICATIONS = [
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1}),
    ("notifications/cancelled", {"requestId": {}}),
    ("notifications/cancelled", []),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
    ("notifications/tools/call", {"name": ECHO}),
]


@pytest.mark.parametrize(("method", "params"), NOTIFICATIONS)
async def test_mcp_08_a_notification_is_taken_without_a_body(
    caller: Caller, server: ToolServer, method: str, params: Any
) -> None:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    modern_headers, _ = modern(method, {})
    for headers in ({}, await session(caller), modern_headers):
        answer = await post(caller, body, headers)
        assert (answer.status_code, answer.content) == (202, b"")
    assert server.executions == 0


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_mcp_09_a_modern_request_lacks_what_it_must_say(caller: Caller, missing: str) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    del body["params"]["_meta"][f"{PREFIX}{missing}"]
    answer = await post(caller, body, headers)
    assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (400, -32602, 1)
    assert missing in answer.json()["error"]["message"]


MISMATCHES: list[tuple[str, str | None]] = [
    ("mcp-method", None),
    ("mcp-method", "tools/list"),
    ("mcp-method", "TOOLS/CALL"),
    ("mcp-name", None),
    ("mcp-name", "Count_Up"),
    ("mcp-name", "echo_say"),
    ("mcp-name", "=?base64?!!!?="),
    ("mcp-protocol-version", "2025-11-26"),
]


@pytest.mark.parametrize(("name", "value"), MISMATCHES)
async def test_mcp_10_a_header_that_is_not_what_the_body_says(
    caller: Caller, server: ToolServer, name: str, value: str | None
) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    headers = {key: it for key, it in {**headers, name: value}.items() if it is not None}
    answer = await post(caller, body, headers)
    assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (400, -32020, 1)
    assert server.executions == 0


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version"])
async def test_mcp_10_a_routing_header_that_is_repeated(caller: Caller, server: ToolServer, name: str) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    lines = [*headers.items(), (name, headers[name]), ("content-type", "application/json")]
    answer = await caller.http.post("/mcp", content=json.dumps(body), headers=lines)
    assert (answer.status_code, code(answer.json())) == (400, -32020)
    assert server.executions == 0


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp-name", f"=?base64?{base64.b64encode(ECHO.encode()).decode()}?="),
        ("mcp-name", f"  {ECHO}\t"),
        ("MCP-NAME", ECHO),
        ("mCp-MeThOd", "tools/call"),
    ],
)
async def test_mcp_11_headers_in_every_form_that_is_allowed(caller: Caller, header: str, value: str) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {"n": 1}})
    headers = {name: it for name, it in headers.items() if name != header.lower()} | {header: value}
    assert (await post(caller, body, headers)).json()["result"]["structuredContent"] == {"n": 1}


async def test_mcp_12_an_unknown_modern_version_is_answered_with_those_that_are_served(caller: Caller) -> None:
    headers, body = modern("tools/list", {})
    body["params"]["_meta"][f"{PREFIX}protocolVersion"] = headers["mcp-protocol-version"] = "2027-01-01"
    answer = await post(caller, body, headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, -32022)
    assert error["data"] == {"supported": [MODERN], "requested": "2027-01-01"}


HEADERS = {
    "2024-10-07": (
        -32022,
        "Unsupported protocol version '2024-10-07'. Supported are 2026-07-28 and, by initialize, 2025-",
    ),
    "x" * 1000: (-32022, f"Unsupported protocol version '{'x' * 64}'."),
    "2025-06-18, 2025-06-18": (-32020, "The header mcp-protocol-version is repeated."),
    MODERN: (-32602, "params._meta lacks io.modelcontextprotocol/protocolVersion."),
}


@pytest.mark.parametrize("version", HEADERS)
async def test_a_request_without_a_revision_of_its_own_is_told_what_is_wrong_with_its_header(
    caller: Caller, version: str
) -> None:
    answer = await post(caller, legacy("tools/list"), {"mcp-protocol-version": version})
    error, (rpc_code, message) = answer.json()["error"], HEADERS[version]
    assert (answer.status_code, error["code"]) == (400, rpc_code)
    assert error["message"].startswith(message)


@pytest.mark.parametrize("method", ["tools/unknown", "", "ping", "initialize"])
async def test_mcp_13_a_method_that_modern_callers_do_not_have(caller: Caller, method: str) -> None:
    answer = await ask(caller, method, {})
    assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (404, -32601, 1)


@pytest.mark.parametrize("method", ["tools/unknown", "", "server/discover"])
async def test_mcp_13_14_a_method_that_legacy_callers_do_not_have_is_a_200(caller: Caller, method: str) -> None:
    answer = await post(caller, legacy(method), await session(caller))
    assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (200, -32601, 1)


IDS: list[Any] = [0, -1, 1, 2**53, -(2**63), 2**64 + 1, 10**40, "", "0", "a b", 'q"\\\n', "é☃😀", "x" * 256]


NOT_OFFERED = {
    "resources": ("list", "templates/list", "read", "subscribe", "unsubscribe"),
    "prompts": ("list", "get"),
    "completion": ("complete",),
    "logging": ("setLevel",),
    "tasks": ("list", "result"),
}


async def test_mcp_26_what_is_not_offered_is_neither_declared_nor_answered(caller: Caller) -> None:
    discovered = (await ask(caller, "server/discover", {})).json()["result"]
    offered = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    initialized = (await post(caller, legacy("initialize", offered))).json()["result"]
    for result in (discovered, initialized):
        assert set(result["capabilities"]) == {"tools"}
    begun = await session(caller)
    for method in [f"{group}/{name}" for group, names in NOT_OFFERED.items() for name in names]:
        for answer, status in ((await ask(caller, method, {}), 404), (await post(caller, legacy(method), begun), 200)):
            assert (answer.status_code, code(answer.json()), method) == (status, -32601, method)


@pytest.mark.parametrize("id_", IDS)
async def test_mcp_15_an_id_comes_back_as_it_was(caller: Caller, id_: Any) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    for answer in (
        await post(caller, body | {"id": id_}, headers),
        await post(caller, body | {"id": id_, "method": "none"}, {**headers, "mcp-method": "none"}),
        await post(caller, legacy("tools/call", {"name": ECHO}, id_)),
        await post(caller, legacy("tools/call", {"name": "none"}, id_)),
    ):
        assert answer.content.startswith(b'{"jsonrpc":"2.0","id":%b,"' % json.dumps(id_, ensure_ascii=False).encode())


@pytest.mark.parametrize("id_", [None, True, 1.5, 1.0, [], {}, "x" * 257])
async def test_mcp_15_what_is_no_id_is_refused_without_one(caller: Caller, server: ToolServer, id_: Any) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    without = {name: it for name, it in body.items() if name != "id"}
    for answer in (
        await post(caller, body | {"id": id_}, headers),
        await post(caller, legacy("tools/call", {"name": ECHO}, id_)),
        await post(caller, without, headers),
    ):
        assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (400, -32600, None)
    assert server.executions == 0


@pytest.mark.parametrize("arguments", [None, [], "{}", 1, True])
async def test_mcp_35_arguments_that_are_no_object(caller: Caller, server: ToolServer, arguments: Any) -> None:
    answer = await ask(caller, "tools/call", {"name": ECHO, "arguments": arguments})
    assert (answer.status_code, code(answer.json())) == (400, -32602)
    answer = await post(caller, legacy("tools/call", {"name": ECHO, "arguments": arguments}))
    assert (answer.status_code, code(answer.json())) == (200, -32602)
    assert server.executions == 0


async def test_mcp_35_arguments_that_are_absent_are_none(caller: Caller) -> None:
    for answer in (
        await ask(caller, "tools/call", {"name": ECHO}),
        await post(caller, legacy("tools/call", {"name": ECHO})),
    ):
        assert answer.json()["result"]["structuredContent"] == {}


async def test_mcp_16_a_body_that_is_no_json_is_a_parse_error(caller: Caller) -> None:
    headers, _ = modern("tools/list", {})
    for more in ({}, headers):
        answer = await caller.http.post("/mcp", content=b"{", headers={"content-type": "application/json", **more})
        assert (answer.status_code, code(answer.json()), answer.json()["id"]) == (400, -32700, None)


async def test_mcp_16_members_that_nobody_knows_are_ignored(caller: Caller) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {"n": 1}, "task": {"ttl": 1}, "more": 1})
    assert (await post(caller, body | {"more": 1}, headers)).json()["result"]["structuredContent"] == {"n": 1}
