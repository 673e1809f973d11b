"""What callers of MCP are answered: an MCP server's results as they came, and long lists without needless copies."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from gateway.calls.records import pack, unpack
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, JsonObject, ToolDefinition, ToolFailure, ToolResult
from gateway.core.wire import Head
from gateway.protocols.mcp.callers.answers import McpEncoder
from gateway.protocols.mcp.servers.results import tool_result
from gateway.protocols.mcp.wire import LEGACY, MODERN

DEFINITION = ToolDefinition(
    tool="Map.Show",
    version="1.0.0",
    name="Map_Show",
    description="",
    input_schema={},
    output_schema={},
    remote_id="show",
)
INVOCATION = Invocation(call_id="tg-1", tool=DEFINITION, arguments={}, timeout_s=1.0)
TEXT = {"type": "text", "text": '{"a": 1.50}', "annotations": {"audience": ["user"], "priority": 1}}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png", "_meta": {"vendor/x": 1}}

RESULTS: dict[str, JsonObject] = {
    "a text": {"content": [TEXT]},
    "nothing": {"content": []},
    "several blocks": {"content": [TEXT, IMAGE, {"type": "resource_link", "uri": "file:///a", "name": "a"}]},
    "a value": {"content": [TEXT], "structuredContent": {"a": 1.5}},
    "a value beside an image": {"content": [IMAGE], "structuredContent": {"b": None, "a": [1, {}]}},
    "a wrapped value": {
        "content": [{"type": "text", "text": "3"}],
        "structuredContent": {"result": 3},
        "_meta": {"fastmcp": {"wrap_result": True}},
    },
    "a failure": {"content": [TEXT, IMAGE], "isError": True},
}
MODERN_ONLY: dict[str, JsonObject] = {
    f"the value {value}": {"content": [], "structuredContent": value} for value in (None, False, 0, "", 42, "x", [1])
}


def direct(result: ToolResult) -> ToolResult:
    return result


def kept(result: ToolResult) -> ToolResult:
    found = unpack(pack(result))
    assert isinstance(found, ToolResult)
    return found


@pytest.mark.parametrize("way", [direct, kept])
@pytest.mark.parametrize("json_text", [False, True])
@pytest.mark.parametrize(
    ("revision", "sent"),
    [(revision, sent) for revision in (MODERN, LEGACY[0]) for sent in RESULTS.values()]
    + [(MODERN, sent) for sent in MODERN_ONLY.values()],
)
def test_mcp_34_what_an_mcp_server_answers_is_passed_on_as_it_came(
    way: Callable[[ToolResult], ToolResult], json_text: bool, revision: str, sent: JsonObject
) -> None:
    result = way(tool_result(sent, INVOCATION, json_text=json_text, trust_meta=False))
    body = McpEncoder(wire_version=revision, id=1).encode_result(result, "c").body
    told: dict[str, Raw] = msgspec.json.decode(body, type=dict[str, Raw])
    answered: dict[str, Raw] = msgspec.json.decode(told["result"], type=dict[str, Raw])
    for member in ("content", "structuredContent", "isError"):
        assert (member in answered) is (member in sent)
        if member in sent:
            assert bytes(answered[member]) == encode(sent[member])


@pytest.mark.parametrize("value", [Raw(b'{"a":[1,2]}'), {"a": [1, 2]}])
def test_a_value_that_is_still_text_is_encoded_as_the_value_is(value: Any) -> None:
    body = McpEncoder(wire_version=MODERN, id="x").encode_result(ToolResult(value=value), "c").body
    result = msgspec.json.decode(body)["result"]
    assert result["content"] == [{"type": "text", "text": '{"a":[1,2]}'}]
    assert result["structuredContent"] == {"a": [1, 2]}
    assert result["_meta"]["toolgate/call_id"] == "c"


@pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
def test_a_long_list_is_copied_once_for_an_answer(revision: str) -> None:
    encoder = McpEncoder(wire_version=revision, id=1, is_call=False)
    joined = encoder.join([encoder.encode_definition(DEFINITION)] * 1000)
    tracemalloc.start()
    reply = encoder.encode_list(joined, Head(method="POST", path="/mcp", headers={}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(msgspec.json.decode(reply.body)["result"]["tools"]) == 1000
    assert peak <= 1.2 * len(reply.body)


@pytest.mark.parametrize("revision", [MODERN, *LEGACY])
def test_a_failure_says_where_the_user_can_authorize_the_call(revision: str) -> None:
    challenges = [{"id": "a", "url": "https://login.example/a"}, {"id": "b"}, "c"]
    failure = ToolFailure(message="Not yet.", extras={"missing_requirements": {"authorization": challenges}})
    answer = msgspec.json.decode(McpEncoder(wire_version=revision).encode_result(ToolResult(failure=failure), "c").body)
    texts = [block["text"] for block in answer["result"]["content"]]
    assert texts == ["Not yet.", "The user can authorize it at https://login.example/a"]
