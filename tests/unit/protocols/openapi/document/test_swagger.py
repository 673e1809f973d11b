"""Swagger 2.0 as OpenAPI 3.0: parameters, bodies, forms, answers, schemas and credentials."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.protocols.openapi.document.document import read_document
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.swagger import schema_of, to_openapi3
from tests.unit.protocols.openapi.document.documents import found

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def operation(node: dict[str, Any], **more: Any) -> Any:
    text = encode({"swagger": "2.0", "paths": {"/a": {"post": node}}, **more})
    return found(read_document(text, "https://api.example.test"))["POST /a"]


def array(collection_format: str | None = None, where: str = "query") -> dict[str, Any]:
    said = {} if collection_format is None else {"collectionFormat": collection_format}
    return {"name": "a", "in": where, "type": "array", "items": {"type": "string"}, **said}


LISTS = [
    (array(), "form", False),
    (array("csv"), "form", False),
    (array("ssv"), "spaceDelimited", False),
    (array("pipes"), "pipeDelimited", False),
    (array("multi"), "form", True),
    (array("csv", "path"), "simple", False),
    (array("csv", "header"), "simple", False),
]


@pytest.mark.parametrize(("given", "style", "explode"), LISTS, ids=range(len(LISTS)))
def test_lists_are_separated_as_they_were(given: dict[str, Any], style: str, explode: bool) -> None:
    (parameter,) = operation({"parameters": [given]}).parameters
    assert parameter == {
        "name": "a",
        "in": given["in"],
        "schema": {"type": "array", "items": {"type": "string"}},
        "style": style,
        "explode": explode,
    }


def test_what_3_0_cannot_say_is_no_tool() -> None:
    assert operation({"parameters": [array("tsv")]}) == "Its parameter 'a' has the style 'tsv', which query has not."
    assert operation({"parameters": [{"$ref": "#/parameters/none"}]}).startswith("It refers to '#/parameters/none'")
    assert operation({"parameters": "none"}) == "Its 'parameters' are no list."
    assert operation({"responses": {"200": {"$ref": "#/responses/none"}}}).startswith("It refers to '#/responses/none'")


def test_a_body_is_one_whatever_it_is_called_and_where_it_stands() -> None:
    shared = {"body": {"name": "x", "in": "body", "schema": {"$ref": "#/definitions/X"}, "required": True}}
    found_ = operation(
        {"parameters": [{"$ref": "#/parameters/body"}], "consumes": ["application/json", "text/xml"]},
        parameters=shared,
        definitions={"X": {"type": "object", "x-nullable": True}},
    )
    schema = {"schema": {"$ref": "#/components/schemas/X"}}
    assert found_.body == {"content": {"application/json": schema, "text/xml": schema}, "required": True}
    assert found_.parameters == ()


FIELDS = [
    {"name": "a", "in": "formData", "type": "string", "required": True, "description": "d"},
    {"name": "b", "in": "formData", "type": "array", "items": {"type": "integer"}, "collectionFormat": "multi"},
]
FILE = {"name": "f", "in": "formData", "type": "file"}
A: dict[str, Any] = {"type": "string", "description": "d"}
B: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("fields", "consumes", "media_types", "members"),
    [
        (FIELDS, [], [FORM], {"a": A, "b": B}),
        (FIELDS, [MULTIPART, "application/json"], [MULTIPART], {"a": A, "b": B}),
        ([*FIELDS, FILE], [FORM], [MULTIPART], {"a": A, "b": B, "f": {"type": "string", "format": "binary"}}),
    ],
)
def test_forms_are_bodies(fields: list[Any], consumes: list[str], media_types: list[str], members: Any) -> None:
    body = operation({"parameters": fields}, consumes=consumes).body
    assert list(body["content"]) == media_types
    media_type = body["content"][media_types[0]]
    assert media_type["schema"] == {"type": "object", "properties": members, "required": ["a"]}
    assert media_type["encoding"] == {"b": {"style": "form", "explode": True}}
    assert body["required"] is True


def test_answers_have_the_media_types_that_are_produced() -> None:
    responses = {
        "200": {"description": "d", "schema": {"type": "file"}, "headers": {"x": {"type": "string"}}},
        "204": {"description": "d"},
        "default": {"$ref": "#/responses/E"},
    }
    more: dict[str, Any] = {
        "produces": ["application/json"],
        "responses": {"E": {"schema": {"$ref": "#/definitions/X"}}},
    }
    read = operation({"responses": responses, "produces": ["image/png"]}, **more)
    assert read.responses["200"] == {
        "description": "d",
        "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
    }
    assert read.responses["204"] == {"description": "d"}
    error = {"content": {"image/png": {"schema": {"$ref": "#/components/schemas/X"}}}}
    assert read.responses["default"] == error
    assert list(operation({"responses": responses}, **more).responses["200"]["content"]) == ["application/json"]


def test_schemas_change_where_a_schema_stands_and_nowhere_else() -> None:
    assert schema_of(
        {
            "properties": {"x-nullable": {"x-nullable": True}, "type": {"type": "file"}, "example": {"example": 1}},
            "allOf": [{"$ref": "#/definitions/X"}, True],
            "additionalProperties": {"items": {"$ref": "#/definitions/Y/properties/z"}},
            "discriminator": "kind",
            "enum": [{"$ref": "#/definitions/X", "x-nullable": 1}],
        }
    ) == {
        "properties": {"x-nullable": {"nullable": True}, "type": {"type": "string", "format": "binary"}, "example": {}},
        "allOf": [{"$ref": "#/components/schemas/X"}, True],
        "additionalProperties": {"items": {"$ref": "#/components/schemas/Y/properties/z"}},
        "discriminator": {"propertyName": "kind"},
        "enum": [{"$ref": "#/definitions/X", "x-nullable": 1}],
    }


def test_credentials_and_servers_are_told_as_in_3_0() -> None:
    definitions = {
        "basic": {"type": "basic"},
        "key": {"type": "apiKey", "name": "k", "in": "query"},
        "code": {"type": "oauth2", "flow": "accessCode", "authorizationUrl": "a", "tokenUrl": "t", "scopes": {"s": ""}},
        "own": {"type": "oauth2", "flow": "application", "tokenUrl": "t"},
    }
    converted = to_openapi3({"swagger": "2.0", "host": "h", "basePath": "/v1/", "securityDefinitions": definitions})
    assert converted["components"]["securitySchemes"] == {
        "basic": {"type": "http", "scheme": "basic"},
        "key": definitions["key"],
        "code": {
            "type": "oauth2",
            "flows": {"authorizationCode": {"authorizationUrl": "a", "tokenUrl": "t", "scopes": {"s": ""}}},
        },
        "own": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "t"}}},
    }
    assert converted["servers"] == [{"url": "//h/v1"}]
    assert to_openapi3({"host": "h", "schemes": ["http", "https"]})["servers"] == [
        {"url": "http://h"},
        {"url": "https://h"},
    ]
    assert to_openapi3({"basePath": "/v1"})["servers"] == [{"url": "/v1"}]


@pytest.mark.parametrize("more", [{"schemes": ["https"]}, {"schemes": ["http"]}, {}, {"schemes": "https"}])
def test_openapi_51_the_scheme_of_a_swagger_document_changes_nothing(more: dict[str, Any]) -> None:
    text = encode(
        {"swagger": "2.0", "host": "api.example.test", "basePath": "/v1", "paths": {"/a": {"get": {}}}, **more}
    )
    read = read_document(text, "https://api.example.test")
    entry = found(read)["GET /a"]
    assert isinstance(entry, Operation)
    assert entry.prefix == "/v1"
    assert bool(read.warnings) == (more.get("schemes") == ["http"])


def test_references_are_followed_wherever_a_schema_stands() -> None:
    pet, ref = {"type": "object", "x-nullable": True}, {"$ref": "#/definitions/Pet"}
    schema = {
        "items": [ref, {"type": "string"}],
        "additionalItems": ref,
        "dependencies": {"a": ref, "b": ["a"]},
        "not": ref,
        "properties": {"items": ref, "dependencies": {"allOf": [ref]}},
    }
    moved = {"$ref": "#/components/schemas/Pet"}
    assert schema_of(schema) == {
        "items": [moved, {"type": "string"}],
        "additionalItems": moved,
        "dependencies": {"a": moved, "b": ["a"]},
        "not": moved,
        "properties": {"items": moved, "dependencies": {"allOf": [moved]}},
    }
    read = read_document(encode({"swagger": "2.0", "paths": {}, "definitions": {"Pet": pet}}))
    assert read.resolve(ref) == read.resolve(moved) == {"type": "object", "nullable": True}


def test_an_operation_that_is_a_reference_has_all_that_it_refers_to() -> None:
    parts = {"x-parts": {"purge": {"parameters": [array("multi")], "responses": {"204": {"description": ""}}}}}
    found_ = operation({"$ref": "#/x-parts/purge"}, **parts)
    assert isinstance(found_, Operation)
    assert [one["name"] for one in found_.parameters] == ["a"]
    assert operation({"$ref": "#/x-parts/none"}).startswith("It refers to '#/x-parts/none'")
