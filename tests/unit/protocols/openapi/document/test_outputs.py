"""What operations return, by the answers they declare."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.openapi.document.outputs import BINARY, LOCATION
from gateway.protocols.openapi.document.plan import OperationError
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.converting import output

A, B = {"type": "string"}, {"type": "integer"}
NULL = {"type": "null"}
ANY_ACCEPTED = "application/json, */*;q=0.1"


def json(schema: Any, media_type: str = "application/json") -> Any:
    return {"description": "", "content": {media_type: {"schema": schema}}}


EMPTY: dict[str, Any] = {"description": ""}
ANSWERS: list[tuple[Any, Any]] = [  # what is declared, the schema
    ({}, {}),
    ({"404": json(A)}, {}),
    ({"200": json(A)}, A),
    ({"2xx": json(A), "400": json(B)}, A),
    ({"default": json(A)}, A),
    ({"200": json(A), "default": json(B)}, A),
    ({"204": EMPTY}, None),
    ({"205": EMPTY, "204": json(A)}, None),
    ({"200": EMPTY}, {}),
    ({"202": EMPTY}, {}),
    ({"200": json(A), "201": json(A)}, A),
    ({"200": json(A), "202": json(B)}, {"anyOf": [A, B]}),
    ({"200": json(A), "204": EMPTY}, {"anyOf": [A, NULL]}),
    ({"200": json(A), "201": EMPTY}, {"anyOf": [A, NULL, LOCATION]}),
    ({"200": json(A, "text/csv")}, {"type": "string"}),
    ({"200": json(A, "image/png")}, BINARY),
    ({"200": json(B, "application/problem+json; charset=utf-8")}, B),
    ({"200": json({})}, {}),
    ({"200": json(A), "201": json({})}, {}),
    ({"200": json(A, "*/*")}, {}),
    ({"200": {"content": {"text/xml": {}, "application/json": {"schema": B}}}}, B),
    ({"200": {"content": {"text/xml": {}, "image/png": {"schema": B}}}}, {"anyOf": [A, BINARY]}),
    ({"200": json(A, "application/x-ndjson")}, {"type": "array", "items": {}}),
    ({"200": json({"$ref": "#/components/schemas/None"})}, {}),
]


@pytest.mark.parametrize(("responses", "schema"), ANSWERS)
def test_the_value_by_what_is_declared_for_success(responses: Any, schema: Any) -> None:
    assert output(responses).schema == schema


def test_a_schema_that_cannot_be_used_is_told() -> None:
    found = output({"200": json({"$ref": "#/components/schemas/None"})})
    assert "does not have" in "".join(found.warnings)


def test_the_schema_with_select_and_headers() -> None:
    headers = {"type": "object", "additionalProperties": {"type": "string"}}
    schemas = {"X": {"type": "object", "properties": {"x": {"$ref": "#/components/schemas/X"}}}}
    responses = {"200": json({"$ref": "#/components/schemas/X"})}
    tool = {"response_headers": ["Link", "link"]}
    found = output(responses, tool=tool, components={"schemas": schemas})
    assert found.schema == {
        "type": "object",
        "properties": {"body": {"$ref": "#/$defs/X"}, "headers": headers},
        "required": ["body", "headers"],
        "$defs": {"X": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}}},
    }
    assert found.answers.headers == ("link",)
    chosen = output(responses, tool={"select": "/a"}, components={"schemas": schemas})
    assert (chosen.schema, chosen.answers.select) == ({}, "/a")
    both = output({"204": EMPTY}, tool={**tool, "select": "a"})
    assert both.schema is not None
    assert both.schema["properties"] == {"body": {}, "headers": headers}


def test_large_schemas_are_left_out_unless_the_operator_wants_them() -> None:
    large = {"type": "object", "properties": {f"member{n}": A for n in range(2_000)}}
    assert output({"200": json(large)}).schema == {}
    assert "left out" in "".join(output({"200": json(large)}).warnings)
    assert output({"200": json(large)}, terms={"output_schemas": "full"}).schema == large
    assert output({"200": json(A)}, terms={"output_schemas": "none"}).schema == {}
    assert output({"204": EMPTY}, terms={"output_schemas": "none"}).schema is None


ACCEPTED: list[tuple[list[str], str]] = [
    ([], ANY_ACCEPTED),
    (["text/plain", "application/vnd.a+json"], "application/vnd.a+json, text/plain;q=0.5, */*;q=0.1"),
    (["image/png"], "image/png, */*;q=0.1"),
    (["*/*"], ANY_ACCEPTED),
    (["text/plain\r\nX: y", "text/event-stream"], ANY_ACCEPTED),
    ([f"text/x{n}" for n in range(50)], ", ".join([*(f"text/x{n}" for n in range(20)), "*/*;q=0.1"])),
]


@pytest.mark.parametrize(("offered", "accept"), ACCEPTED)
def test_what_is_asked_for(offered: list[str], accept: str) -> None:
    found = output({"200": {"content": {name: {} for name in offered}}})
    assert found.accept == accept


def test_answers_are_read_by_the_media_types_that_are_declared() -> None:
    content: Any = {"Application/JSON; charset=utf-8": {}, "text/event-stream": {}, "application/json": {}}
    found = output({"200": {"content": content}}, terms={"max_binary_bytes": 5})
    assert found.answers.media_types == ("application/json",)
    assert found.answers.max_binary_bytes == 5
    with pytest.raises(OperationError, match="a stream of events"):
        output({"200": {"content": {"text/event-stream": {}}}})


def test_a_head_returns_its_status_and_headers() -> None:
    found = output({"200": json(A)}, method="head", tool={"response_headers": ["link"]})
    assert found.schema is not None
    assert CompiledSchema.compile(found.schema).is_valid({"status": 200, "headers": {"link": "a"}})
    assert output({"200": json(A)}, method="head", tool={"select": "a"}).schema == {}
