"""Requests to MCP servers: metadata and headers of both eras, and arguments that headers repeat."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.model import Invocation
from gateway.protocols.mcp.servers import requests as mcp_server
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from tests.unit.protocols.common.answers import invocation

MODERN, LEGACY = NegotiatedSession("2026-07-28"), NegotiatedSession("2025-06-18", b"s1")
TRACE = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def mirrored(value: Any, **header: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"region": {"type": value, "x-mcp-header": "Region"} | header}}


def called(session: NegotiatedSession, call: Invocation) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a call."""
    where = mcp_server.header_arguments_of(call.tool.input_schema)
    request, more = mcp_server.call(session, 7, call, where, {})
    return {name.decode(): value.decode() for name, value in (*request.headers, *more)}, json.loads(request.body)


def test_mcp_53_mcp_74_a_modern_call_says_in_headers_and_metadata_what_it_is() -> None:
    call = replace(invocation(), headers=(TRACE, (b"x-request-id", b"r1")))
    headers, body = called(MODERN, replace(call, tool=replace(call.tool, remote_id="suche.für")))
    assert headers == {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "=?base64?" + base64.b64encode("suche.für".encode()).decode() + "?=",
        "traceparent": TRACE[1].decode(),
        "x-request-id": "r1",
    }
    meta = body["params"].pop("_meta")
    assert body == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "suche.für", "arguments": {}},
    }
    assert meta.pop("io.modelcontextprotocol/clientInfo")["name"] == "toolgate"
    assert meta == {
        "toolgate/call_id": "c",
        "traceparent": TRACE[1].decode(),
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"url": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    }


def test_mcp_60_a_legacy_call_names_its_session_and_the_version_agreed_on() -> None:
    headers, body = called(LEGACY, invocation())
    assert (headers["mcp-session-id"], headers["mcp-protocol-version"]) == ("s1", "2025-06-18")
    assert not {"mcp-method", "mcp-name"} & headers.keys()
    assert body["params"] == {"name": "A.B@1.0.0", "arguments": {}, "_meta": {"toolgate/call_id": "c"}}


MIRRORED = [
    (mirrored("string"), {"region": "eu"}, {"mcp-param-region": "eu"}),
    (mirrored("string"), {"region": " eu"}, {"mcp-param-region": "=?base64?IGV1?="}),
    (mirrored("string"), {"region": "a\tb"}, {"mcp-param-region": "=?base64?YQli?="}),
    (mirrored("string"), {"region": "=?base64?YQ==?="}, {"mcp-param-region": "=?base64?PT9iYXNlNjQ/WVE9PT89?="}),
    (mirrored("integer"), {"region": 42}, {"mcp-param-region": "42"}),
    (mirrored("boolean"), {"region": True}, {"mcp-param-region": "true"}),
    (mirrored("string"), {"region": None}, {}),
    (mirrored("string"), {}, {}),
    ({"properties": {"at": mirrored("string")}}, {"at": {"region": "eu"}}, {"mcp-param-region": "eu"}),
    ({"properties": {"at": mirrored("string")}}, {"at": "eu"}, {}),
]


@pytest.mark.parametrize(("schema", "arguments", "expected"), MIRRORED, ids=repr)
def test_mcp_53_headers_repeat_the_arguments_that_the_schema_names(
    schema: dict[str, Any], arguments: dict[str, Any], expected: dict[str, str]
) -> None:
    call = invocation()
    call = replace(call, arguments=arguments, tool=replace(call.tool, input_schema=schema))
    for session, repeated in ((MODERN, expected), (LEGACY, {})):
        headers, _ = called(session, call)
        assert {name: value for name, value in headers.items() if name.startswith("mcp-param-")} == repeated


INVALID = [
    mirrored("number"),
    mirrored("array"),
    mirrored(["string", "null"]),
    mirrored("string", **{"x-mcp-header": ""}),
    mirrored("string", **{"x-mcp-header": "a b"}),
    mirrored("string", **{"x-mcp-header": 1}),
    {"x-mcp-header": "Root", "type": "string"},
    {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
    {"anyOf": [mirrored("string")]},
    {"$defs": {"properties": {"type": "string", "x-mcp-header": "A"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": "R"}, "b": {"type": "string", "x-mcp-header": "r"}}},
]


@pytest.mark.parametrize("schema", INVALID, ids=json.dumps)
def test_mcp_54_a_schema_with_an_invalid_header_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        mcp_server.header_arguments_of(schema)


def test_mcp_54_a_property_or_a_value_of_that_name_is_no_header() -> None:
    schema = {"properties": {"x-mcp-header": {"type": "number", "default": {"x-mcp-header": 1}}}}
    assert mcp_server.header_arguments_of(schema) == []
