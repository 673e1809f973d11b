"""Schemas of tool servers: compiled, checked against, explained."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.schemas import CompiledSchema
from gateway.schemas.compiled import MAX_EXPLAINED, MAX_FINDINGS
from tests.unit.schemas.compiling import DRAFT_4, DRAFT_7, errors, properties

WORDS = [  # the schema of `a`, a value of it, what is said
    ({"type": "string"}, 5, "is not a string"),
    ({"type": ["integer", "null"]}, "x", "is not an integer or null"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, "is neither a string nor null"),
    ({"anyOf": [{"type": "string"}, {"minimum": 9}]}, 5, "is neither a string nor a number of at least 9"),
    (
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        5,
        "is neither a string nor an array of strings",
    ),
    (
        {"oneOf": [{"type": "string"}, {"type": "null"}, {"items": {"enum": [1, 2]}, "type": "array"}]},
        5,
        "has to be exactly one of these: a string, or null, or an array of values, each one of 1,2",
    ),
    (
        {
            "oneOf": [
                {"properties": {"kind": {"const": "circle"}, "r": {}}, "required": ["kind", "r"]},
                {"properties": {"kind": {"const": "square"}, "side": {}}, "required": ["kind", "side"]},
            ]
        },
        {},
        'has to be exactly one of these: an object with kind "circle", r, or an object with kind "square", side',
    ),
    (
        {"anyOf": [{"type": "string"}, {"title": "Anything odd", "not": True}]},
        5,
        "is neither a string nor of another allowed form",
    ),
    (
        {"anyOf": [{"title": "Point", "type": "object"}, {"$ref": "#/$defs/T"}]},
        5,
        "is neither an object (Point) nor true",
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}, {"minimum": 9}]},
        5,
        "is none of these: a string, or null, or a number of at least 9",
    ),
    ({"oneOf": [{"const": 5}, {"const": 5}]}, 5, "has to be exactly one of these: 5"),
    ({"anyOf": [{"not": True}]}, 5, "does not have any of the allowed forms"),
    (
        {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
        5,
        "fits more than one of the allowed forms: an integer, or a number of at least 1",
    ),
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
    ({"prefixItems": [True], "items": False}, [1, 2], "at a[1]: is not allowed"),
    ({"minProperties": 1}, {}, "has fewer than 1 member"),
    ({"maxProperties": 1}, {"x": 1, "y": 2}, "has more than 1 member"),
    ({"uniqueItems": True}, [1, 1], "has repeated items"),
    ({"contains": {"const": 1}}, [2], "has no item that is 1"),
    ({"contains": {"type": "string"}, "minContains": 2}, ["x"], "has fewer than 2 items, each a string"),
    ({"contains": {"type": "string"}, "maxContains": 1}, ["x", "y"], "has more than 1 item that may be a string"),
    ({"pattern": "^[a-z]+$"}, "A", "does not match the pattern ^[a-z]+$"),
    ({"not": {"type": "null"}}, None, "must not be null"),
    ({"not": {}}, None, "has a form that is not allowed"),
    ({"dependentRequired": {"x": ["y"], "z": ["y"]}}, {"x": 1}, "at a.y: is required beside x or z"),
    ({"items": {"properties": {"name": {"type": "string"}}}}, [{}, {"name": 1}], "at a[1].name: is not a string"),
    ({"required": ["x"]}, {}, "at a.x: is required"),
    ({"additionalProperties": False}, {"y": 1, "z": 2}, "at a.y: is not known; at a.z: is not known"),
    ({"unevaluatedProperties": False}, {"y": 1}, "at a.y: is not known"),
    ({"propertyNames": {"maxLength": 1}}, {"yy": 1}, "at a.yy: is not an allowed name: it is longer than 1 character"),
    ({"minLength": 3, "pattern": "^x"}, "y", "is shorter than 3 characters; does not match the pattern ^x"),
]


@pytest.mark.parametrize(("schema", "value", "said"), WORDS)
def test_each_keyword_has_its_words(schema: dict[str, Any], value: Any, said: str) -> None:
    found = errors({**properties(a=schema), "$defs": {"T": {"const": True}}}, {"a": value})
    assert set(found) == {"a"}
    assert sorted(found["a"].split("; ")) == sorted(said.split("; "))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("date", "is not a valid date such as YYYY-MM-DD"),
        ("date-time", "is not a valid date-time such as YYYY-MM-DDThh:mm:ssZ"),
        ("idn-email", "is not a valid idn-email"),
    ],
)
def test_the_form_of_a_format_is_shown(name: str, said: str) -> None:
    assert errors({"$schema": DRAFT_7, **properties(a={"format": name})}, {"a": "yesterday"}) == {"a": said}


def test_the_text_about_a_choice_is_bounded() -> None:
    wide = {"anyOf": [{"required": [f"{'n' * 300}{n}" for n in range(20)]} for _ in range(20)]}
    assert len(errors(properties(a=wide), {"a": {}})["a"]) <= 500


def test_choices_of_choices_are_explained_quickly() -> None:
    """Eight of eight of eight would be 512 forms for each of the 50 errors."""
    member = {"type": "object", "required": ["m"], "properties": {"m": {"enum": list(range(100))}}}
    defs: dict[str, Any] = {"D0": member}
    for level in range(1, 4):
        defs[f"D{level}"] = {"anyOf": [{"$ref": f"#/$defs/D{level - 1}"}] * 8}
    schema = CompiledSchema.compile({**properties(a={"items": {"$ref": "#/$defs/D3"}}), "$defs": defs})
    errors(schema, {"a": [1]})
    started = time.process_time()
    assert len(errors(schema, {"a": [1] * 50})["a"]) == 500
    assert time.process_time() - started < 1  # some milliseconds


def test_every_missing_and_every_unknown_parameter_is_listed() -> None:
    schema = {"properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False}
    assert errors(schema, {"c": 1, "d": 2}) == {
        "a": "is required",
        "b": "is required",
        "c": "is not known",
        "d": "is not known",
    }


def test_errors_of_no_single_parameter_are_under_input() -> None:
    assert errors({"minProperties": 1}, {}) == {"input": "has fewer than 1 member"}


def test_a_failed_choice_among_whole_inputs_is_under_input() -> None:
    schema = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert errors(schema, {}) == {"input": "is neither an object with a nor an object with b"}


@pytest.mark.parametrize("secret", ["hunter2", 424242, ["hunter2"], {"k": "hunter2"}])
@pytest.mark.parametrize(("schema", "_value", "_said"), WORDS)
def test_no_message_holds_the_value(schema: dict[str, Any], _value: Any, _said: str, secret: Any) -> None:
    said = str(errors({**properties(a=schema), "$defs": {"T": {"const": True}}}, {"a": secret}))
    assert "hunter2" not in said
    assert "424242" not in said


def test_errors_are_bounded_in_number_and_length() -> None:
    many = errors(properties(a={"items": {"type": "string"}}), {"a": [1] * 1000})
    assert len(many["a"]) == 500
    unknown = errors({"additionalProperties": False}, {f"p{number}": 1 for number in range(1000)})
    assert len(unknown) == MAX_FINDINGS
    [name] = errors({"additionalProperties": False}, {"n" * 10_000: 1})
    assert len(name) == 100


def test_a_very_large_value_gets_only_its_first_error() -> None:
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
    compiled = CompiledSchema.compile(properties(a=schema))
    assert [value for value in fit if errors(compiled, {"a": value})] == []
    assert [value for value in misfit if not errors(compiled, {"a": value})] == []


def test_what_the_validator_cannot_read_is_an_error_of_the_input() -> None:
    schema = {"$schema": DRAFT_7, **properties(a={"type": "string", "format": "email"})}
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


@pytest.mark.parametrize(
    ("meta_schema", "is_checked"),
    [
        (DRAFT_4, True),
        ("http://json-schema.org/draft-06/schema#", True),
        (DRAFT_7, True),
        ("https://json-schema.org/draft/2019-09/schema", False),
        ("https://json-schema.org/draft/2020-12/schema", False),
        (None, False),
    ],
)
def test_a_format_is_checked_by_the_drafts_that_assert_it(meta_schema: str | None, is_checked: bool) -> None:
    schema = properties(a={"format": "date-time"}) | ({"$schema": meta_schema} if meta_schema else {})
    assert ("a" in errors(schema, {"a": "yesterday"})) is is_checked


@pytest.mark.parametrize("meta_schema", [DRAFT_4, DRAFT_7, None])
def test_choices_with_parts_are_explained_in_every_draft(meta_schema: str | None) -> None:
    schema = properties(a={"anyOf": [{"properties": {"b": {"type": "string"}}}, {"type": "null"}]})
    if meta_schema:
        schema["$schema"] = meta_schema
    assert set(errors(schema, {"a": {"b": 1}})) == {"a"}


def test_a_recursive_tree_is_explained_at_its_first_level() -> None:
    tree = {"properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/Tree"}}}, "required": ["v"]}
    schema = CompiledSchema.compile({"properties": {"root": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}})
    assert errors(schema, {"root": {"v": "x"}}) == {"root": "at root.v: is not an integer"}
    assert errors(schema, {"root": {"v": 1, "kids": [{"v": 1}, {"v": 1, "kids": [{}]}]}}) == {
        "root": "at root.kids[1]: is not an object with v"
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
