"""Arguments in another form than their schema has it: what becomes of them. None of it is specified."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gateway.schemas import CompiledSchema

INTEGER, STRING, NUMBERS = {"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"type": "number"}}
POINT = {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}, "required": ["x"], "additionalProperties": False}
TREE = {"type": "object", "properties": {"v": INTEGER, "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
CIRCLE, SQUARE = ({"properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in ("circle", "square"))
SHAPES = [
    {**CIRCLE, "properties": {**CIRCLE["properties"], "size": STRING}},  # type: ignore[dict-item]
    {**SQUARE, "properties": {**SQUARE["properties"], "size": INTEGER}},  # type: ignore[dict-item]
]
FITTED: dict[str, tuple[Any, Any, Any]] = {  # the schema of one member, what was sent, and what becomes of it
    "an array": (NUMBERS, "[1, 2.5]", [1, 2.5]),
    "an object": (POINT, '{"x": 1}', {"x": 1}),
    "an integer of any size": (INTEGER, "1" + "0" * 40, 10**40),
    "a number": ({"type": "number"}, "-1.5e3", -1500.0),
    "a boolean": ({"type": "boolean"}, "true", True),
    "a value of an enum": ({"enum": [1, "2", 3]}, "3", 3),
    "deep inside": ({"type": "array", "items": POINT}, [{"x": "1"}, '{"x": "2", "y": "3"}'],
                    [{"x": 1}, {"x": 2, "y": 3}]),
    "strings in a string": ({"type": "array", "items": STRING}, '["1", "2"]', ["1", "2"]),
    "positions": ({"prefixItems": [STRING, INTEGER], "items": NUMBERS}, ["1", "1", "[1]"], ["1", 1, [1]]),
    "of draft 7": ({"items": [STRING, INTEGER], "additionalItems": NUMBERS}, ["1", "1", "[1]"], ["1", 1, [1]]),
    "optional by anyOf": ({"anyOf": [NUMBERS, {"type": "null"}]}, "[1]", [1]),
    "the branch that its kind names": ({"oneOf": SHAPES}, {"kind": "square", "size": "7"},
                                       {"kind": "square", "size": 7}),
    "parts of allOf": ({"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": NUMBERS}}]},
                       {"a": "1", "b": "[]"}, {"a": 1, "b": []}),
    "a condition": ({"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": INTEGER}}},
                    {"a": 1, "b": "2"}, {"a": 1, "b": 2}),
    "a recursive reference": ({"$ref": "#/$defs/tree"}, {"v": "1", "below": '[{"v": "2"}]'},
                              {"v": 1, "below": [{"v": 2}]}),
    "names by pattern": ({"patternProperties": {"^n_": INTEGER}, "additionalProperties": NUMBERS},
                         {"n_1": "1", "m": "[1]"}, {"n_1": 1, "m": [1]}),
    "a string that its pattern refuses": ({"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, INTEGER]}, "42", 42),
    "a null that may be left out": (POINT, {"x": 1, "y": None}, {"x": 1}),
}  # fmt: skip
UNCHANGED: dict[str, tuple[Any, Any]] = {
    "a string that is allowed": ({"type": ["string", "array"]}, "[1]"),
    "a string in a union": ({"anyOf": [STRING, INTEGER]}, "1"),
    "a null that is allowed": ({"properties": {"y": {"type": ["string", "null"]}}}, {"y": None}),
    "a null in a union": ({"properties": {"y": {"anyOf": [STRING, {"type": "null"}]}}}, {"y": None}),
    "a required null": (POINT, {"x": None}),
    "an unknown null": (POINT, {"x": 1, "z": None}),
    "a null in a map": ({"additionalProperties": STRING}, {"label": None}),
    "a null in an array": ({"type": "array", "items": STRING}, [None]),
    "the word null": (INTEGER, "null"),
    "no JSON": (INTEGER, "seven"),
    "JSON of another type": (INTEGER, "[1]"),
    "an object that lacks something": (POINT, '{"y": 1}'),
    "not a number of JSON": ({"type": "number"}, "NaN"),
    "a number for a string": (STRING, 1),
    "one for a list": (NUMBERS, 1),
    "a value of two branches": ({"oneOf": [INTEGER, {"type": "number"}]}, "1"),
    "nested too deep": ({"type": "array"}, "[" * 64 + "]" * 64),
}


def whole(member: Any) -> CompiledSchema:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"} if "additionalItems" in member else {}
    return CompiledSchema({**draft, "type": "object", "properties": {"a": member}, "$defs": {"tree": TREE}})


def coerced(schema: CompiledSchema, value: Any) -> Any:
    """As the event loop and the other process have it; neither changes what it was given."""
    before, size = copy.deepcopy(value), len(json.dumps(value))
    here = schema.coerced_now(value, size)
    assert repr(schema.coerced(value)) == repr(here)
    assert repr(value) == repr(before)
    return here


@pytest.mark.parametrize(("member", "sent", "fitted"), FITTED.values(), ids=FITTED)
def test_a_value_takes_the_form_of_its_schema(member: Any, sent: Any, fitted: Any) -> None:
    schema = whole(member)
    result = coerced(schema, {"a": sent, "other": "[1]"})
    assert repr(result) == repr({"a": fitted, "other": "[1]"})
    assert schema.findings(result) == []
    assert coerced(schema, result) == result


@pytest.mark.parametrize(("member", "sent"), UNCHANGED.values(), ids=UNCHANGED)
def test_what_has_no_other_form_stays(member: Any, sent: Any) -> None:
    assert repr(coerced(whole(member), {"a": sent})) == repr({"a": sent})


def test_what_is_wrong_beside_it_does_not_keep_a_value_from_its_form() -> None:
    schema = CompiledSchema({"properties": {"a": INTEGER, "b": INTEGER}, "required": ["c"]})
    assert coerced(schema, {"a": "1", "b": "x"}) == {"a": 1, "b": "x"}


def test_work_is_bounded_whatever_the_schema_and_the_value() -> None:
    """Unions in unions: every branch reads the string anew. The event loop leaves it to the other process early."""
    member: Any = INTEGER
    for _ in range(4):
        member = {"anyOf": [{"type": "array", "items": member}] * 5}
    text = "x"
    for _ in range(4):
        text = json.dumps([text] * 3)
    schema = CompiledSchema.compile({"properties": {"a": member}})
    assert schema.coerced_now({"a": text}, len(text)) is None
    assert schema.coerced({"a": text}) == {"a": text}


def test_a_long_value_and_a_large_schema_are_left_to_the_other_process() -> None:
    schema = CompiledSchema({"properties": {"a": NUMBERS}})
    assert schema.coerced_now({"a": "[1]"}, 20) == {"a": [1]}
    assert schema.coerced_now({"a": f"[{'1,' * 60_000}1]"}, 120_003) is None
    wide = CompiledSchema({"properties": {f"a{number}": NUMBERS for number in range(1000)}})
    assert wide.coerced_now({"a1": "[1]"}, 20) is None
    assert wide.findings_now({"a1": "[1]"}, 20) is None
