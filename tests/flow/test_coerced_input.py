"""Routes that loosen the check of arguments (`validate_input`), in every dialect and to every kind of tool server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.test_authorize import deciding
from tests.flow.toolserver import ToolServer, object_of, tool
from tests.protocols.mcp.requests import call
from tests.protocols.mcp.server_double import Talk, serving

pytestmark = pytest.mark.anyio

NUMBERS = {"type": "array", "items": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "of": NUMBERS, "note": {"type": "string"}}}
SENT, FITTED = {"n": "7", "of": "[1, 2]", "note": None}, {"n": 7, "of": [1, 2]}


async def at(start: Start, server: ToolServer, check: str, schema: Any = SCHEMA, **sections: Any) -> Caller:
    server.tools = [tool("Count.All", input_schema=schema)]
    route = {"tools": "*", "backend": "scripted", "validate_input": check}
    return (await start(config({"scripted": server.url}, [route], **sections))).caller


async def test_arguments_take_the_form_of_the_schema(start: Start, server: ToolServer) -> None:
    caller = await at(start, server, "coerce")
    assert (await caller.call("oxp", "Count.All", SENT)).value == FITTED
    refused = await caller.call("oxp", "Count.All", {"n": "seven", "of": "[1, 2]"})
    assert (refused.status, refused.document["parameter_errors"].keys()) == (422, {"n"})
    assert len(server.calls) == 1


async def test_what_is_refused_strictly_and_what_is_sent_unchecked(start: Start, server: ToolServer) -> None:
    assert (await (await at(start, server, "strict")).call("oxp", "Count.All", SENT)).status == 422
    assert not server.calls
    caller = await at(start, server, "off")
    for arguments in (SENT, {"n": "seven", "none": [None]}, {"of": list(range(20_000))}):
        assert (await caller.call("oxp", "Count.All", arguments)).value == arguments


async def test_a_call_is_the_same_call_only_in_the_form_that_its_caller_sent(start: Start, server: ToolServer) -> None:
    caller = await at(start, server, "coerce")
    for _ in range(2):
        assert (await caller.call("oxp", "Count.All", SENT, call_id="k")).value == FITTED
    assert (await caller.call("oxp", "Count.All", FITTED, call_id="k")).status == 400
    assert len(server.calls) == 1


async def test_much_is_put_right_in_another_process(start: Start, server: ToolServer) -> None:
    """Large arguments, and small ones under a schema that is not compiled on the event loop."""
    many = list(range(30_000))
    caller = await at(start, server, "coerce")
    assert (await caller.call("oxp", "Count.All", {"n": "1", "of": many})).value == {"n": 1, "of": many}
    assert (await caller.call("oxp", "Count.All", {"of": json.dumps(many)})).value == {"of": many}
    schema = object_of(**{f"a{number}": {"type": ["integer", "null"]} for number in range(1000)}) | {"required": []}
    caller = await at(start, server, "coerce", schema)
    assert (await caller.call("oxp", "Count.All", {"a7": "7"})).value == {"a7": 7}
    assert (await caller.call("oxp", "Count.All", {"a7": "x"})).document["parameter_errors"].keys() == {"a7"}


async def test_an_mcp_server_gets_what_its_schema_says_from_callers_of_mcp(start: Start) -> None:
    async def listing(talk: Talk) -> None:
        await talk.answer({"tools": [{"name": "count", "inputSchema": SCHEMA}]})

    async def echo(talk: Talk) -> None:
        await talk.answer({"content": [], "structuredContent": talk.message["params"]["arguments"]})

    async with serving("legacy", echo, {"tools/list": listing}) as double:
        route = {"tools": "*", "backend": "far", "validate_input": "coerce"}
        backend = {"protocol": "mcp", "url": double.url, "toolkit": "Far"}
        caller = (await start(config({"far": backend}, [route]))).caller
        assert (await call(caller, "Far_count", SENT)).json()["result"]["structuredContent"] == FITTED


async def test_the_operators_service_decides_on_what_is_sent(start: Start, server: ToolServer) -> None:
    async with deciding() as policy:
        authorize = {"url": policy.url, "cache": "0s", "with_arguments": True}
        caller = await at(start, server, "coerce", authorize=authorize)
        assert (await caller.call("oxp", "Count.All", SENT)).value == FITTED
        assert [asked["arguments"] for asked in policy.asked] == [FITTED]
