"""Batches (2025-03-26, Batching): several messages in one body, each of which goes through everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.protocols.mcp.requests import LEGACY, modern, post, session

pytestmark = pytest.mark.anyio

ECHO = "Echo_Say"
BATCHED = {"mcp-protocol-version": "2025-03-26"}


def message(id_: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def echo(id_: Any) -> dict[str, Any]:
    return message(id_, name=ECHO, arguments={"n": id_})


@pytest.mark.parametrize("headers", [{}, BATCHED])
async def test_mcp_16_each_message_is_answered_in_an_array(caller: Caller, headers: Any) -> None:
    notified = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    refused = [message(3, name="None_Such"), message(4, "none"), {"jsonrpc": "2.0", "id": None, "method": "ping"}]
    answer = await post(
        caller, [echo(1), notified, message("two", "ping"), *refused, message(5, "tools/list")], headers
    )
    assert answer.status_code == 200
    called, pinged, unknown, no_method, no_id, listed = answer.json()
    assert (called["id"], called["result"]["structuredContent"]) == (1, {"n": 1})
    assert pinged == {"jsonrpc": "2.0", "id": "two", "result": {}}
    assert [(it["id"], it["error"]["code"]) for it in (unknown, no_method, no_id)] == [
        (3, -32602),
        (4, -32601),
        (None, -32600),
    ]
    assert (listed["id"], len(listed["result"]["tools"])) == (5, 2)


async def test_mcp_16_the_version_of_a_session_counts_where_no_header_names_one(caller: Caller) -> None:
    for version, status in (("2025-03-26", 200), (LEGACY, 400)):
        begun = await session(caller, version=version)
        answer = await post(caller, [echo(1)], {"mcp-session-id": begun["mcp-session-id"]})
        assert answer.status_code == status


async def test_mcp_16_nothing_is_answered_to_notifications_alone(caller: Caller) -> None:
    answer = await post(caller, [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}] * 2)
    assert (answer.status_code, answer.content) == (202, b"")


REFUSED: list[Any] = [[], [echo(1)] * 21, [[echo(1)]], [echo(1), 1], [message(1, "initialize")]]


@pytest.mark.parametrize("body", REFUSED)
async def test_mcp_16_a_batch_that_is_none_runs_nothing(caller: Caller, server: ToolServer, body: Any) -> None:
    answer = await post(caller, body, BATCHED)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (400, -32600, None)
    assert server.executions == 0


async def test_mcp_16_other_revisions_have_none(caller: Caller, server: ToolServer) -> None:
    headers, body = modern("tools/call", {"name": ECHO, "arguments": {}})
    for more in (headers, {"mcp-protocol-version": LEGACY}, {"mcp-protocol-version": "2025-06-18"}):
        answer = await post(caller, [body], more)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    assert server.executions == 0


async def test_mcp_16_49_each_call_of_a_batch_counts(start: Start, server: ToolServer) -> None:
    limit = {"name": "calls", "key": "caller", "rate": "1/d", "burst": 2, "operations": ["call"]}
    caller = (await start(config({"scripted": server.url}, rate_limits=[limit]))).caller
    answers = (await post(caller, [echo(1), echo(2), echo(3)])).json()
    assert sorted(bool(it["result"].get("isError")) for it in answers) == [False, False, True]
    assert server.executions == 2
