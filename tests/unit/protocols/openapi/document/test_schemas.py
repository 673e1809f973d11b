"""Schemas of documents as JSON Schema 2020-12, and what each keyword becomes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.plan import OperationError
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.converting import converted
from tests.unit.protocols.openapi.document.documents import document

NULL = {"type": "null"}
REF = {"$ref": "#/components/schemas/X"}
DEF = {"$ref": "#/$defs/X"}

KEYWORDS: list[tuple[Any, Any]] = [  # a schema of 3.0, without what it refers to, and what becomes of it
    ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ({"type": "string", "nullable": False}, {"type": "string"}),
    ({"type": "string", "format": "int-or-string"}, {"type": ["integer", "string"], "format": "int-or-string"}),
    ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"type": "string", "x-nullable": True, "enum": [None]}, {"type": ["string", "null"], "enum": [None]}),
    ({"enum": ["a"], "nullable": True}, {"enum": ["a", None]}),
    ({"nullable": True, "properties": {"a": {}}}, {"properties": {"a": {}}}),
    ({"nullable": True, **REF}, {"anyOf": [DEF, NULL]}),
    ({"nullable": True, "description": "d", "allOf": [REF]}, {"description": "d", "anyOf": [DEF, NULL]}),
    ({"nullable": True, "oneOf": [REF, {"type": "string"}]}, {"anyOf": [DEF, {"type": "string"}, NULL]}),
    ({"nullable": True, "type": "object", "allOf": [REF]}, {"anyOf": [{"type": "object", **DEF}, NULL]}),
    ({"nullable": True, "type": "string", "not": {"enum": ["a"]}}, None),
    ({"minimum": 1, "exclusiveMinimum": True, "maximum": 5}, {"exclusiveMinimum": 1, "maximum": 5}),
    ({"exclusiveMaximum": True, "maximum": 5}, {"exclusiveMaximum": 5}),
    ({"exclusiveMaximum": False, "maximum": 5}, {"maximum": 5}),
    ({"exclusiveMinimum": True}, {}),
    ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
    ({"example": 1, "xml": {}, "externalDocs": {}, "x-any": 1, "discriminator": {"propertyName": "a"}}, {}),
    ({"description": "d", "type": "string", **REF}, {"description": "d", **DEF}),  # what stands beside counts not
    ({"type": "file"}, {"type": "string"}),
    ({"type": "any"}, {}),
    ({"type": None}, {}),
    ({"type": "null"}, NULL),
    ({"type": "dictionary", "title": "t"}, {"title": "t"}),
    ({"type": ["string", None]}, {"type": ["string", "null"]}),
    ({"items": [{"type": "string"}, REF], "additionalItems": False}, None),
    ({"enum": ["a", "b", "a"]}, {"enum": ["a", "b"]}),
    ({"enum": [1, True, 1, {"a": 1}, {"a": 1}]}, {"enum": [1, True, {"a": 1}]}),
    ({"type": "string", "enum": [1, 2.5, True, "a"]}, {"type": "string", "enum": ["1", "2.5", "true", "a"]}),
    ({"enum": []}, {}),
    ({"pattern": "["}, {}),
    ({"pattern": "/^a$/"}, {"pattern": "^a$"}),
    ({"pattern": "/^a$/i"}, {}),
    ({"pattern": "(?<=a)b"}, {"pattern": "(?<=a)b"}),
    ({"minLength": "5", "maxLength": -1, "multipleOf": 0, "title": 5, "maximum": "9", "uniqueItems": "no"}, {}),
    ({"required": [], "allOf": [], "anyOf": [], "properties": None, "examples": {}, "default": 0}, {"default": 0}),
    ({"required": ["a", "a", 5], "properties": {"a": {}}}, {"required": ["a"], "properties": {"a": {}}}),
    (
        {"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}},
        {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
    ),
    (
        {"properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False},
        {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
    ),
    ({"properties": {"a": {}}, "required": ["b"]}, {"properties": {"a": {}}, "required": ["b"]}),
    # Names of members are no keywords, and values are no schemas.
    ({"properties": {"nullable": {}, "$ref": {}, "xml": {}}}, {"properties": {"nullable": {}, "$ref": {}, "xml": {}}}),
    ({"default": {"$ref": "#/x", "nullable": True}}, {"default": {"$ref": "#/x", "nullable": True}}),
    ({"oneOf": [REF, {"minimum": 1}], "anyOf": [{}, REF]}, None),
    ({"allOf": [REF], "description": "d"}, {"description": "d", **DEF}),
    ({"allOf": [{}, {"example": 1}]}, {}),
    ({"not": {"oneOf": [REF, {"minimum": 1}]}}, None),
    ({"description": "a\u202e\x00b\U000e0041 "}, {"description": "ab"}),
    ({"description": "<p>of <b class='x'>refs/<name></b></P>"}, {"description": "of refs/<name>"}),
    (True, {}),
    (False, {"not": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), KEYWORDS)
def test_a_keyword_of_3_0_becomes_one_of_2020_12(schema: Any, expected: Any) -> None:
    result = converted(schema, schemas={"X": {"type": "integer"}})
    CompiledSchema.compile(result)
    result.pop("$defs", None)
    if expected is not None:
        assert result == expected


OTHERS: list[tuple[Any, list[Any], list[Any]]] = [  # a schema, values that fit it, and values that do not
    ({"nullable": True, "type": "string", "not": {"enum": ["a"]}}, [None, "b"], ["a", 5]),
    ({"items": [{"type": "string"}, REF], "additionalItems": False}, [["a", 1], ["a"]], [["a", "b"], ["a", 1, 2], [5]]),
    ({"oneOf": [REF, {"minimum": 1}], "anyOf": [{"maximum": 9}, REF]}, [5, 0], [9.5]),
    ({"not": {"oneOf": [REF, {"minimum": 1}]}}, [5, 0.5], [0, 1.5]),  # an integer of at least 1 is both
    ({"items": REF, "uniqueItems": True}, [[1, 2]], [[1, 1], ["a"]]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), OTHERS)
def test_values_fit_as_they_did(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    compiled = CompiledSchema.compile(converted(schema, schemas={"X": {"type": "integer"}}))
    assert [value for value in valid if not compiled.is_valid(value)] == []
    assert [value for value in invalid if compiled.is_valid(value)] == []


def test_openapi_25_nullable_references_and_enums_take_null() -> None:
    schema = {"properties": {"a": {**REF, "nullable": True}, "b": {"type": "string", "enum": ["x"], "nullable": True}}}
    compiled = CompiledSchema.compile(converted(schema, schemas={"X": {"type": "integer"}}))
    assert compiled.is_valid({"a": None, "b": None})
    assert compiled.is_valid({"a": 1, "b": "x"})
    assert not compiled.is_valid({"a": "1"})


def test_openapi_26_a_bound_that_a_boolean_excludes() -> None:
    compiled = CompiledSchema.compile(converted({"type": "number", "minimum": 0, "exclusiveMinimum": True}))
    assert [compiled.is_valid(value) for value in (0, 0.1)] == [False, True]


PET = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "integer", "readOnly": True}, "name": {}, "secret": {"writeOnly": True}},
    "additionalProperties": False,
}
STAMP = {"type": "string", "readOnly": True}
DIRECTIONS: list[tuple[Any, Any, Any]] = [  # a schema, and its members and required ones for input, then for output
    (PET, (["name", "secret"], ["name"]), (["id", "name"], ["id", "name"])),
    ({"$ref": "#/components/schemas/Pet"}, (["name", "secret"], ["name"]), (["id", "name"], ["id", "name"])),
    (
        {"properties": {"at": {"$ref": "#/components/schemas/Stamp"}, "b": {}}, "required": ["at", "b"]},
        (["b"], ["b"]),
        (["at", "b"], ["at", "b"]),
    ),
    (
        {"properties": {"at": {"allOf": [{"$ref": "#/components/schemas/Stamp"}], "description": "d"}}},
        ([], []),
        (["at"], []),
    ),
    # Required here, marked there: one object.
    (
        {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"required": ["id", "secret"]}]},
        (["name", "secret"], ["name", "secret"]),
        (["id", "name"], ["id", "name"]),
    ),
    (
        {"allOf": [{"$ref": "#/components/schemas/Open"}, {"properties": {"id": {"readOnly": True}}}]},
        (["a"], ["a"]),
        (["a", "id"], ["a", "id"]),
    ),
]


def _members(schema: Any, root: Any) -> tuple[set[str], set[str]]:
    if "$ref" in schema:
        schema = {**root["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}
    inner = [_members(branch, root) for branch in schema.get("allOf", [])]
    names, required = set(schema.get("properties", {})), set(schema.get("required", []))
    return names.union(*(one for one, _ in inner)), required.union(*(one for _, one in inner))


@pytest.mark.parametrize(("schema", "taken", "returned"), DIRECTIONS)
def test_openapi_23_members_for_one_direction_only(schema: Any, taken: Any, returned: Any) -> None:
    schemas = {
        "Pet": PET,
        "Stamp": STAMP,
        "Open": {"properties": {"id": {}, "a": {}}, "required": ["id", "a"]},
    }
    for direction, (names, required) in (("input", taken), ("output", returned)):
        result = converted(schema, direction, schemas=schemas)  # type: ignore[arg-type] # one of two
        CompiledSchema.compile(result)
        assert _members(result, result) == (set(names), set(required))


def test_answers_may_have_members_that_nobody_declares() -> None:
    assert "additionalProperties" not in converted(PET, "output")
    assert converted(PET)["additionalProperties"] is False
    closed = {"not": {"properties": {"a": {}}, "additionalProperties": False}}
    assert converted(closed, "output")["not"]["additionalProperties"] is False  # a condition stays as strict


def test_a_condition_keeps_members_of_the_other_direction() -> None:
    schema = {"properties": {"id": {"readOnly": True}}, "not": {"required": ["id"]}}
    assert converted(schema) == {"not": {"required": ["id"]}}


def test_openapi_6_recursion_stays_recursion() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "n": {"type": "integer"}}}
    tree = {"type": "array", "items": {"$ref": "#/components/schemas/Leaf"}}
    leaf = {"type": "object", "properties": {"trees": {"$ref": "#/components/schemas/Tree"}}}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/components/schemas/Node"}, "b": {"$ref": "#/components/schemas/Tree"}},
    }
    result = converted(schema, schemas={"Node": node, "Tree": tree, "Leaf": leaf})
    assert sorted(result["$defs"]) == ["Leaf", "Node", "Tree"]
    compiled = CompiledSchema.compile(result)
    deep = {"n": 5, "next": {"next": {"next": {"next": {"n": 1}}}}}
    assert compiled.is_valid({"a": deep, "b": [{"trees": [{"trees": [{"trees": []}]}]}]})
    assert not compiled.is_valid({"a": {"next": {"next": {"next": {"next": {"n": "1"}}}}}})
    assert not compiled.is_valid({"b": [{"trees": [{"trees": [{"trees": [5]}]}]}]})


def test_references_name_any_place_and_definitions_never_share_a_name() -> None:
    schemas = {
        "A b": {"type": "string"},
        "A_b": {"type": "integer"},
        "C": {"properties": {"A_b": {"type": "boolean"}, "~x/y%": {"type": "null"}}},
    }
    refs = ["A%20b", "A_b", "C/properties/A_b", "C/properties/~0x~1y%25"]
    schema = {"prefixItems": [{"$ref": f"#/components/schemas/{ref}"} for ref in refs]}
    result = converted(schema, schemas=schemas)
    assert len(result["$defs"]) == 4
    compiled = CompiledSchema.compile(result)
    assert compiled.is_valid(["a", 1, True, None])
    for at in range(4):
        assert not compiled.is_valid([*["a", 1, True, None][:at], [], *["a", 1, True, None][at + 1 :]])


def test_schemas_of_3_1_are_kept_and_what_3_0_says_is_understood() -> None:
    schema = {
        "type": ["object", "null"],
        "properties": {"a": {**REF, "maximum": 5}, "b": {"type": "string", "nullable": True}},
        "patternProperties": {"^x-": {"const": 1}, "[": {}},
        "dependentRequired": {"a": ["b"]},
        "unevaluatedProperties": False,
        "$defs": {"unused": {}},
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
    }  # fmt: skip
    result = converted(schema, version="3.1.0", schemas={"X": {"type": "integer", "exclusiveMinimum": 1}})
    compiled = CompiledSchema.compile(result)
    good: list[Any] = [None, {"a": 5, "b": None}, {"x-a": 1}]
    bad: list[Any] = [{"a": 6, "b": ""}, {"a": 1, "b": ""}, {"a": 2}, {"x-a": 2}, {"c": 1}]
    assert [value for value in good if not compiled.is_valid(value)] == []
    assert [value for value in bad if compiled.is_valid(value)] == []
    assert "$defs" not in schema or "unused" not in result["$defs"]


def test_names_of_schemas_that_are_no_pointers() -> None:
    schemas = {
        "Node": {"$dynamicAnchor": "node", "type": "object", "properties": {"child": {"$dynamicRef": "#node"}}},
        "Named": {"$id": "https://example.test/named", "type": "integer"},
        "Once": {"$defs": {"x": {"$anchor": "once", "type": "boolean"}}},
    }
    schema = {"prefixItems": [{"$ref": "#node"}, {"$ref": "https://example.test/named"}, {"$ref": "#once"}]}
    compiled = CompiledSchema.compile(converted(schema, version="3.1.0", schemas=schemas))
    assert compiled.is_valid([{"child": {"child": {}}}, 1, True])
    assert not compiled.is_valid([{"child": {"child": []}}])
    assert not compiled.is_valid([{}, "1"])
    assert not compiled.is_valid([{}, 1, 1])
    twice = {**schemas, "Twice": {"$anchor": "node"}}
    with pytest.raises(OperationError, match="several parts"):
        converted({"$ref": "#node"}, version="3.1.0", schemas=twice)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({"$ref": "#/components/schemas/Y"}, {}, "which the document does not have"),
    ({"$ref": "https://other.test/x.json"}, {}, "outside its document"),
    ({"$ref": "#"}, {}, "its whole document"),
    ({}, {"jsonSchemaDialect": "https://other.test/dialect"}, "not supported"),
    ({"$schema": "https://other.test/dialect"}, {}, "not supported"),
]


@pytest.mark.parametrize(("schema", "more", "reason"), REFUSED)
def test_a_schema_that_cannot_be_used_says_why(schema: Any, more: Any, reason: str) -> None:
    with pytest.raises(OperationError, match=reason):
        converted({"minimum": 1, **schema}, version="3.1.0", **more)


def test_older_drafts_say_the_same_in_another_way() -> None:
    draft_4 = "http://json-schema.org/draft-04/schema#"
    schema = {
        "$schema": draft_4,
        "minimum": 1,
        "exclusiveMinimum": True,
        "items": [{}, REF],
        "additionalItems": REF,
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    }
    for more in ({}, {"jsonSchemaDialect": draft_4}):
        result = converted(schema, "input", "3.1.0", {"X": {"type": "integer"}}, **more)
        compiled = CompiledSchema.compile(result)
        good: list[Any] = [2, ["a", 1, 1], {"a": 1, "b": 1}, {"c": 1, "d": 1}]
        bad: list[Any] = [1, ["a", "a"], [1, 1, "a"], {"a": 1}, {"c": 1}]
        assert [value for value in good if not compiled.is_valid(value)] == []
        assert [value for value in bad if compiled.is_valid(value)] == []


def test_a_branch_tells_the_value_that_chooses_it() -> None:
    schemas = {
        "Cat": {"description": "A cat.", "properties": {"kind": {"type": "string"}}},
        "Dog": {"properties": {"kind": {"enum": ["dog"]}}},
        "Cow": {},
        "Fox": {"allOf": [{"$ref": "#/components/schemas/Wild"}, {"description": "A fox."}]},
        "Wild": {"discriminator": {"propertyName": "wild", "mapping": {"red": "Fox"}}},
    }
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("Cat", "Dog", "Cow")]
    mapping = {"feline": "#/components/schemas/Cat", "puss": "Cat"}
    schema = {"oneOf": refs, "discriminator": {"propertyName": "kind", "mapping": mapping}}
    branches = converted(schema, schemas=schemas)["anyOf"]
    assert [branch.get("description") for branch in branches] == [
        'kind: "feline" or "puss"\n\nA cat.',
        None,
        'kind: "Cow"',
    ]
    (inherited,) = converted({"anyOf": [{"$ref": "#/components/schemas/Fox"}]}, schemas=schemas)["anyOf"]
    assert inherited["description"] == 'wild: "red"\n\nA fox.'


def test_a_merge_patch_may_leave_out_and_remove_any_member() -> None:
    schemas = {
        "Inner": {"type": "object", "required": ["b"], "properties": {"b": {"type": "integer"}}},
        "X": {"type": "object", "required": ["z"], "properties": {"z": {"type": "integer"}}},
    }
    schema = {
        "type": "object",
        "required": ["a", "list"],
        "properties": {
            "a": {"type": "string"},
            "inner": {"$ref": "#/components/schemas/Inner"},
            "list": {"type": "array", "items": REF},
            "id": {"readOnly": True},
        },
        "additionalProperties": False,
    }
    compiled = CompiledSchema.compile(converted(schema, "patch", schemas=schemas))
    good: list[Any] = [{}, {"a": None}, {"inner": {"b": None}}, {"inner": None}, {"list": [{"z": 1}]}]
    bad: list[Any] = [{"a": 5}, {"inner": {"b": "x"}}, {"list": [{"z": None}]}, {"list": [{}]}, {"id": 1}]
    assert [value for value in good if not compiled.is_valid(value)] == []
    assert [value for value in bad if compiled.is_valid(value)] == []


def test_schemas_that_exclude_members_of_each_other_do_not_multiply() -> None:
    def layer(depth: int, which: str) -> Any:
        below = [{"$ref": f"#/components/schemas/{other}{depth + 1}"} for other in "AB"]
        marked = {"properties": {f"{which}{depth}": {"readOnly": True}}}
        return (
            {"allOf": [*below, marked]}
            if depth < 14
            else {"properties": {f"{x}{n}": {} for x in "AB" for n in range(14)}}
        )

    schemas = {f"{which}{depth}": layer(depth, which) for depth in range(15) for which in "AB"}
    read = document({}, "3.0.3", components={"schemas": schemas})
    converter = Converter(read)
    needed: Any = {}
    converter.convert({"$ref": "#/components/schemas/A0"}, "input", needed)
    assert len(converter.definitions(needed)) < 200


def test_more_definitions_than_a_tool_can_have_are_refused() -> None:
    chain = {f"X{n}": {"items": {"$ref": f"#/components/schemas/X{n + 1}"}} for n in range(2_001)}
    with pytest.raises(OperationError, match="more than 2000 others"):
        converted({"$ref": "#/components/schemas/X0"}, schemas={**chain, "X2001": {}})


def test_nesting_beyond_reason_is_refused() -> None:
    schema: Any = {}
    for _ in range(2_000):
        schema = {"items": schema}
    converter = Converter(document({}, "3.0.3"))
    with pytest.raises(OperationError, match="too deeply"):
        converter.convert(schema, "input", {})


def test_what_is_left_out_is_told_once() -> None:
    read = document({}, "3.0.3", components={"schemas": {}})
    converter = Converter(read)
    for _ in range(3):
        converter.convert({"pattern": "[", "type": "strange", "minimum": "5"}, "output", {})
    assert len([text for text in read.warnings if "'['" in text]) == 1
    assert len(read.warnings) == 3
