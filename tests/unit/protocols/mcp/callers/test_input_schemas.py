"""Input schemas as MCP lists them (2026-07-28, Tool; what the large clients refuse at the root of a schema)."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.model import JsonObject, ToolDefinition
from gateway.core.tool_names import DefinitionError
from gateway.protocols.mcp.callers.input_schemas import COMPOSITIONS, compatible, without_header_names
from gateway.protocols.mcp.callers.tools import tool_object

NAMES = ("a", "b", "c")
ABSENT = object()
VALUES: tuple[JsonObject, ...] = tuple(
    {name: value for name, value in zip(NAMES, values, strict=True) if value is not ABSENT}
    for values in product((ABSENT, 1, "x", None), repeat=len(NAMES))
)

LEAVES: tuple[Any, ...] = (
    {"type": "integer"},
    {"type": "string"},
    {"const": 1},
    {},
    True,
    False,
    {"$ref": "#/$defs/D"},
)
MEMBERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(LEAVES), max_size=3)
REQUIRED = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    """Schemas of objects with compositions."""
    several = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", ["object", "null"]]),
            "properties": MEMBERS,
            "required": REQUIRED,
            "additionalProperties": st.sampled_from([False, {"type": "string"}]),
            "patternProperties": st.just({"^a": {"type": "integer"}}),
            "unevaluatedProperties": st.just(False),
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), REQUIRED, max_size=1),
            "$ref": st.sampled_from(["#/$defs/D", "#/$defs/E", "#/$defs/None"]),
        },
    )


SCHEMAS = objects(st.recursive(st.booleans() | objects(st.booleans()), objects, max_leaves=4))
DEFINITIONS = {"D": {"type": "integer"}, "E": {"properties": {"a": {"type": "string"}}, "required": ["b"]}, "None": {}}


@given(schema=SCHEMAS, draft=st.sampled_from(["2020-12", "7"]))
@settings(max_examples=50, deadline=None)
def test_mcp_29_every_valid_value_fits_the_listed_schema(schema: JsonObject, draft: str) -> None:
    """Ours: the root is a plain object with properties, whatever it is made of; no value is refused for that."""
    uri = {"2020-12": "https://json-schema.org/draft/2020-12/schema", "7": "http://json-schema.org/draft-07/schema#"}
    schema = {"$schema": uri[draft], **schema, "$defs": DEFINITIONS}
    listed = compatible(schema)
    assert listed["type"] == "object"
    assert isinstance(listed["properties"], dict)
    assert not listed.keys() & set(COMPOSITIONS)
    is_valid, fits = jsonschema_rs.validator_for(schema).is_valid, jsonschema_rs.validator_for(listed).is_valid
    for value in VALUES:
        assert fits(value) or not is_valid(value), (value, listed)


SHAPE = {"type": "string"}
LISTED: dict[str, tuple[JsonObject, JsonObject]] = {
    "no arguments": ({}, {"type": "object", "properties": {}}),
    "alternatives that allow no others": (
        {
            "anyOf": [
                {"properties": {"a": SHAPE}, "required": ["a"], "additionalProperties": False},
                {"properties": {"a": {"type": "integer"}, "b": SHAPE}, "required": ["b", "a"]},
            ]
        },
        {
            "type": "object",
            "properties": {"a": {"anyOf": [SHAPE, {"type": "integer"}]}, "b": SHAPE},
            "required": ["a"],
        },
    ),
    "an alternative that says nothing of a member": (
        {"oneOf": [{"properties": {"a": SHAPE}}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": {"anyOf": [SHAPE, {}]}}},
    ),
    "parts": (
        {"allOf": [{"properties": {"a": SHAPE}, "required": ["a"]}, {"properties": {"b": SHAPE}}], "required": ["b"]},
        {"type": "object", "properties": {"a": SHAPE, "b": SHAPE}, "required": ["b", "a"]},
    ),
    "a condition": (
        {
            "properties": {"a": SHAPE},
            "if": {"required": ["a"]},
            "then": {"required": ["b"]},
            "not": {"required": ["c"]},
        },
        {"type": "object", "properties": {"a": SHAPE}},
    ),
    "a recursive root": (
        {"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}}},
        {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}},
        },
    ),
    "members that a composition has allowed": (
        {"unevaluatedProperties": False, "allOf": [{"allOf": [{"patternProperties": {"^a": SHAPE}}]}]},
        {"type": "object", "properties": {}},
    ),
    "a reference into what is taken off": (
        {"anyOf": [{"properties": {"a": {"$ref": "#/anyOf/0"}}}]},
        {"type": "object", "properties": {"a": {}}},
    ),
}


@pytest.mark.parametrize("case", LISTED.values(), ids=LISTED)
def test_mcp_29_a_listed_root_is_a_plain_object(case: tuple[JsonObject, JsonObject]) -> None:
    schema, listed = case
    assert compatible(schema) == listed


def test_header_names_are_taken_off_wherever_a_schema_is() -> None:
    """Spec: 2026-07-28, Custom Headers: clients drop a tool with a misplaced one. Ours: none are compared."""
    schema = {
        "properties": {
            "x-mcp-header": {"type": "string", "x-mcp-header": "A"},
            "list": {"items": {"x-mcp-header": "B"}},
        },
        "examples": [{"x-mcp-header": "a value"}],
    }
    assert without_header_names(schema) == {
        "properties": {"x-mcp-header": {"type": "string"}, "list": {"items": {}}},
        "examples": [{"x-mcp-header": "a value"}],
    }


def definition(**members: Any) -> ToolDefinition:
    known: dict[str, Any] = {
        "tool": "Map.Show",
        "version": "1.2.0",
        "name": "Map_Show",
        "description": "",
        "input_schema": {},
        "output_schema": {},
        "remote_id": "Map.Show",
    }
    return ToolDefinition(**(known | members))


def test_an_exact_schema_is_listed_as_it_is() -> None:
    schema = {"anyOf": [{"required": ["a"]}], "properties": {"a": {"x-mcp-header": "A"}, "b c": {}}}
    listed = tool_object(definition(input_schema=schema), exact=True)["inputSchema"]
    assert listed == {"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {}, "b c": {}}}


@pytest.mark.parametrize("name", ["b c", "", "ä", "n" * 65])
def test_a_tool_that_costs_clients_their_whole_list_is_left_out(name: str) -> None:
    """Ours: the model APIs take names of arguments of `[A-Za-z0-9_.-]{1,64}`, or refuse all tools."""
    with pytest.raises(DefinitionError):
        tool_object(definition(input_schema={"anyOf": [{"properties": {name: {}}}]}))


OUTPUTS: list[tuple[JsonObject | None, bool, bool, bool]] = [  # schema, enforced; listed for modern, for legacy
    ({"type": "object"}, True, True, True),
    ({"type": "string"}, True, True, False),
    ({"anyOf": [{"type": "object"}]}, True, True, False),
    ({"type": "object"}, False, False, False),
    ({}, True, False, False),
    (None, True, False, False),
]


@pytest.mark.parametrize(("schema", "enforced", "modern", "legacy"), OUTPUTS)
def test_mcp_30_output_schemas_are_listed_only_where_they_are_enforced(
    schema: JsonObject | None, enforced: bool, modern: bool, legacy: bool
) -> None:
    """Spec: legacy, Tool: an output schema has `type: object` at its root. Ours: clients drop results that break it."""
    tool = definition(output_schema=schema, enforces_output=enforced)
    assert ("outputSchema" in tool_object(tool)) is modern
    assert ("outputSchema" in tool_object(tool, is_modern=False)) is legacy


def test_a_tool_is_listed_with_all_that_mcp_can_say() -> None:
    hints = {"read_only": True, "destructive": False, "idempotent": True, "open_world": False}
    assert tool_object(definition(title="Show a map", hints=hints)) == {
        "name": "Map_Show",
        "title": "Show a map",
        "description": "Show a map",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "_meta": {"toolgate/id": "Map.Show@1.2.0"},
    }
