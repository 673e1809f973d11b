"""Schemas of tool servers: compiled, checked against, explained, inlined."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.schemas import InputSchema, OutputSchema, SchemaError, inline_refs
from gateway.schemas.compiled import MAX_EXPLAINED, MAX_FINDINGS

QUICK_S = 5.0  # of a processor; a tenth of a second at most does, and minutes for what doubles or is squared
NO_PATTERN = "the pattern is no regular expression, or takes too much room"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
EXPRESSION = {
    "type": "object",
    "properties": {"e": {"$ref": "#/$defs/Expression"}},
    "$defs": {
        "Expression": {"anyOf": [{"$ref": "#/$defs/Add"}, {"$ref": "#/$defs/Not"}]},
        "Add": {"properties": {"op": {"const": "add"}, "x": {"$ref": "#/$defs/Expression"}}, "required": ["op"]},
        "Not": {"properties": {"op": {"const": "not"}, "x": {"$ref": "#/$defs/Expression"}}, "required": ["op"]},
    },
}


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


def errors(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    return InputSchema.compile(schema).errors(arguments)


def nested(levels: int, innermost: Any, **members: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = {**members, "x": value}
    return value


def reason(schema: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        InputSchema.compile(schema)
    return caught.value.reason


WORDS = [  # the schema of `a`, a value of it, what is said
    ({"type": "string"}, 5, "is not a string"),
    ({"type": ["integer", "null"]}, "x", "is not an integer or null"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, "is not a string or null"),
    ({"anyOf": [{"type": "string"}, {"minimum": 9}]}, 5, "does not have any of the allowed forms"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 5, "fits more than one of the allowed forms"),
    ({"enum": ["red", "green"]}, "blue", 'is not one of "red","green"'),
    ({"const": {"k": 1}}, 5, 'is not {"k":1}'),
    ({"minimum": 3}, 2, "is less than 3"),
    ({"maximum": 1.5}, 2, "is greater than 1.5"),
    ({"exclusiveMinimum": 3}, 3, "is not greater than 3"),
    ({"exclusiveMaximum": 3}, 3, "is not less than 3"),
    ({"multipleOf": 0.01}, 1.234, "is not a multiple of 0.01"),
    ({"minLength": 2}, "x", "is shorter than 2 characters"),
    ({"maxLength": 1}, "xx", "is longer than 1 character"),
    ({"minItems": 1}, [], "has fewer than 1 item"),
    ({"maxItems": 1}, [1, 2], "has more than 1 item"),
    ({"prefixItems": [True], "items": False}, [1, 2], "at a[1]: does not have any of the allowed forms"),
    ({"minProperties": 1}, {}, "has fewer than 1 member"),
    ({"maxProperties": 1}, {"x": 1, "y": 2}, "has more than 1 member"),
    ({"uniqueItems": True}, [1, 1], "has repeated items"),
    ({"contains": {"const": 1}}, [2], "does not have the right number of the items it must contain"),
    ({"pattern": "^[a-z]+$"}, "A", "does not match the pattern ^[a-z]+$"),
    ({"format": "date"}, "yesterday", "is not a valid date"),
    ({"not": {"type": "null"}}, None, "has a form that is not allowed"),
    ({"items": {"properties": {"name": {"type": "string"}}}}, [{}, {"name": 1}], "at a[1].name: is not a string"),
    ({"required": ["x"]}, {}, "at a.x: is required"),
    ({"additionalProperties": False}, {"y": 1, "z": 2}, "at a.y: is not known; at a.z: is not known"),
    ({"unevaluatedProperties": False}, {"y": 1}, "at a.y: is not known"),
    ({"propertyNames": {"maxLength": 1}}, {"yy": 1}, "at a.yy: is not an allowed name"),
    ({"minLength": 3, "pattern": "^x"}, "y", "is shorter than 3 characters; does not match the pattern ^x"),
]


@pytest.mark.parametrize(("schema", "value", "said"), WORDS)
def test_each_keyword_has_its_words(schema: dict[str, Any], value: Any, said: str) -> None:
    told = errors(properties(a=schema), {"a": value})
    assert set(told) == {"a"}
    assert sorted(told["a"].split("; ")) == sorted(said.split("; "))


def test_valid_arguments_have_no_errors() -> None:
    assert errors(properties(a={"type": "integer"}), {"a": 1}) == {}


def test_every_missing_and_every_unknown_parameter_is_told() -> None:
    schema = {"properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False}
    assert errors(schema, {"c": 1, "d": 2}) == {
        "a": "is required",
        "b": "is required",
        "c": "is not known",
        "d": "is not known",
    }


def test_what_is_wrong_with_no_single_parameter_is_told_of_the_input() -> None:
    assert errors({"minProperties": 1}, {}) == {"input": "has fewer than 1 member"}


def test_a_failed_choice_among_whole_inputs_is_told_of_the_input() -> None:
    schema = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert errors(schema, {}) == {"input": "does not have any of the allowed forms"}


@pytest.mark.parametrize("secret", ["hunter2", 424242, ["hunter2"], {"k": "hunter2"}])
@pytest.mark.parametrize(("schema", "_value", "_said"), WORDS)
def test_no_message_holds_the_value(schema: dict[str, Any], _value: Any, _said: str, secret: Any) -> None:
    said = str(errors(properties(a=schema), {"a": secret}))
    assert "hunter2" not in said
    assert "424242" not in said


def test_errors_are_bounded_in_number_and_length() -> None:
    many = errors(properties(a={"items": {"type": "string"}}), {"a": [1] * 1000})
    assert len(many["a"]) == 500
    unknown = errors({"additionalProperties": False}, {f"p{number}": 1 for number in range(1000)})
    assert len(unknown) == MAX_FINDINGS
    [name] = errors({"additionalProperties": False}, {"n" * 10_000: 1})
    assert len(name) == 100


def test_of_a_very_large_value_only_the_first_error_is_told() -> None:
    started = time.process_time()
    assert errors(properties(a={"items": {"type": "string"}}), {"a": [1] * MAX_EXPLAINED * 250}) == {
        "a": "at a[0]: is not a string"
    }
    assert time.process_time() - started < 1  # 4 s when every error is made, and 0.01 s when one is


HUGE = 10**4299  # 4,300 digits, the longest integer that is read
EXACT = [  # the schema of `a`, values that fit, values that do not
    ({"multipleOf": 3}, [HUGE - 1, -(HUGE - 1)], [HUGE, -HUGE]),
    ({"maximum": 10**30}, [10**30, -HUGE], [10**30 + 1, HUGE]),
    ({"minimum": -(10**30)}, [-(10**30), HUGE], [-(10**30) - 1]),
    ({"enum": [2**53]}, [2**53], [2**53 + 1]),
    ({"const": 10**30}, [10**30], [10**30 + 1]),
    ({"type": "integer"}, [HUGE, -HUGE], [0.5]),
    ({"uniqueItems": True}, [[HUGE, HUGE - 1]], [[HUGE, HUGE]]),
]


@pytest.mark.parametrize(("schema", "fit", "misfit"), EXACT)
def test_integers_are_exact_up_to_4300_digits(schema: dict[str, Any], fit: list[Any], misfit: list[Any]) -> None:
    compiled = InputSchema.compile(properties(a=schema))
    assert [value for value in fit if compiled.errors({"a": value})] == []
    assert [value for value in misfit if not compiled.errors({"a": value})] == []


def test_what_the_validator_cannot_read_is_an_error_of_the_input() -> None:
    schema = properties(a={"type": "string", "format": "email"})
    assert errors(schema, {"a": "\ud800"}) == {"input": "holds something that cannot be checked"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"minimum": 3, "exclusiveMinimum": True}}, "$schema": DRAFT_4}, 3),
        (
            {"type": "object", "properties": {"a": {"items": [{}], "additionalItems": False}}, "$schema": DRAFT_7},
            [1, 2],
        ),
        ({"type": "object", "properties": {"a": {"prefixItems": [{}], "items": False}}}, [1, 2]),
    ],
)
def test_the_draft_is_the_one_the_schema_names(schema: dict[str, Any], value: Any) -> None:
    assert set(errors(schema, {"a": value})) == {"a"}


@pytest.mark.parametrize("meta_schema", [DRAFT_4, DRAFT_7, None])
def test_choices_with_parts_are_explained_in_every_draft(meta_schema: str | None) -> None:
    schema = properties(a={"anyOf": [{"properties": {"b": {"type": "string"}}}, {"type": "null"}]})
    if meta_schema:
        schema["$schema"] = meta_schema
    assert set(errors(schema, {"a": {"b": 1}})) == {"a"}


BROKEN = [
    ([], "It is not a JSON object."),
    (True, "It is not a JSON object."),
    ({1: 2}, "It has a key that is not a text."),
    ({"type": "array"}, "It does not describe an object, and arguments always are one."),
    (properties(a={"minLength": "x"}), 'At properties.a.minLength: the value is not of type "integer".'),
    (properties(a={"pattern": "("}), f"At properties.a.pattern: {NO_PATTERN}."),
    (properties(a={"pattern": "(a{1000}){1000}"}), f"At properties.a.pattern: {NO_PATTERN}."),
    (
        properties(a={"$ref": "https://example.com/s"}),
        "It refers to 'https://example.com/s', outside of itself; only local references are followed.",
    ),
    (
        properties(a={"$ref": "file:///etc/passwd"}),
        "It refers to 'file:///etc/passwd', outside of itself; only local references are followed.",
    ),
    (properties(a={"$ref": "#/$defs/b"}), "It refers to '#/$defs/b', which it does not contain."),
    (properties(a={"$ref": "#b"}), "It refers to '#b', which it does not contain."),
    (properties(a={"$dynamicRef": "#b"}), "It uses dynamic references, which are not supported."),
    (properties(a={"$ref": "#/properties/a/x/0"}), "It refers to '#/properties/a/x/0', which it does not contain."),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$id": "https://example.com/a"}}},
        "It nests another schema resource ($id) and uses $ref, which is not supported.",
    ),
]


@pytest.mark.parametrize(("schema", "said"), BROKEN)
def test_a_broken_schema_is_refused_with_a_sentence(schema: Any, said: str) -> None:
    assert reason(schema) == said


def test_an_unknown_meta_schema_is_refused() -> None:
    assert "https://example.com/mine" in reason({"$schema": "https://example.com/mine"})


def test_a_schema_that_nests_without_end_is_refused() -> None:
    assert reason(nested(200, {})) == "It is nested deeper than 150 levels."
    assert reason(nested(100_000, {})) == "It is nested deeper than 150 levels."


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_chain_of_doublings_is_refused(keyword: str) -> None:
    """Thirty steps make the validator look a thousand million times: 13 s."""
    chain = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(30)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d30": {"type": "object"}}}
    assert reason(schema) == "It makes more than 20000 schemas look at one value."


def test_a_long_chain_of_references_is_refused() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert "150 schemas" in reason({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}})


def test_references_spelled_in_many_ways_do_not_multiply_the_work() -> None:
    spelled = {f"p{n}": {"$ref": "#/$defs/" + "".join(_spelled(n))} for n in range(2000)}
    started = time.process_time()
    InputSchema.compile({"properties": spelled, "$defs": {"abcdefghijk": properties(**spelled)}})
    assert time.process_time() - started < QUICK_S


def _spelled(number: int) -> list[str]:
    return [f"%{ord(c):x}" if number >> place & 1 else c for place, c in enumerate("abcdefghijk")]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"not": {"$ref": "#"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{}, {"$ref": "#/$defs/a"}]}}},
    ],
)
def test_a_schema_that_is_defined_by_itself_is_refused(schema: dict[str, Any]) -> None:
    """The specification leaves it undefined, and so does the validator: order decides what it answers."""
    assert reason(schema) == "It refers to itself without ever looking deeper into the value."


@pytest.mark.parametrize("value", ["a" * 200_000 + "!", "a" * 30 + "!"])
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!x)(a+)+$"])
def test_no_pattern_takes_long(pattern: str, value: str) -> None:
    schema = InputSchema.compile(properties(a={"pattern": pattern}))
    started = time.process_time()
    assert set(schema.errors({"a": value})) == {"a"}
    assert time.process_time() - started < QUICK_S


def test_patterns_with_look_around_work() -> None:
    schema = InputSchema.compile(properties(a={"pattern": "^(?!admin$)[a-z]+$"}))
    assert schema.errors({"a": "bob"}) == {}
    assert set(schema.errors({"a": "admin"})) == {"a"}


def test_a_wrong_value_of_a_recursive_union_is_explained_in_no_time() -> None:
    """The library's own errors hold a tree that doubles with each level: 2.2 s at 14, hours at 30."""
    schema = InputSchema.compile(EXPRESSION)
    value = nested(60, {"op": "?"}, op="not")
    started = time.process_time()
    assert schema.errors({"e": value}) == {"e": "does not have any of the allowed forms"}
    assert time.process_time() - started < QUICK_S


def test_a_recursive_tree_is_explained_at_its_first_level() -> None:
    tree = {"properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/Tree"}}}, "required": ["v"]}
    schema = InputSchema.compile({"properties": {"root": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}})
    assert schema.errors({"root": {"v": "x"}}) == {"root": "at root.v: is not an integer"}
    assert schema.errors({"root": {"v": 1, "kids": [{"v": 1}, {"v": 1, "kids": [{}]}]}}) == {
        "root": "at root.kids[1]: does not have any of the allowed forms"
    }


def test_explaining_keeps_what_choices_have_evaluated() -> None:
    choice = {"anyOf": [{"properties": {"b": {"type": "object", "properties": {}}}}, {"required": ["c"]}]}
    schema = properties(a={**choice, "unevaluatedProperties": False})
    assert errors(schema, {"a": {"b": {}, "z": 1}}) == {"a": "at a.z: is not known"}


def test_references_into_a_choice_are_explained_too() -> None:
    schema = properties(
        a={"anyOf": [{"type": "object", "properties": {"x": {"type": "string"}}}, {"type": "null"}]},
        b={"$ref": "#/properties/a/anyOf/0"},
    )
    assert errors(schema, {"b": {"x": 1}}) == {"b": "at b.x: is not a string"}


@pytest.mark.parametrize(
    "schema",
    [
        properties(a={"$ref": "#b"}, b={"$anchor": "b", "type": "string"}),
        {"$schema": DRAFT_7, **properties(a={"$ref": "#b"}, b={"$id": "#b", "type": "string"})},
    ],
)
def test_references_to_anchors_are_followed(schema: dict[str, Any]) -> None:
    assert errors(schema, {"a": 1}) == {"a": "is not a string"}


def test_a_chain_of_doublings_through_anchors_is_refused() -> None:
    chain = [{"$anchor": f"d{n}", "allOf": [{"$ref": f"#d{n + 1}"}, {"$ref": f"#d{n + 1}"}]} for n in range(30)]
    schema = {"$ref": "#d0", "$defs": {str(n): link for n, link in enumerate([*chain, {"$anchor": "d30"}])}}
    assert reason(schema) == "It makes more than 20000 schemas look at one value."


def test_an_output_may_be_any_value() -> None:
    schema = OutputSchema.compile({"type": "array", "items": {"type": "integer"}})
    assert schema.violation([1, 2]) is None
    assert schema.violation([1, "x"]) == "at [1]: is not an integer"
    assert schema.violation({"a": 1}) == "is not an array"
    assert OutputSchema.compile({}).violation(None) is None


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
        properties(a={"$ref": "#b"}, b={"$anchor": "b", "type": "string"}),
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
        compiled = OutputSchema.compile(schema)
    except SchemaError:
        return
    violation = compiled.violation(value)
    assert (violation is None) is jsonschema_rs.is_valid(schema, value, offline=True)
    explaining = compiled._explaining
    if explaining is not None:
        assert explaining.is_valid(value) is (violation is None)


@given(
    st.recursive(st.none() | st.text() | st.floats(allow_nan=False), lambda inner: st.dictionaries(st.text(), inner))
)
def test_whatever_is_sent_as_a_schema_is_compiled_or_refused(schema: Any) -> None:
    with contextlib.suppress(SchemaError):
        InputSchema.compile(schema)
