"""Schemas of many tools: references are replaced as everywhere, and what many have stands and is kept once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.jsontext import encode
from gateway.core.model import JsonObject
from gateway.protocols.openapi.document.plan import CallPlan, OperationTool
from gateway.protocols.openapi.document.tools import Restorer, SchemaParts
from gateway.schemas import SharedInliner, inline_refs

NAMES = ("A", "B", "C")
REFERENCES = st.sampled_from([f"#/$defs/{name}" for name in NAMES])
LEAVES = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({}, optional={"type": st.just("string"), "description": st.text(max_size=3)}),
    st.fixed_dictionaries(
        {"$ref": REFERENCES},
        optional={"description": st.just("d"), "maximum": st.just(1), "items": st.just({"$ref": "#/$defs/C"})},
    ),
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "$ref", "allOf"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.just([{"$ref": "#/$defs/A"}, 1, True, 1.0]),
        },
    )


SCHEMAS = st.recursive(LEAVES, _around, max_leaves=6)


@settings(max_examples=20)
@given(body=_around(SCHEMAS), defs=st.fixed_dictionaries(dict.fromkeys(NAMES, SCHEMAS)))
def test_references_are_replaced_as_for_every_other_tool(body: JsonObject, defs: JsonObject) -> None:
    inliner, schema = SharedInliner(64 * 1024), {**body, "$defs": defs}
    found, usual = inliner.inlined(schema), inline_refs(schema)
    if found is not None and usual is not schema:
        assert found == {key: value for key, value in usual.items() if key != "$defs"}  # of what nothing refers to
    assert inliner.inlined(schema) == found


def test_what_is_recursive_or_grows_or_is_in_another_dialect_keeps_its_references() -> None:
    inliner = SharedInliner(1000)
    large = {"enum": ["x" * 300]}
    for schema in (
        {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"not": {"$ref": "#/$defs/A"}}}},
        {"allOf": [{"$ref": "#/$defs/L"}] * 4, "$defs": {"L": large}},
        {"$ref": "#/$defs/N", "$defs": {}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/L", "$defs": {"L": large}},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
    ):
        assert inliner.inlined(schema) is None
    chain = {f"D{number}": {"items": {"$ref": f"#/$defs/D{number + 1}"}} for number in range(70)}
    assert inliner.inlined({"$ref": "#/$defs/D0", "$defs": {**chain, "D70": {}}}) is None
    assert inliner.inlined({"anyOf": [{"$ref": "#/$defs/T"}], "$defs": {"T": {"type": "null"}}}) == {
        "anyOf": [{"type": "null"}]
    }


def tool(schema: JsonObject, output: JsonObject | None) -> OperationTool:
    return OperationTool(
        tool="Shop.get",
        version="1.0.0",
        name="Shop_get",
        description="",
        input_schema=schema,
        output_schema=output,
        remote_id="GET /",
        plan=CallPlan(method="GET", path="/"),
    )


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 1), st.sampled_from([0.0, 1.0, -1.5]), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=3)


@settings(max_examples=20)
@given(st.lists(st.tuples(OBJECTS, st.none() | OBJECTS), max_size=4))
def test_tools_are_restored_as_they_were(schemas: list[tuple[JsonObject, JsonObject | None]]) -> None:
    tools, parts, restorer = [tool(*each) for each in schemas], SchemaParts(), Restorer()
    short = [encode(parts.shortened(each)) for each in tools]
    assert not [one for text in parts.encoded() for one in restorer.tools(text)]
    found = [one for text in short for one in restorer.tools(b"[%b]" % text)]
    assert found == tools
    assert [_sorted(one) for one in found] == [_sorted(one) for one in tools]  # `True == 1 == 1.0` here


def _sorted(of: OperationTool) -> str:
    def told(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{key!r}:{told(inner)}" for key, inner in sorted(value.items())) + "}"
        return "[" + ",".join(map(told, value)) + "]" if isinstance(value, list) else repr(value)

    return told([of.input_schema, of.output_schema])


def test_equal_parts_of_all_tools_are_one_object() -> None:
    parts, restorer = SchemaParts(), Restorer()
    schemas: list[JsonObject] = [{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}} for _ in range(3)]
    short = [encode(parts.shortened(tool(schema, schema["properties"]["a"]))) for schema in schemas]
    (texts,) = parts.encoded()
    assert texts == b'[[{"type":"string"},{}],[{},{"a":0,"b":0}],[{},{"properties":1}]]'
    restorer.tools(texts)
    first, second, _ = [one for text in short for one in restorer.tools(b"[%b]" % text)]
    assert first.input_schema is second.input_schema
    assert first.input_schema["properties"]["b"] is second.output_schema


@pytest.mark.parametrize("schema", [{}, {"a": []}, {"a": [[{}], {"b": None}]}])
def test_empty_parts_are_parts_too(schema: JsonObject) -> None:
    parts, restorer = SchemaParts(), Restorer()
    text = encode(parts.shortened(tool(schema, None)))
    for part in parts.encoded():
        restorer.tools(part)
    (found,) = restorer.tools(b"[%b]" % text)
    assert (found.input_schema, found.output_schema) == (schema, None)
