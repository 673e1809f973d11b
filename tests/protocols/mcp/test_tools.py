"""The tools that callers of MCP see and what calls of them return (2026-07-28 and 2025-11-25, Tools)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer, object_of, tool
from tests.protocols.mcp.requests import ask, call, call_in, modern, post, session
from tests.streams import Request
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

STRING = {"type": "string"}
UNKNOWN = -32602


async def tools_of(caller: Caller, path: str = "/mcp") -> dict[str, dict[str, Any]]:
    """What a modern caller is listed, by name."""
    headers, body = modern("tools/list", {})
    listed = (await post_to(caller, path, body, headers))["result"]["tools"]
    assert len({each["name"] for each in listed}) == len(listed)
    return {each["name"]: each for each in listed}


async def post_to(caller: Caller, path: str, body: Any, headers: Mapping[str, str]) -> Any:
    known = {} if caller.token is None else {"authorization": f"Bearer {caller.token}"}
    sent = {"content-type": "application/json", "accept": "application/json", **known, **headers}
    return (await caller.http.post(path, content=json.dumps(body).encode(), headers=sent)).json()


async def legacy_tools_of(caller: Caller) -> dict[str, dict[str, Any]]:
    answer = await post(caller, {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}, await session(caller))
    return {each["name"]: each for each in answer.json()["result"]["tools"]}


MAPS = [tool("Map.Show@1.0.0"), tool("Map.Show@1.10.0"), tool("Map.Show@1.9.0"), tool("Map.Hide"), tool("Echo.Say")]


async def test_mcp_22_a_list_is_one_page_of_the_newest_versions(start: Start, server: ToolServer) -> None:
    server.tools = MAPS
    caller = (await start(config({"scripted": server.url}))).caller
    listed = await tools_of(caller)
    ids = {name: each["_meta"]["toolgate/id"] for name, each in listed.items()}
    assert list(ids.items()) == [
        ("Echo_Say", "Echo.Say@1.0.0"),
        ("Map_Hide", "Map.Hide@1.0.0"),
        ("Map_Show", "Map.Show@1.10.0"),
    ]
    assert (await ask(caller, "tools/list", {})).content == (await ask(caller, "tools/list", {})).content
    for cursor in ("", "x", 1):
        assert (await ask(caller, "tools/list", {"cursor": cursor})).json()["error"]["code"] == UNKNOWN


async def test_mcp_22_all_versions_have_names_of_their_own(start: Start, server: ToolServer) -> None:
    server.tools = MAPS
    caller = (await start(config({"scripted": server.url}, mcp={"versions": "all"}))).caller
    names = ["Echo_Say", "Map_Hide", "Map_Show_v1_0_0", "Map_Show_v1_9_0", "Map_Show"]
    assert list(await tools_of(caller)) == names
    for name in (*names, "Map_Show_v1_10_0", "Map.Show", "Map.Show@1.9.0"):
        await call(caller, name)
    called = [received.call["tool_id"] for received in server.calls]
    assert called == [
        "Echo.Say@1.0.0",
        "Map.Hide@1.0.0",
        *(f"Map.Show@1.{minor}.0" for minor in (0, 9, 10, 10, 10, 9)),
    ]


async def test_mcp_23_a_list_varies_by_scopes_only(start: Start, server: ToolServer) -> None:
    server.tools = MAPS
    routes = [
        {"tools": "Map.Show@1.10.0", "backend": "scripted", "scopes": ["beta"]},
        {"tools": "*", "backend": "scripted"},
    ]
    caller = (await start(config({"scripted": server.url}, routes, auth={"jwt": [{"secret": SECRET}]}))).caller
    one, other, trying = (
        caller.with_token(token(subject, scope=scope)) for subject, scope in (("a", None), ("b", None), ("c", "beta"))
    )
    plain = await ask(one, "tools/list", {})
    assert plain.json()["result"] | {"tools": []} == {
        "resultType": "complete",
        "tools": [],
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": plain.json()["result"]["_meta"],
    }
    assert (await ask(other, "tools/list", {})).content == plain.content
    assert (await tools_of(one))["Map_Show"]["_meta"]["toolgate/id"] == "Map.Show@1.9.0"
    assert (await tools_of(trying))["Map_Show"]["_meta"]["toolgate/id"] == "Map.Show@1.10.0"


async def test_mcp_28_names_are_unique_and_of_what_all_clients_take(start: Start, server: ToolServer) -> None:
    server.tools = [
        tool("A.B_C"),
        tool("A_B.C"),
        tool(f"Long.{'n' * 80}"),
        tool("Odd-Kit.it-self"),
        tool("A.B_C@2.0.0"),
    ]
    caller = (await start(config({"scripted": server.url}, mcp={"versions": "all"}))).caller
    listed = await tools_of(caller)
    assert len(listed) == 5
    for name, each in listed.items():
        assert name.replace("_", "a").isalnum()
        assert name.isascii()
        assert len(name) <= 64
        assert (await call(caller, name)).json()["result"].get("isError") is None
        assert server.calls[-1].call["tool_id"].replace("-", "_") == each["_meta"]["toolgate/id"]
    by_id = {each["_meta"]["toolgate/id"]: name for name, each in listed.items()}
    assert by_id["A.B_C@2.0.0"] == "A_B_C"


async def test_one_toolkit_has_an_endpoint_of_its_own(start: Start, server: ToolServer) -> None:
    """Ours: for clients that take few tools. What is listed there can be called there, and nothing else."""
    server.tools = [*MAPS, tool("Map_Show.It")]
    caller = (await start(config({"scripted": server.url}))).caller
    assert list(await tools_of(caller, "/mcp/Map")) == ["Map_Hide", "Map_Show"]
    assert await tools_of(caller, "/mcp/Nothing") == {}
    for name, is_there in (("Map_Hide", True), ("Map.Show@1.9.0", True), ("Echo_Say", False), ("Map_Show_It", False)):
        headers, body = modern("tools/call", {"name": name})
        answer = await post_to(caller, "/mcp/Map", body, headers)
        assert ("result" in answer) is is_there
        assert is_there or answer["error"]["code"] == UNKNOWN
    assert len(server.calls) == 2
    assert list(await tools_of(caller, "/mcp/Map/")) == ["Map_Hide", "Map_Show"]
    assert await tools_of(caller, "/mcp/") == await tools_of(caller, "/mcp")
    for path in ("/mcp//", "/mcp/Map/Show", "/mcp/M-p", "/mcp/M%C3%A4p"):
        assert (await caller.http.post(path, json=body)).status_code == 404
    refused = await caller.http.get("/mcp/Map")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_mcp_27_instructions_are_the_operators_and_the_toolkits(start: Start, server: ToolServer) -> None:
    server.form = "lc"
    mail = tool("Mail.Send", toolkit={"name": "Mail", "description": "Sends\n mail."})
    server.tools = [mail, tool("Echo.Say"), tool("Door.Ring", toolkit={"name": "Door", "description": "Rings."})]
    backend = {"protocol": "otc", "url": server.url}
    caller = (await start(config({"scripted": backend}, mcp={"instructions": "Prices are in euros."}))).caller
    headers, body = modern("server/discover", {})
    everything = "Prices are in euros.\n\nDoor: Rings.\n\nMail: Sends mail."
    assert (await post_to(caller, "/mcp", body, headers))["result"]["instructions"] == everything
    of_one = "Prices are in euros.\n\nMail: Sends mail."
    assert (await post_to(caller, "/mcp/Mail", body, headers))["result"]["instructions"] == of_one
    begun = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    assert (await post_to(caller, "/mcp/Mail", body | begun, {}))["result"]["instructions"] == of_one


async def test_mcp_29_calls_are_checked_against_the_true_schema(start: Start, server: ToolServer) -> None:
    either = {"type": "object", "oneOf": [{"properties": {"a": STRING}, "required": ["a"]}, {"required": ["b"]}]}
    server.tools = [tool("Map.Show", input_schema=either)]
    caller = (await start(config({"scripted": server.url}))).caller
    assert (await tools_of(caller))["Map_Show"]["inputSchema"].keys() == {"type", "properties"}
    assert (await call(caller, "Map_Show", {"a": "x"})).json()["result"]["structuredContent"] == {"a": "x"}
    assert (await call(caller, "Map_Show", {"c": 1})).json()["result"]["isError"] is True
    assert len(server.calls) == 1


async def test_a_tool_that_clients_could_not_take_is_left_out_with_a_warning(
    start: Start, server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.tools = [tool("Odd.Tool", input_schema=object_of(**{"a b": STRING})), tool("Echo.Say")]
    caller = (await start(config({"scripted": server.url}))).caller
    assert list(await tools_of(caller)) == ["Echo_Say"]
    assert "a tool is left out of the lists of a dialect" in caplog.messages
    assert (await call(caller, "Odd_Tool", {"a b": "x"})).json()["result"]["structuredContent"] == {"a b": "x"}
    assert len((await caller.list("oxp")).ids) == 2


VALUES: list[tuple[Any, str | None]] = [  # and the text that models read
    (None, None),
    ("x", "x"),
    ("", ""),
    (42, "42"),
    (False, "false"),
    ([1, "é"], '[1,"é"]'),
    ({"a": {}}, '{"a":{}}'),
]


def texts_of(result: Mapping[str, Any]) -> list[str]:
    assert all(block["type"] == "text" for block in result["content"])
    return [block["text"] for block in result["content"]]


@pytest.mark.parametrize(("value", "text"), VALUES)
async def test_mcp_34_values_are_texts_and_objects_are_structured(
    start: Start, server: ToolServer, value: Any, text: str | None
) -> None:
    """Spec: legacy: structuredContent is an object. Ours: other values only where an output schema is listed."""

    async def answer(received: Request) -> bytes:
        return server.value(received, value)

    server.handler = answer
    server.tools = [
        tool("Any.Thing"),
        tool("Promised.Thing", output_schema={"type": ["object", "null", "string", "number", "array", "boolean"]}),
    ]
    routes = [{"tools": "*", "backend": "scripted", "validate_output": "fail"}]
    caller = (await start(config({"scripted": server.url}, routes))).caller
    begun = await session(caller)
    is_object = isinstance(value, dict)
    for name, is_structured in (("Any_Thing", is_object), ("Promised_Thing", True)):
        assert ("outputSchema" in (await tools_of(caller))[name]) is (name == "Promised_Thing")
        results = [
            (await call(caller, name)).json()["result"],
            (await call_in(caller, begun, name, id_=len(name))).json()["result"],
        ]
        for result, shows in zip(results, (is_structured, is_object), strict=True):
            assert texts_of(result) == ([] if text is None else [text])
            assert ("structuredContent" in result) is shows
            assert not shows or result["structuredContent"] == value
    assert "outputSchema" not in (await legacy_tools_of(caller))["Promised_Thing"]


async def test_mcp_33_a_failure_is_for_models_and_has_no_structured_content(start: Start, server: ToolServer) -> None:
    async def fail(received: Request) -> bytes:
        hint = {"additional_prompt_content": "Try 3.", "developer_message": "line 7", "retry_after_ms": 5}
        return server.failure(received, message="No such map.", can_retry=True, **hint)

    server.handler = fail
    caller = (await start(config({"scripted": server.url}))).caller
    result = (await call(caller, "Echo_Say")).json()["result"]
    assert texts_of(result) == ["No such map.", "Try 3."]
    assert result["isError"] is True
    assert "structuredContent" not in result
    told = result["_meta"]["toolgate/error"]
    assert told["developer_message"] == "line 7"
    assert (told["can_retry"], told["retry_after_ms"]) == (True, 5)


async def test_mcp_31_invalid_arguments_are_named_to_the_model(caller: Caller, server: ToolServer) -> None:
    result = (await call(caller, "Count_Up", {"n": "x"})).json()["result"]
    [text] = texts_of(result)
    assert result["isError"] is True
    assert "\n- n: is not an integer" in text
    assert result["_meta"]["toolgate/error"]["parameter_errors"] == {"n": "is not an integer"}
    assert server.calls == []


async def test_mcp_32_unknown_and_forbidden_tools_are_told_apart_as_elsewhere(start: Start, server: ToolServer) -> None:
    """An API key gets no challenge, and so a forbidden tool does not exist for it."""
    routes = [{"tools": "Echo.*", "backend": "scripted", "scopes": ["talk"]}, {"tools": "*", "backend": "scripted"}]
    caller = (await start(config({"scripted": server.url}, routes, auth={"jwt": [{"secret": SECRET}]}))).caller
    known = caller.with_token(token(sub="a"))
    unknown = await call(known, "Nothing_There")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, UNKNOWN)
    assert (await call(known, "Echo_Say")).status_code == 403
    assert list(await tools_of(known)) == ["Count_Up"]
    assert server.calls == []
