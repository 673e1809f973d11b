"""The description of the public surface: valid OpenAPI 3.1, and true to what the specifications show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gateway.http.openapi import BY_KEY, BY_TOKEN, document
from gateway.protocols.common.fields import MAX_TOOL_ID
from gateway.protocols.otc.surface import DIALECTS
from tests.oracle import FAILURE_CODES, Operation
from tests.oracle.examples import GOOD, coded
from tests.wire import call_examples

DOCUMENT: dict[str, Any] = json.loads(document("1.2.3", "https://tools.example.com"))
PREFIXES = ("rfc", "otc", "oxp", "oxp-env", "lc")
PATH_OF: dict[str, tuple[str, str]] = {"call": ("tools/call", "post"), "list": ("tools", "get")}


def described(path: str, method: str, status: int) -> dict[str, Any]:
    """The schema of one answer, as a document of its own beside the components it refers to."""
    response = DOCUMENT["paths"][path][method]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema: dict[str, Any] = response["content"]["application/json"]["schema"]
    return schema | {"components": DOCUMENT["components"]}


def test_it_says_what_it_has_always_said() -> None:
    """A change here is one that those who generate clients see: then replace the file, and read the difference."""
    expected = json.loads(Path(__file__).with_name("openapi.json").read_bytes())
    assert expected == DOCUMENT


def test_it_is_valid_openapi_3_1() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes as long as all tests here together

    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_it_names_the_gateway_and_where_it_is() -> None:
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert DOCUMENT["servers"] == [{"url": "https://tools.example.com"}]
    assert "servers" not in json.loads(document("1.2.3", None))


@pytest.mark.parametrize("credentials", [(), BY_TOKEN, (*BY_TOKEN, *BY_KEY)])
def test_callers_are_asked_for_no_credential_that_is_not_taken(credentials: tuple[str, ...]) -> None:
    described = json.loads(document("1.2.3", None, credentials))
    assert described["security"] == [{name: []} for name in credentials]
    assert described["components"]["securitySchemes"].keys() == set(credentials)


def test_the_word_for_programs_is_described_wherever_it_may_stand() -> None:
    assert set(DOCUMENT["components"]["schemas"]["Code"]["examples"]) == FAILURE_CODES


def test_limits_and_versions_are_those_that_dialects_check() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {schemas[name]["maxLength"] for name in ("ToolRef", "RfcToolRef", "LcToolRef")} == {MAX_TOOL_ID}
    for name, dialect in (("OtcCall", "otc"), ("OxpEnvelopedCall", "oxp-env"), ("RfcCall", "rfc"), ("LcCall", "lc")):
        assert set(schemas[name]["properties"]["$schema"]["enum"]) == set(DIALECTS[dialect].wire_versions)


def test_every_component_is_used() -> None:
    text = json.dumps(DOCUMENT)
    for kind, named in DOCUMENT["components"].items():
        if kind != "securitySchemes":
            assert not [name for name in named if f'"#/components/{kind}/{name}"' not in text]


ANSWERED = [
    (one.dialect, "call", one.answered.status, json.loads(one.answered.body)) for one in call_examples().values()
]
SHOWN = [case for case in (*ANSWERED, *GOOD) if case[0] in PREFIXES and case[1] in PATH_OF]


@pytest.mark.parametrize(("dialect", "operation", "status", "answered"), SHOWN)
def test_the_answers_of_the_examples_are_described(
    dialect: str, operation: Operation, status: int, answered: Any
) -> None:
    path, method = PATH_OF[operation]
    answered = coded(operation, status, answered)[1]
    for place in (f"/{dialect}/{path}", f"/{path}"):
        jsonschema_rs.Draft202012Validator(described(place, method, status), validate_formats=True).validate(answered)


def test_one_dialect_does_not_pass_for_another() -> None:
    flat = jsonschema_rs.Draft202012Validator(described("/oxp/tools/call", "post", 200))
    enveloped = jsonschema_rs.Draft202012Validator(described("/otc/tools/call", "post", 200))
    result = {"call_id": "k", "success": True, "value": 1}
    assert flat.is_valid(result)
    assert not enveloped.is_valid(result)
    assert enveloped.is_valid({"$schema": "otc://1.0", "result": result})
    assert not flat.is_valid({"$schema": "otc://1.0", "result": result})
    assert not flat.is_valid(result | {"error": {"message": "no"}})


def requested(path: str) -> jsonschema_rs.Draft202012Validator:
    body = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator(body | {"components": DOCUMENT["components"]})


FLAT_CALL: dict[str, Any] = {"tool_id": "Mail.Search@2", "input": {"q": "x"}, "context": {"user_id": "u"}}


@pytest.mark.parametrize(
    ("path", "body", "fits"),
    [
        ("/tools/call", FLAT_CALL, True),
        ("/tools/call", {"request": FLAT_CALL}, True),
        ("/call", {"$schema": "otc://1.0", "request": FLAT_CALL}, True),
        ("/tools/call", {"input": {}}, False),
        ("/tools/call", {"tool_id": "A.B", "input": []}, False),
        ("/otc/tools/call", FLAT_CALL, False),
        ("/otc/tools/call", {"request": FLAT_CALL | {"inputs": {}}}, False),
        ("/rfc/call", {"request": {"tool_id": "A.B@latest", "inputs": {}}}, True),
        ("/oxp/tools/call", {"request": FLAT_CALL}, False),
        ("/lc/tools/call", {"request": FLAT_CALL | {"user_id": "u"}}, True),
        ("/rfc/call", {"request": {"tool_id": "A.B", "inputs": {}, "input": {}}}, False),
        ("/otc/tools/call", {"$schema": "urn:oxp:1.0", "request": FLAT_CALL}, False),
        ("/oxp-env/tools/call", {"$schema": "urn:oxp:1.0", "request": FLAT_CALL}, True),
        ("/otc/tools/call", {"request": {"tool_id": "A.B@latest"}}, False),
        ("/otc/tools/call", {"request": {"tool_id": "A.B@1.2"}}, False),
        ("/lc/tools/call", {"request": {"tool_id": "A.B@1.2"}}, True),
        ("/lc/tools/call", {"request": {"tool_id": "A_B", "call_id": None, "context": None}}, True),
        ("/oxp/tools/call", {"tool_id": "A_B"}, False),
        ("/oxp/tools/call", {"tool_id": "A.B", "call_id": "é"}, False),
        ("/oxp/tools/call", {"tool_id": "A.B", "call_id": "~" * 256, "trace_id": "t" * 1024}, True),
        ("/oxp/tools/call", {"tool_id": "A.B", "trace_id": "t" * 1025}, False),
        ("/oxp/tools/call", {"tool_id": "A.B", "context": {"thread_ancestors": ["a"] * 65}}, False),
        ("/oxp/tools/call", {"tool_id": "A.B", "context": {"group_id": 5}}, False),
    ],
)
def test_calls_are_described_as_each_dialect_sends_them(path: str, body: Any, fits: bool) -> None:
    assert requested(path).is_valid(body) is fits
