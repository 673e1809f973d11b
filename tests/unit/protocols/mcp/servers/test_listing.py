"""What becomes of the tools that an MCP server lists: names, definitions, and those that are left out."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.core.model import AuthorizationRequirement, Requirements, ToolDefinition
from gateway.protocols.common import listing as listings
from gateway.protocols.mcp.callers.tools import tool_object
from gateway.protocols.mcp.servers.listing import read_tools

OBJECT = {"type": "object"}


def read(*tools: Any, trust_meta: bool = False, **members: Any) -> tuple[listings.Summary, list[ToolDefinition]]:
    text = json.dumps({"tools": tools, **members}).encode()
    bounds = listings.Bounds("notes", "Notes", 50, 10_000, trust_meta=trust_meta)
    summary, *parts = read_tools(encode(bounds), text)
    return listings.decode_summary(summary), [tool for part in parts for tool in listings.decode_tools(part)]


def one(**members: Any) -> ToolDefinition:
    (found,) = read({"name": "find.it", "inputSchema": OBJECT, **members})[1]
    return found


def test_mcp_28_a_name_is_taken_whole_and_never_apart() -> None:
    """A dot and an @ mean nothing in it; the server is asked for by its own name."""
    _, found = read(*({"name": name, "inputSchema": OBJECT} for name in ("admin.tools.list", "get@2", "größe")))
    assert [(tool.id, tool.remote_id) for tool in found] == [
        ("Notes.admin_tools_list@1.0.0", "admin.tools.list"),
        ("Notes.get_2@1.0.0", "get@2"),
        ("Notes.gr__e@1.0.0", "größe"),
    ]


def test_mcp_28_names_that_become_one_are_told_apart_alike_in_any_order() -> None:
    names = ["a.b", "a_b", "a-b"]
    seen = set()
    for order in itertools.permutations(names):
        _, found = read(*({"name": name, "inputSchema": OBJECT} for name in order))
        seen.add(tuple(sorted((tool.remote_id, tool.tool) for tool in found)))
    ((dash, dot, under),) = seen
    assert dash == ("a-b", "Notes.a_b")  # the first in byte order
    assert dot[1].startswith("Notes.a_b_")
    assert under[1].startswith("Notes.a_b_")
    assert dot[1] != under[1]


def test_mcp_55_a_name_that_is_listed_twice_counts_once() -> None:
    summary, found = read({"name": "a", "title": "one"}, {"name": "a", "title": "two"})
    assert [tool.title for tool in found] == ["one"]
    assert summary.rejected[0].reason == "its name stands in the list more than once; the first counts"


def test_a_definition_says_what_the_tool_says() -> None:
    schema = {**OBJECT, "$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"n": {"type": "number"}}}
    hints = {"readOnlyHint": True, "destructiveHint": "no", "title": "Old"}
    found = one(inputSchema=schema, annotations=hints, icons=[{}], _meta={"ui": {}}, outputSchema=OBJECT)
    assert found.input_schema == schema
    assert (found.output_schema, found.title, found.description) == (OBJECT, "Old", "Old")
    assert found.hints == {"read_only": True}
    assert one().description == "find.it"
    assert one().output_schema == {}


def test_a_wrapped_output_is_promised_unwrapped() -> None:
    wrapped = {**OBJECT, "properties": {"result": {"$ref": "#/$defs/n"}}, "$defs": {"n": {}}}
    assert one(outputSchema=wrapped).output_schema == wrapped
    marked = wrapped | {"x-fastmcp-wrap-result": True}
    assert one(outputSchema=marked).output_schema == {"$ref": "#/$defs/n", "$defs": {"n": {}}}


LEFT_OUT: list[tuple[Any, str, str]] = [
    (7, "number 2 of the list", "a listed tool is not an object"),
    ({}, "number 2 of the list", "a listed tool has no name of 1 to 256 characters"),
    ({"name": "x" * 257}, "x" * 256, "a listed tool has no name of 1 to 256 characters"),
    ({"name": "x", "inputSchema": []}, "x", "its input schema is not an object"),
    ({"name": "x", "inputSchema": {"type": "string"}}, "x", "its input schema is not of type object"),
    (
        {"name": "x", "execution": {"taskSupport": "required"}},
        "x",
        "it runs only as a task of revision 2025-11-25, which is not spoken",
    ),
    (
        {"name": "x", "inputSchema": {**OBJECT, "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}},
        "x",
        "an x-mcp-header stands at an argument that is no integer, string or boolean",
    ),
]


@pytest.mark.parametrize(("entry", "shown", "reason"), LEFT_OUT, ids=[reason for _, _, reason in LEFT_OUT])
def test_mcp_54_55_a_tool_that_cannot_be_used_is_left_out_alone(entry: Any, shown: str, reason: str) -> None:
    summary, found = read({"name": "a"}, entry, {"name": "b"})
    assert [tool.remote_id for tool in found] == ["a", "b"]
    assert [(rejected.id, rejected.reason) for rejected in summary.rejected] == [(shown, reason)]


def test_another_toolgate_is_believed_only_if_told() -> None:
    """What the surface lists comes back as it was."""
    needs = Requirements(authorization=(AuthorizationRequirement(id="google", scopes=("mail",)),), secrets=("key",))
    origin = ToolDefinition(
        tool="Mail.Send",
        version="2.1.0",
        name="Mail_Send",
        description="Sends.",
        input_schema=OBJECT,
        output_schema={},
        remote_id="send",
        requires=needs,
    )
    listed = tool_object(origin)
    ((believed,), (plain,)) = (read(listed, trust_meta=trust)[1] for trust in (True, False))
    assert (believed.id, believed.requires, believed.remote_id) == ("Mail.Send@2.1.0", needs, "Mail_Send")
    assert (plain.id, plain.requires) == ("Notes.Mail_Send@1.0.0", Requirements())


@pytest.mark.parametrize("id_", ["x", "A.B", "A.B@1", "A.B.C@1.0.0", 7, "A" * 300 + ".B@1.0.0"], ids=str)
def test_an_id_that_no_toolgate_gives_is_passed_over(id_: Any) -> None:
    assert read({"name": "a", "_meta": {"toolgate/id": id_}}, trust_meta=True)[1][0].id == "Notes.a@1.0.0"


@pytest.mark.parametrize(
    ("ttl_ms", "fresh_s"), [(1500, 1.5), (0, 0.0), (-1, 0.0), (10**12, 86_400.0), ("1", None), (None, None)]
)
def test_mcp_73_a_list_says_how_long_it_is_good_for(ttl_ms: Any, fresh_s: float | None) -> None:
    assert read(ttlMs=ttl_ms)[0].fresh_s == fresh_s
