"""Whatever stands at any place of a document, an operation is a tool, or is left out with a reason."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.jsontext import encode
from gateway.protocols.common.listing import decode_summary
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.schemas import SchemaError, check_input
from tests.unit.openapi.documents import root, terms

REF = {"$ref": "#/components/schemas/Pet"}
FORM = {
    "schema": {"type": "object", "properties": {"file": {"format": "binary"}, "tags": {"items": REF}}},
    "encoding": {"file": {"contentType": "image/png", "headers": {"X-A": {"schema": {"enum": ["1"]}}}}},
}
PARAMETERS = [
    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}, "style": "matrix"},
    {"name": "q[a]", "in": "query", "description": "d", "schema": {"type": "array", "items": {"type": "string"}}},
    {"name": "deep", "in": "query", "style": "deepObject", "schema": {"anyOf": [REF, {"nullable": True}]}},
    {"name": "json", "in": "query", "content": {"application/json": {"schema": REF}}},
    {"name": "X-A", "in": "header", "schema": {"type": "string", "pattern": "^a", "enum": ["a"]}},
]
PET = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "minLength": 1, "nullable": True},
        "kind": {"allOf": [{"$ref": "#/components/schemas/Kind"}], "description": "d"},
        "next": REF,
    },
    "patternProperties": {"^x-": {}},
    "dependentRequired": {"id": ["name"]},
    "discriminator": {"propertyName": "name", "mapping": {"pet": "Pet"}},
    "oneOf": [{"$ref": "#/components/schemas/Kind"}, {"not": {"minimum": 1, "exclusiveMinimum": True}}],
}
SCHEMAS = {
    "Pet": PET,
    "Kind": {"type": ["object", "null"], "additionalProperties": False, "if": {}, "then": {"properties": {"of": REF}}},
}
ANSWERS = {"200": {"content": {"application/json": {"schema": REF}, "text/csv": {}}}, "default": {"description": ""}}
OPERATIONS = {
    "/pets/{id}": {
        "parameters": PARAMETERS[:2],
        "get": {"operationId": "read", "parameters": PARAMETERS[2:], "responses": ANSWERS, "tags": ["a"]},
        "put": {"requestBody": {"required": True, "content": {"application/json": {"schema": REF}}}},
        "patch": {"requestBody": {"content": {"application/merge-patch+json": {"schema": REF}}}, "summary": "s"},
        "post": {"requestBody": {"content": {"multipart/form-data": FORM}}, "security": [{"key": []}]},
    }
}
KEYS = {"key": {"type": "apiKey", "in": "query", "name": "key"}}
DOCUMENT = root(OPERATIONS, "3.1.0", components={"schemas": SCHEMAS, "securitySchemes": KEYS}, servers=[{"url": "/v1"}])
TERMS = encode(terms(methods=("GET", "PUT", "PATCH", "POST"), arguments={"/body/name": "n", "X-A": "a"}))

WORDS = st.sampled_from(
    ["", "a", "string", "object", "#/components/schemas/Pet", "#", "query", "true", "[", "\r\n", "*/*"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.just(0.5) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS | st.just("$ref"), inner, max_size=2),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


PLACES = [place for place in _places(DOCUMENT) if place]


def _with(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    changed = copy.deepcopy(DOCUMENT)
    for place, value in changes:
        node: Any = changed
        try:
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = value
        except (KeyError, IndexError, TypeError):  # another change has taken it away
            continue
    return changed


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(PLACES), ANYTHING), min_size=1, max_size=3))
def test_an_operation_is_a_tool_or_is_left_out_with_a_reason(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    first, *parts = read_operations(TERMS, encode(_with(changes)))
    summary, read = decode_summary(first), decoder()
    tools = [tool for part in parts for tool in read(part)]
    assert all(rejected.reason and "not understood" not in rejected.reason for rejected in summary.rejected)
    for tool in tools:
        try:
            check_input(tool.input_schema)
        except SchemaError as exc:
            assert "refers to itself" in exc.reason, (tool.name, exc)  # noqa: PT017 - a document may say so
