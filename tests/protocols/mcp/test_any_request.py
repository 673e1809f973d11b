"""Any headers and any JSON to the endpoint of MCP: no 5xx, answers of JSON-RPC, no tool but the one that is named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.flow.gateways import Running, config, running
from tests.flow.test_any_request import ANY_JSON, HEADERS, Header, exchange
from tests.flow.toolserver import ToolServer, object_of, tool, tool_server
from tests.protocols.mcp.requests import MODERN, modern

pytestmark = pytest.mark.anyio

ENOUGH = settings(max_examples=50, deadline=None)  # about 2 ms each
METHODS = ("initialize", "ping", "server/discover", "tools/list", "tools/call", "notifications/cancelled", "x")
NAMES = ("Echo_Say", "Count_Up", "Echo.Say", "Echo.Say@1.0.0", "Echo_Nothing", "Echo.", "@", "")
MCP_HEADERS = st.tuples(
    st.sampled_from(
        [
            b"mcp-protocol-version",
            b"mcp-method",
            b"mcp-name",
            b"mcp-session-id",
            b"accept",
            b"idempotency-key",
            b"origin",
        ]
    ),
    st.sampled_from([MODERN.encode(), b"2025-11-25", b"tools/call", b"Echo_Say", b"=?base64?RWNobw==?=", b"*/*"])
    | st.binary(max_size=12),
)
META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from([MODERN, "2030-01-01", 7]),
        "io.modelcontextprotocol/clientCapabilities": st.just({}) | ANY_JSON,
        "progressToken": ANY_JSON,
        "toolgate/call_id": ANY_JSON,
        "toolgate/context": ANY_JSON,
        "traceparent": ANY_JSON,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(NAMES) | ANY_JSON,
        "arguments": st.just({}) | ANY_JSON,
        "cursor": ANY_JSON,
        "protocolVersion": ANY_JSON,
        "capabilities": ANY_JSON,
        "_meta": META | ANY_JSON,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | ANY_JSON,
        "id": st.integers() | ANY_JSON,
        "method": st.sampled_from(METHODS) | ANY_JSON,
        "params": PARAMS | ANY_JSON,
        "result": ANY_JSON,
    },
)
PATHS = st.sampled_from(["/mcp", "/mcp/Echo", "/mcp/Nothing", "/mcp/", "/mcp//", "/mcp/\u00e4"])


class Surface:
    """A gateway without authentication, and the tool server behind it."""

    def __init__(self, gateway: Running, server: ToolServer) -> None:
        self.app = gateway.gateway.public
        self.server = server


@pytest.fixture(scope="module")
async def surface(anyio_backend: object) -> AsyncIterator[Surface]:
    tools = [tool("Echo.Say"), tool("Count.Up", input_schema=object_of(n={"type": "integer"}))]
    async with tool_server(*tools) as server, running(config({"scripted": server.url})) as gateway:
        yield Surface(gateway, server)


def named_tool(document: Any) -> str | None:
    """The tool that a body names."""
    params = document.get("params") if isinstance(document, dict) else None
    name = params.get("name") if isinstance(params, dict) else None
    return name.replace("_", ".").partition("@")[0] if isinstance(name, str) else None


async def send(surface: Surface, path: str, document: Any, headers: list[Header]) -> None:
    """Sends a body, which must run the tool that it names, or none."""
    before = len(surface.server.calls)
    body = json.dumps(document).encode()
    reply = await exchange(surface.app, "POST", path, [(b"content-type", b"application/json"), *headers], body)
    if reply.status == 202:
        assert reply.body == b""
    else:
        answer = json.loads(reply.body)
        for each in answer if isinstance(answer, list) else [answer]:
            assert each.keys() & {"result", "error", "message"}, reply
    named = {named_tool(message) for message in (document if isinstance(document, list) else [document])}
    assert {received.call["tool_id"].partition("@")[0] for received in surface.server.calls[before:]} <= named


@given(
    path=PATHS,
    document=MESSAGES | st.lists(MESSAGES, max_size=3) | ANY_JSON,
    headers=st.lists(MCP_HEADERS, max_size=4) | HEADERS,
)
@example(path="/mcp", document=[{"jsonrpc": "2.0", "id": 1, "method": "ping"}], headers=[])
@ENOUGH
async def test_mcp_14_no_json_breaks_the_surface(
    surface: Surface, path: str, document: Any, headers: list[Header]
) -> None:
    await send(surface, path, document, headers)


@given(
    name=st.sampled_from(NAMES),
    arguments=st.just({}) | st.dictionaries(st.text(max_size=4), ANY_JSON, max_size=2),
    meta=st.dictionaries(st.sampled_from(["progressToken", "toolgate/call_id", "toolgate/wait"]), ANY_JSON, max_size=2),
    replaced=st.dictionaries(
        st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "accept", "prefer"]),
        st.sampled_from(
            [MODERN, "tools/call", "Echo_Say", " Echo_Say ", "=?base64?RWNob19TYXk=?=", "respond-async", ""]
        ),
        max_size=2,
    ),
)
@ENOUGH
async def test_mcp_10_no_headers_run_another_tool_than_the_body_names(
    surface: Surface, name: str, arguments: Any, meta: Any, replaced: dict[str, str]
) -> None:
    headers, document = modern("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
    fields = [(key.encode(), value.encode()) for key, value in (headers | replaced).items()]
    await send(surface, "/mcp", document, fields)
