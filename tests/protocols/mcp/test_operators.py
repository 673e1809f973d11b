"""What operators see of callers that speak MCP: limits, lines, metrics and traces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.test_guard_limits import limit
from tests.flow.toolserver import ToolServer, tool
from tests.flow.watching import samples, scraped, watched
from tests.protocols.mcp.requests import LEGACY, MODERN, ask, call, call_in, post, session

pytestmark = pytest.mark.anyio

CANARY = "canary-4711"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def left(answer: httpx.Response) -> dict[str, int]:
    """What is left of each limit that has counted a request."""
    counted = re.findall(r'"([\w-]+)";r=(\d+)', answer.headers.get("ratelimit", ""))
    return {name: int(number) for name, number in counted}


LIMITS = [
    limit("echoes", "caller+tool", 5, tools=["Echo.*"]),
    limit("calls", "caller", 5, operations=["call"]),
    limit("lists", "caller", 5, operations=["list"]),
    limit("polls", "caller", 5, operations=["poll"]),
    limit("lists-here", "ip", 5, operations=["list"]),
    limit("polls-here", "ip", 5, operations=["poll"]),
]
CALLED = {"echoes": 4, "calls": 4}
LISTED = {"lists": 4, "lists-here": 4}
POLLED = {"polls": 4, "polls-here": 4}


async def test_mcp_49_a_call_counts_once_and_for_the_tool_of_its_body(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, rate_limits=LIMITS))).caller
    lying = await call(caller, "Count_Up", {"n": 1}, headers={"mcp-name": "Echo_Say"})
    assert (lying.status_code, left(lying)) == (400, {"calls": 4})  # it is refused, and no tool's limit is spent
    assert left(await call(caller, "Echo_Say")) == {"echoes": 4, "calls": 3}
    assert left(await call(caller, "Count_Up", {"n": 1})) == {"calls": 2}
    assert left(await call_in(caller, {}, "Echo_Say")) == {"echoes": 3, "calls": 1}
    assert server.executions == 3


@pytest.mark.parametrize(
    ("method", "counted"),
    [
        ("tools/call", CALLED),
        ("tools/list", LISTED),
        ("server/discover", POLLED),
        ("initialize", POLLED),
        ("ping", POLLED),
        ("notifications/cancelled", POLLED),
    ],
)
async def test_mcp_49_lists_and_polls_count_apart_from_calls(
    start: Start, server: ToolServer, method: str, counted: dict[str, int]
) -> None:
    """Also by their address, which is looked at before the body that says what they are."""
    caller = (await start(config({"scripted": server.url}, rate_limits=LIMITS))).caller
    answer = await asked(caller, method)
    assert left(answer) == counted
    assert answer.status_code in (200, 202, 404)


async def test_mcp_49_listening_counts_once_as_a_list(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}, rate_limits=LIMITS))
    listen = ask(gateway.caller, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    listening = asyncio.create_task(listen)
    while "toolgate_listeners 1.0" not in await scraped(gateway):  # noqa: ASYNC110 - the gateway has no event for tests
        await asyncio.sleep(0.01)
    assert left(await ask(gateway.caller, "tools/list", {})) == {"lists": 3, "lists-here": 3}
    assert left(await call(gateway.caller, "Echo_Say")) == CALLED
    listening.cancel()
    await asyncio.wait([listening])


async def asked(caller: Caller, method: str) -> httpx.Response:
    if method in ("initialize", "ping"):
        return await post(caller, {"jsonrpc": "2.0", "id": 1, "method": method})
    if method.startswith("notifications/"):
        return await post(caller, {"jsonrpc": "2.0", "method": method})
    if method == "tools/call":
        return await call(caller, "Echo_Say")
    return await ask(caller, method, {})


LEGACY_ONES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ROUTES = ("/mcp", "/mcp/{toolkit}")


async def test_mcp_50_lines_and_metrics_know_fixed_words_only(server: ToolServer) -> None:
    """Whatever a caller says of itself, of what it speaks and of what it wants."""
    client = {"io.modelcontextprotocol/clientInfo": {"name": CANARY, "version": CANARY}}
    about = {**client, "progressToken": CANARY, "traceparent": CANARY, f"x/{CANARY}": CANARY}
    odd = {"mcp-session-id": CANARY, "last-event-id": CANARY, "user-agent": CANARY}
    server.tools.append(tool("Canary.Tool"))
    async with watched(config({"scripted": server.url})) as gateway:
        caller = gateway.caller
        given = {"name": "Echo_Say", "arguments": {CANARY: CANARY}, "_meta": about}
        await ask(caller, "tools/call", given, headers=odd)
        await ask(caller, "tools/call", {**given, "requestState": CANARY, "inputResponses": {CANARY: {}}})
        await ask(caller, "tools/call", {**given, "name": f"Echo_{CANARY}"}, headers={"mcp-name": f"Echo_{CANARY}"})
        await ask(caller, f"tools/{CANARY}", {"_meta": about})
        await ask(caller, "server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": CANARY}})
        await post(caller, {"jsonrpc": "2.0", "id": CANARY, "method": "ping"}, {"mcp-protocol-version": CANARY})
        await post(caller, CANARY, method="GET", headers=odd)
        await post(caller, {}, path=f"/mcp/{CANARY.replace('-', '_')}")
        for version in LEGACY_ONES:
            began = await session(caller, version=version)
            await call_in(caller, began, "Echo_Say", {"n": CANARY})
            offered = {"protocolVersion": CANARY, "clientInfo": {"name": CANARY}, "capabilities": {CANARY: {}}}
            await post(caller, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": offered}, odd | began)
        counted = await samples(gateway.running, "toolgate_requests_total")
        seen = await scraped(gateway.running)
    assert CANARY not in gateway.text + seen
    assert CANARY.replace("-", "_") not in gateway.text + seen
    assert {line["dialect"] for line in gateway.lines} == {"mcp"}
    assert {line["operation"] for line in gateway.lines} == {"call", "poll"}
    assert {line["route"] for line in gateway.lines} == set(ROUTES)
    revisions = [line.get("revision") for line in gateway.lines]
    assert set(revisions) == {MODERN, *LEGACY_ONES, None}
    assert revisions.count(None) == 2  # of the GET, and of what is no request: nobody has read what they speak
    assert {re.findall(r"dialect=([^,}]*)", labels)[0] for labels in counted} == {"mcp"}


TRACES: Mapping[str, tuple[dict[str, str], dict[str, Any], bool]] = {
    "in _meta": ({}, {"traceparent": PARENT, "tracestate": "vendor=a1"}, True),
    "in headers": ({"traceparent": PARENT, "tracestate": "vendor=a1"}, {}, True),
    "in both": ({"traceparent": PARENT, "tracestate": "vendor=a1"}, {"traceparent": PARENT.replace("0a", "bb")}, True),
    "in neither": ({}, {}, False),
    "no trace": ({}, {"traceparent": "00-x", "tracestate": "vendor=a1"}, False),
    "no text": ({}, {"traceparent": 7, "tracestate": []}, False),
    "no letters": ({}, {"traceparent": PARENT[:-1] + "é"}, False),
}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_mcp_74_a_trace_goes_on_wherever_it_stands(
    start: Start, server: ToolServer, version: str, name: str
) -> None:
    """Spec: MCP 2026-07-28, `_meta`: W3C Trace Context. Ours: it counts in every revision, and headers go before it."""
    headers, meta, is_known = TRACES[name]
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant"]}
    caller = (await start(config({"scripted": backend}))).caller
    params = {"name": "Echo_Say", "arguments": {}, "_meta": meta}
    more = {**headers, "x-tenant": "acme", "x-request-id": "mine"}
    if version == MODERN:
        answer = await ask(caller, "tools/call", params, headers=more)
    else:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await post(caller, body, more | {"mcp-protocol-version": LEGACY})
    assert answer.json()["result"]["structuredContent"] == {}
    [received] = server.calls
    sent = [(key, value) for key, value in received.headers if key in ("x-tenant", "x-request-id")]
    assert sorted(sent) == [("x-request-id", "mine"), ("x-tenant", "acme")]
    [parent] = [value for key, value in received.headers if key == "traceparent"]
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", parent)
    assert (parent[3:35] == TRACE) is is_known
    assert parent[36:52] != SPAN  # the gateway's span is the parent now
    assert (received.header("tracestate") == "vendor=a1") is is_known
    assert "trace_id" not in received.call
