"""Documents as lists of tools: what a document becomes as a whole, and what the process that reads it is spared."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.core.model import Rejected
from gateway.offload.tasks import Schemas, check
from gateway.protocols.common.listing import Summary, decode_report, decode_summary
from gateway.protocols.openapi.document import tools
from gateway.protocols.openapi.document.curation import Match, ToolTerms
from gateway.protocols.openapi.document.plan import OperationTool
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.documents import root, terms

ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
PET = {"type": "object", "properties": {"name": {"type": "string"}, "mate": {"$ref": "#/components/schemas/Pet"}}}
PATHS: dict[str, Any] = {
    "/pets": {
        "get": {"operationId": "listPets", "summary": "Lists pets.", "responses": {"200": {"description": ""}}},
        "post": {
            "operationId": "addPet",
            "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
        },
        "put": {"parameters": [{"name": "If-Match", "in": "header", "schema": {"type": "string"}}]},
    },
    "/pets/{id}": {
        "parameters": [ID],
        "get": {"operationId": "getPet"},
        "put": {"operationId": "setPet"},
        "delete": {"operationId": "deletePet"},
        "head": {"operationId": "$broken", "parameters": [{"name": "x", "in": "body"}]},
    },
}


def read(paths: Mapping[str, Any], **said: Any) -> tuple[Summary, dict[str, OperationTool]]:
    text = encode(root(paths, components={"schemas": {"Pet": PET}}))
    first, *parts = read_operations(encode(terms(**{"methods": ("ALL", "HEAD"), **said})), text)
    decode = decoder()
    return decode_summary(first), {tool.tool: tool for part in parts for tool in decode(part)}


def test_operations_become_tools_with_plans_and_one_that_cannot_is_rejected_alone() -> None:
    summary, found = read(PATHS)
    assert summary.note == "OpenAPI 3.1"
    assert summary.rejected == (Rejected(id="$broken", reason="Its parameter 'x' is in 'body', which is no place."),)
    assert [(tool.id, tool.name, tool.remote_id) for tool in found.values()] == [
        ("Shop.listPets@1.2.3", "Shop_listPets", "GET /pets"),
        ("Shop.addPet@1.2.3", "Shop_addPet", "POST /pets"),
        ("Shop.put_pets@1.2.3", "Shop_put_pets", "PUT /pets"),
        ("Shop.getPet@1.2.3", "Shop_getPet", "GET /pets/{id}"),
        ("Shop.setPet@1.2.3", "Shop_setPet", "PUT /pets/{id}"),
        ("Shop.deletePet@1.2.3", "Shop_deletePet", "DELETE /pets/{id}"),
    ]
    assert found["Shop.getPet"].input_schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert found["Shop.listPets"].description == "Lists pets."
    assert (found["Shop.getPet"].plan.method, found["Shop.getPet"].plan.path) == ("GET", "/pets/{id}")
    report = decode_report(summary.report)
    assert ("operations", "7, of them 6 published, 0 left out, 1 that cannot be tools") in report.facts


def test_openapi_06_recursive_schemas_stay_recursive_and_check_values_at_any_depth() -> None:
    found = read(PATHS)[1]
    assert [tool.remote_id for tool in found.values() if not tool.is_checked] == ["POST /pets"]
    verdict = check(Schemas(found["Shop.addPet"].input_schema, None))
    assert not verdict.reason
    schema = CompiledSchema.compile(verdict.schemas.input)

    def body(name: Any) -> Any:
        return {"body": {"name": "Rex", "mate": {"mate": {"mate": {"mate": {"name": name}}}}}}

    assert schema.findings(body("Max")) == []
    assert [finding.place for finding in schema.findings(body(1))] == ["body.mate"]


def test_what_is_noted_of_an_operation_is_not_told_of_the_next() -> None:
    get: dict[str, Any] = {"requestBody": {"content": {"application/json": {}}}}
    summary, _ = read({"/a": {"get": get}, "/b": {"head": {}, "get": {}}}, methods=("GET",))
    noted = {note.text: note.ids for note in decode_report(summary.report).notes}
    assert noted["It takes a body with GET, which some servers and proxies drop."] == ("GET /a",)


def test_only_what_does_as_much_twice_as_once_may_be_repeated() -> None:
    def promises(**said: Any) -> dict[str, tuple[bool, bool, str]]:
        found = read(PATHS, **said)[1].values()
        assert all(tool.hints == {"read_only": tool.plan.is_safe, "idempotent": tool.plan.can_repeat} for tool in found)
        return {
            tool.remote_id.partition("/")[0] + tool.plan.path: (
                tool.plan.is_safe,
                tool.plan.can_repeat,
                tool.plan.key_header,
            )
            for tool in found
        }

    plain = {
        "GET /pets": (True, True, ""),
        "POST /pets": (False, False, ""),
        "PUT /pets": (False, False, ""),
        "GET /pets/{id}": (True, True, ""),
        "PUT /pets/{id}": (False, True, ""),
        "DELETE /pets/{id}": (False, False, ""),
    }
    assert promises() == plain
    keyed = dict.fromkeys(("POST /pets", "PUT /pets", "DELETE /pets/{id}"), (False, True, "Idempotency-Key"))
    assert promises(key_header="Idempotency-Key") == {**plain, **keyed}
    acts = {"listPets": ToolTerms(unsafe=True)}
    assert promises(tools=acts) == {**plain, "GET /pets": (False, False, "")}


def test_openapi_10_more_operations_than_may_be_tools_are_refused_with_their_number() -> None:
    summary, found = read(PATHS, max_operations=2, include=(Match(path="/pets/*"),))
    assert summary.failure == (
        "4 operations are chosen, and operations.max allows 2. The first: getPet, setPet, deletePet, $broken."
    )
    assert not found
    assert '- {operation: "getPet"} # GET /pets/{id}' in decode_report(summary.report).choices


def test_openapi_16_terms_about_an_operation_that_is_not_there_are_refused() -> None:
    summary, found = read(PATHS, tools={"listPet": ToolTerms(hide=("secret",))})
    assert summary.failure.startswith(
        "The configuration does not fit the document, so no operation is published: tools names 'listPet', which is no"
    )
    assert not found


def test_openapi_t21_a_document_without_operations_is_an_empty_list() -> None:
    summary, found = read({})
    assert (summary.failure, summary.rejected, found) == ("", (), {})


def test_a_document_of_very_many_operations_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MAX_OPERATIONS", 6)
    assert read(PATHS)[0].failure == "The document has more than 6 operations."


RICH: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "h"}}}],
    "security": [{"key": []}, {"login": ["read"]}],
    "paths": {
        "/a/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "post": {
                "operationId": "a",
                "tags": ["t"],
                "parameters": [{"name": "q", "in": "query", "style": "deepObject", "schema": {"type": "object"}}],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}}},
                            "encoding": {
                                "f": {"contentType": "image/png", "headers": {"X": {"schema": {"enum": ["1"]}}}}
                            },
                        }
                    }
                },
                "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}}},
            },
        }
    },
    "components": {
        "parameters": {
            "id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
        },
        "schemas": {
            "S": {
                "oneOf": [{"$ref": "#/components/schemas/T"}],
                "discriminator": {"propertyName": "kind", "mapping": {"t": "#/components/schemas/T"}},
                "nullable": True,
            },
            "T": {
                "allOf": [{"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["t"]}}}],
                "properties": {"x": {"type": "string", "pattern": "^x", "readOnly": True}},
                "additionalProperties": {"type": "array", "items": {"type": "number", "exclusiveMinimum": True}},
            },
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "k"},
            "login": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "u", "scopes": {"read": ""}}}},
        },
    },
}
WRONG: list[Any] = [
    None,
    [],
    {},
    0,
    True,
    "",
    "x",
    [None],
    [[]],
    {"a": None},
    {"$ref": 5},
    {"$ref": "#"},
    ["a", "a"],
    [{}],
]


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*place, key)
        yield from _places(inner, (*place, key))


def test_nothing_in_a_document_need_be_as_it_should() -> None:
    said = encode(terms(methods=("ALL",), auth="api_key", auth_in="query", auth_name="k", lent_tokens={"login": "g"}))
    whole = 0
    for number, (*outer, last) in enumerate(_places(RICH)):
        for wrong in (WRONG[number % len(WRONG)], WRONG[(number * 5 + 3) % len(WRONG)]):
            holder = document = copy.deepcopy(RICH)
            for key in outer:
                holder = holder[key]
            holder[last] = wrong
            first, *_ = read_operations(said, encode(document))
            summary = decode_summary(first)
            assert "not understood" not in str(summary.rejected)
            whole += not summary.failure and not summary.rejected
    assert whole > 50
