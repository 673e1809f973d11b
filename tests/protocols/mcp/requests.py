"""Requests of MCP as its callers of both eras write them, said here once more apart from the gateway's own codec."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from tests.flow.caller import Caller

MODERN, LEGACY = "2026-07-28", "2025-11-25"
OPENS_URLS: Mapping[str, Any] = {"elicitation": {"url": {}}}
NOTHING: Mapping[str, str] = {}


def modern(method: str, params: Mapping[str, Any], capabilities: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a modern request."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {} if capabilities is None else capabilities,
        **params.get("_meta", {}),
    }
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


async def post(
    caller: Caller, body: Any, headers: Mapping[str, str] = NOTHING, *, method: str = "POST", path: str = "/mcp"
) -> httpx.Response:
    """Sends anything to the endpoint, with the credential of the caller."""
    known = {} if caller.token is None else {"authorization": f"Bearer {caller.token}"}
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream", **known}
    return await caller.http.request(method, path, content=json.dumps(body).encode(), headers={**usual, **headers})


async def ask(
    caller: Caller, method: str, params: Mapping[str, Any], *, capabilities: Any = None, headers: Any = NOTHING
) -> httpx.Response:
    """Sends a modern request."""
    written, body = modern(method, params, capabilities)
    return await post(caller, body, {**written, **headers})


async def call(caller: Caller, name: str, arguments: Any = None, **more: Any) -> httpx.Response:
    """Calls a tool as a modern caller; `more` as in `ask`."""
    return await ask(caller, "tools/call", {"name": name, "arguments": arguments or {}}, **more)


async def session(caller: Caller, capabilities: Any = None, version: str = LEGACY) -> dict[str, str]:
    """The headers of a legacy session that has begun."""
    offered = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    answer = await post(caller, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": offered})
    assert answer.json()["result"]["protocolVersion"] == version
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version}


async def call_in(
    caller: Caller, session: Mapping[str, str], name: str, arguments: Any = None, id_: int = 1
) -> httpx.Response:
    """Calls a tool as a legacy caller."""
    params = {"name": name, "arguments": arguments or {}}
    return await post(caller, {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}, session)
