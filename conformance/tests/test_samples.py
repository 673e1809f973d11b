"""Inputs that are made from schemas fit them, or none is made."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_conformance.samples import sample
from toolgate_conformance.schemas import fits

MADE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "object"}, {}),
    ({"properties": {"a": {"type": "string"}}}, {}),
    ({"properties": {"a": {"type": "string", "minLength": 5}}, "required": ["a"]}, {"a": "kittt"}),
    ({"properties": {"a": {"type": "string", "maxLength": 1}}, "required": ["a"]}, {"a": "k"}),
    ({"properties": {"a": {"enum": [3, 4]}, "b": {"const": None}}, "required": ["a", "b"]}, {"a": 3, "b": None}),
    ({"properties": {"a": {"type": "integer", "minimum": 2.5}}, "required": ["a"]}, {"a": 3}),
    ({"properties": {"a": {"type": "number", "exclusiveMinimum": 0}}, "required": ["a"]}, {"a": 1}),
    ({"properties": {"a": {"type": "number", "maximum": -2.5}}, "required": ["a"]}, {"a": -3}),
    ({"properties": {"a": {"type": "string", "format": "ipv4"}}, "required": ["a"]}, {"a": "192.0.2.1"}),
    ({"properties": {"a": {"type": ["boolean", "null"]}}, "required": ["a"]}, {"a": False}),
    ({"properties": {"a": {"type": "array", "minItems": 2}}, "required": ["a"]}, {"a": ["kit", "kit"]}),
    ({"properties": {"a": {"type": "object", "required": ["b"]}}, "required": ["a"]}, {"a": {"b": "kit"}}),
    ({"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]}, {"a": "x"}),
]
NOT_MADE: list[Any] = [
    None,
    {"type": "string"},
    {"type": []},
    {"properties": {"a": {"type": "string", "pattern": "^[0-9]+$"}}, "required": ["a"]},
    {"properties": {"a": {"type": "string", "minLength": 10**12}}, "required": ["a"]},
    {"properties": {"a": {"type": "integer", "minimum": 10**12}}, "required": ["a"]},
    {"properties": {"a": {"$ref": "https://example.com/schema"}}, "required": ["a"]},
]


@pytest.mark.parametrize(("schema", "made"), MADE)
def test_the_required_members_are_made(schema: dict[str, Any], made: dict[str, Any]) -> None:
    assert sample(schema) == made
    assert fits(schema, made)


@pytest.mark.parametrize("schema", NOT_MADE)
def test_what_fits_no_schema_is_not_made(schema: Any) -> None:
    assert sample(schema) is None
