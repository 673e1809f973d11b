"""References by `$id` and anchor: followed within the document, refused with the true reason where they leave it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.schemas import CompiledSchema, SchemaError, check_input, inline_refs
from gateway.schemas.references import local
from tests.unit.schemas.compiling import DRAFT_4, DRAFT_7, errors, properties, violation

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
HERE = "https://example.com/schemas/root.json"
TEXT = {"type": "string"}

FOLLOWED = [  # schemas in which `a` is a string, however they say so
    properties(a={"$ref": "https://example.com/text"}) | {"$defs": {"t": {"$id": "https://example.com/text", **TEXT}}},
    {"$id": HERE, **properties(a={"$ref": "text.json"}), "$defs": {"t": {"$id": "text.json", **TEXT}}},
    {"$id": HERE, **properties(a={"$ref": "/schemas/text.json"}), "$defs": {"t": {"$id": "text.json", **TEXT}}},
    {"$id": HERE, **properties(a={"$ref": f"{HERE}#/$defs/t"}), "$defs": {"t": TEXT}},
    {"$id": HERE, **properties(a={"$ref": "root.json#t"}), "$defs": {"t": {"$anchor": "t", **TEXT}}},
    properties(a={"$ref": "text"}) | {"$defs": {"t": {"$id": "text", **TEXT}}},
    properties(a={"$ref": "urn:example:t#inner"})
    | {"$defs": {"t": {"$id": "urn:example:t", "$defs": {"i": {"$anchor": "inner", **TEXT}}}}},
    # A pointer is relative to the resource in which it stands.
    properties(a={"$id": "inner", "$ref": "#/$defs/t", "$defs": {"t": TEXT}}) | {"$defs": {"t": {"type": "integer"}}},
    properties(a={"$dynamicRef": "#t"}) | {"$defs": {"t": {"$dynamicAnchor": "t", **TEXT}}},
    properties(a={"$ref": "#/x-own/t"}) | {"x-own": {"t": {"$ref": "#t"}}, "$defs": {"t": {"$anchor": "t", **TEXT}}},
    {"$schema": DRAFT_7, **properties(a={"$ref": "#t"}), "definitions": {"t": {"$id": "#t", **TEXT}}},
    {"$schema": DRAFT_7, **properties(a={"$ref": "x#t"}), "definitions": {"t": {"$id": "x#t", **TEXT}}},
    {"$schema": DRAFT_4, **properties(a={"$ref": "text"}), "definitions": {"t": {"id": "text", **TEXT}}},
    {  # beside a reference, an `$id` meant nothing then
        "$schema": DRAFT_7,
        **properties(a={"$id": "elsewhere/", "$ref": "text"}),
        "definitions": {"t": {"$id": "text", **TEXT}},
    },
]


@pytest.mark.parametrize("schema", FOLLOWED)
def test_a_reference_within_the_document_is_followed(schema: dict[str, Any]) -> None:
    compiled = CompiledSchema.compile(schema)
    assert errors(compiled, {"a": "x"}) == {}
    assert errors(compiled, {"a": 1}) == {"a": "is not a string"}


@pytest.mark.parametrize("schema", FOLLOWED)
def test_callers_are_listed_what_is_referred_to(schema: dict[str, Any]) -> None:
    listed = inline_refs(schema)
    assert "$ref" not in str(listed["properties"])
    assert set(errors(listed, {"a": 1})) == {"a"}


def test_a_tree_that_names_itself_is_followed() -> None:
    tree = {"$id": "tree", **properties(v={"type": "integer"}, kids={"items": {"$ref": "tree"}})}
    schema = CompiledSchema.compile(properties(a={"$ref": "tree"}) | {"$defs": {"tree": tree}})
    assert errors(schema, {"a": {"kids": [{"v": 1}]}}) == {}
    assert set(errors(schema, {"a": {"kids": [{"v": "x"}]}})) == {"a"}
    recursive = {"$schema": DRAFT_2019, "$recursiveAnchor": True, **properties(a={"$recursiveRef": "#"})}
    assert set(errors({**recursive, "required": ["b"]}, {"b": 1, "a": {}})) == {"a"}


REFUSED = [
    (
        properties(a={"$ref": "https://example.com/other"}) | {"$id": HERE},
        "It refers to 'https://example.com/other', outside of itself; only local references are followed.",
    ),
    (
        properties(a={"$ref": "text#/$defs/x"}) | {"$defs": {"t": {"$id": "text"}}},
        "It refers to 'text#/$defs/x', which it does not contain.",
    ),
    (
        properties(a={"$ref": "text#x"}) | {"$defs": {"t": {"$id": "text"}, "u": {"$anchor": "x"}}},
        "It refers to 'text#x', which it does not contain.",
    ),
    (
        properties(a={"$ref": "text"}) | {"$defs": {"t": {"$id": "text"}, "u": {"$id": "text"}}},
        "It refers to 'text', and several of its parts have that name.",
    ),
    (
        properties(a={"$ref": "x"}) | {"$defs": {"t": {"$id": "x", "$schema": DRAFT_7}}},
        "A part with an $id of its own names another draft in $schema than the whole.",
    ),
    (
        properties(a={"$dynamicRef": "#t"})
        | {"$defs": {"t": {"$dynamicAnchor": "t"}, "u": {"$id": "u", "$dynamicAnchor": "t"}}},
        "It uses the dynamic reference '#t', which more than one of its parts answer.",
    ),
    (
        {"$schema": DRAFT_7, **properties(a={"$dynamicRef": "#t"})},
        "It uses $dynamicRef, which its draft does not have.",
    ),
    (properties(a={"$recursiveRef": "#"}), "It uses $recursiveRef, which its draft does not have."),
    (
        {"$ref": "a", "$defs": {"a": {"$id": "a", "$ref": "b"}, "b": {"$id": "b", "$ref": "a"}}},
        "It refers to itself without ever looking deeper into the value.",
    ),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED)
def test_what_cannot_be_followed_is_refused_with_the_true_reason(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        check_input(schema)
    assert caught.value.reason == said


def test_a_chain_of_doublings_through_ids_is_refused() -> None:
    chain = {f"d{n}": {"$id": f"d{n}", "allOf": [{"$ref": f"d{n + 1}"}, {"$ref": f"d{n + 1}"}]} for n in range(30)}
    with pytest.raises(SchemaError, match="more than 20000 schemas"):
        check_input({"$ref": "d0", "$defs": {**chain, "d30": {"$id": "d30"}}})


def test_a_document_of_pointers_is_left_as_it_is() -> None:
    schema = {"$id": HERE, **properties(a={"$ref": "#/$defs/t"}), "$defs": {"t": {"const": {"$ref": "#/$defs/t"}}}}
    assert local(schema) is schema


def test_the_document_of_the_tool_server_is_not_changed() -> None:
    before = repr(FOLLOWED)
    for schema in FOLLOWED:
        check_input(schema)
    assert repr(FOLLOWED) == before


IDS = st.sampled_from(["a", "b", "https://example.com/a", "x/"])
NAMED = st.fixed_dictionaries(
    {},
    optional={
        "$id": IDS,
        "$anchor": st.sampled_from(["one", "two"]),
        "$ref": st.sampled_from(["a", "b", "x/a", "#one", "a#two", "#/$defs/A", "#", "https://example.com/a"]),
        "type": st.sampled_from(["string", "integer"]),
    },
)
PARTS = st.recursive(
    NAMED,
    lambda inner: st.builds(
        lambda body, more: {**body, **more},
        NAMED,
        st.fixed_dictionaries({}, optional={"items": inner, "$defs": st.fixed_dictionaries({"A": inner})}),
    ),
    max_leaves=4,
)


@given(
    st.builds(lambda root, a, b: {**root, "$defs": {"A": a, "B": b}}, PARTS, PARTS, PARTS),
    st.sampled_from([1, "x", [1], ["x"], [[1]], [["x"]], [], None]),
)
def test_what_is_followed_leads_where_the_validator_is_led(schema: dict[str, Any], value: Any) -> None:
    try:
        compiled = CompiledSchema.compile(schema)
    except SchemaError:
        return
    assert (violation(compiled, value) is None) is jsonschema_rs.is_valid(schema, value, offline=True)
