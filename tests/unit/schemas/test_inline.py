"""Schemas without references: as good as the original; and whatever is sent as one is compiled or refused."""

from __future__ import annotations

import contextlib
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.schemas import CompiledSchema, SchemaError, check_input, inline_refs
from tests.unit.schemas.compiling import DRAFT_7, properties, violation

INLINED = [  # schema, the same without references
    (properties(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": {"type": "string"}}}, properties(a={"type": "string"})),
    (
        properties(a={"$ref": "#/$defs/b", "title": "Ours"}) | {"$defs": {"b": {"type": "string", "title": "Its"}}},
        properties(a={"type": "string", "title": "Ours"}),
    ),
    (
        properties(a={"$ref": "#/$defs/b", "minLength": 2}) | {"$defs": {"b": {"minLength": 1}}},
        properties(a={"minLength": 2, "allOf": [{"minLength": 1}]}),
    ),
    (  # before 2019-09 what stands beside a reference is ignored
        {"$schema": DRAFT_7, **properties(a={"$ref": "#/definitions/b", "minLength": 2}), "definitions": {"b": {}}},
        {"$schema": DRAFT_7, **properties(a={})},
    ),
    (
        {"$schema": DRAFT_7, "$ref": "#/definitions/Add", "definitions": {"Add": properties(a={"type": "string"})}},
        {"$schema": DRAFT_7, **properties(a={"type": "string"})},
    ),
    (
        properties(a={"$ref": "#/properties/b/items"}, b={"items": {"type": "string"}}),
        properties(a={"type": "string"}, b={"items": {"type": "string"}}),
    ),
    (
        properties(a={"$ref": "#/$defs/~1%25~0"}) | {"$defs": {"/%~": {"const": {"$ref": "#/kept"}}}},
        properties(a={"const": {"$ref": "#/kept"}}),
    ),
    (properties(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": False}}, properties(a={"allOf": [False]})),
]


@pytest.mark.parametrize(("schema", "inlined"), INLINED)
def test_local_references_are_replaced(schema: dict[str, Any], inlined: dict[str, Any]) -> None:
    assert inline_refs(schema) == inlined


def test_recursive_definitions_stay_and_others_go() -> None:
    tree = {"items": {"$ref": "#/$defs/Tree"}, "contains": {"$ref": "#/$defs/Leaf"}}
    schema = properties(a={"$ref": "#/$defs/Tree"}) | {"$defs": {"Tree": tree, "Leaf": {"type": "string"}}}
    assert inline_refs(schema) == properties(a={"$ref": "#/$defs/Tree"}) | {
        "$defs": {"Tree": {"items": {"$ref": "#/$defs/Tree"}, "contains": {"type": "string"}}}
    }


@pytest.mark.parametrize(
    "schema",
    [
        properties(a={"$id": "https://example.com/a", "type": "string"}),
        properties(a={"$ref": "https://example.com/a"}),
        properties(a={"$ref": "#/missing"}),
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{
                    f"d{n}": properties(x={"$ref": f"#/$defs/d{n + 1}"}, y={"$ref": f"#/$defs/d{n + 1}"})
                    for n in range(20)
                },
                "d20": {},
            },
        },
    ],
)
def test_what_cannot_be_inlined_is_left_as_it_is(schema: dict[str, Any]) -> None:
    assert inline_refs(schema) == schema


def test_inlining_leaves_the_original_alone() -> None:
    schema = properties(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": {"items": {"$ref": "#/$defs/c"}}, "c": {}}}
    before = repr(schema)
    inline_refs(schema)
    assert repr(schema) == before


REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#/$defs/C", "#", "#/$defs/A/properties/a"])
LEAVES = st.one_of(
    REFS.map(lambda ref: {"$ref": ref}),
    st.sampled_from(
        [{"type": "string"}, {"type": "integer"}, {"type": "object"}, {"minimum": 3}, {"required": ["b"]}, {}]
    ),
)


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": named,
            "items": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "additionalProperties": st.booleans() | inner,
            "unevaluatedProperties": st.booleans(),
            "title": st.just("A title"),
            "$ref": REFS,
        },
    )


SCHEMAS = st.recursive(LEAVES, _larger, max_leaves=6)
DOCUMENTS = st.builds(
    lambda body, a, b, c, draft: {
        **body,
        **draft,
        "$defs": {"A": {"properties": {"a": a}}, "B": b, "C": c},
    },
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
    st.sampled_from([{}, {"$schema": DRAFT_7}]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", 10**40]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(DOCUMENTS, st.lists(VALUES, max_size=5))
def test_a_value_fits_the_inlined_schema_as_it_fits_the_original(schema: dict[str, Any], values: list[Any]) -> None:
    inlined = inline_refs(schema)
    one = jsonschema_rs.validator_for(schema, offline=True)
    other = jsonschema_rs.validator_for(inlined, offline=True)
    assert [one.is_valid(value) for value in values] == [other.is_valid(value) for value in values]


@given(DOCUMENTS, VALUES)
def test_explaining_agrees_with_checking_and_never_raises(schema: dict[str, Any], value: Any) -> None:
    try:
        compiled = CompiledSchema.compile(schema)
    except SchemaError:
        return
    is_valid = violation(compiled, value) is None
    assert is_valid is jsonschema_rs.is_valid(schema, value, offline=True)
    explaining = compiled._explaining
    if explaining is not None:
        assert explaining[0].is_valid(value) is is_valid


@settings(max_examples=30)
@given(
    st.recursive(st.none() | st.text() | st.floats(allow_nan=False), lambda inner: st.dictionaries(st.text(), inner))
)
def test_whatever_is_sent_as_a_schema_is_compiled_or_refused(schema: Any) -> None:
    with contextlib.suppress(SchemaError):
        check_input(schema)
