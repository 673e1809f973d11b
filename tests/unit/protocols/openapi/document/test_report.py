"""What an operator is told about a document: every operation is accounted for, with the lines that choose it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gateway.core.jsontext import encode
from gateway.protocols.common.listing import Group, Report, decode_report, decode_summary
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.settings.load import read
from tests.unit.protocols.openapi.document.documents import root, terms

TENANT = {"name": "X-Tenant", "in": "header", "required": True, "schema": {"type": "string"}}
FLOW = {"clientCredentials": {"tokenUrl": "https://login.example/token", "scopes": {}}}
SCHEMES = {
    "token": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "query", "name": "key"},
    "login": {"type": "oauth2", "flows": FLOW},
    "broken": {"$ref": "#/nowhere"},
}
PATHS: dict[str, Any] = {
    "/pets": {
        "parameters": [TENANT],
        "get": {"operationId": "listPets", "tags": ["pets"], "summary": "Lists."},
        "post": {"operationId": "addPet", "tags": ["pets", "admin"], "callbacks": {"onSold": {}}},
        "delete": {"tags": ["admin"]},
    },
    "/pets/{id}": {"get": {"tags": ["pets"], "summary": 'The "one".\nMore.'}},
    "/old": {"get": {"operationId": "old", "deprecated": True}},
    "/broken": {"get": {"operationId": "broken", "parameters": [{"name": "x", "in": "body"}]}},
}


def reported(**said: Any) -> tuple[Report, set[str]]:
    """The report on the document, and the names of its tools."""
    text = encode(root(PATHS, components={"securitySchemes": SCHEMES}, webhooks={"sold": {}}))
    first, *parts = read_operations(encode(terms(**said)), text)
    decode = decoder()
    return decode_report(decode_summary(first).report), {tool.name for part in parts for tool in decode(part)}


def test_openapi_57_what_became_of_each_operation_adds_up() -> None:
    report, tools = reported(lent_tokens={"login": "corp"}, schemes=("token",), auth="schemes")
    facts = dict(report.facts)
    assert facts["operations"] == f"6, of them {len(tools)} published, 3 left out, 1 that cannot be tools"
    assert facts["tags"] == "pets 2 of 3, admin 0 of 2"
    assert facts["security"] == (
        "token (http bearer): auth.schemes; key (apiKey, key in query): not covered; "
        "login (oauth2, https://login.example/token): callers supply their token of corp; "
        "broken (cannot be read): not covered"
    )
    assert facts["ignored"] == "1 callback, 1 webhook"
    assert report.left_out == (
        Group(text="operations.methods leaves out POST.", ids=("addPet",)),
        Group(text="operations.methods leaves out DELETE.", ids=("DELETE /pets",)),
        Group(text="It is deprecated.", ids=("old",)),
    )


def test_a_header_that_models_must_make_up_is_worth_a_look_unless_it_is_fixed() -> None:
    note = "a model must give the header X-Tenant; fix it under arguments if it is the same for all"
    assert Group(text=note, ids=("listPets",)) in reported()[0].notes
    assert note not in [group.text for group in reported(arguments={"X-Tenant": "acme"})[0].notes]


def test_names_that_several_would_have_are_told() -> None:
    twins = {"/a": {"get": {"operationId": "twin"}}, "/b": {"get": {"operationId": "Twin"}}}
    first, *_ = read_operations(encode(terms()), encode(root(twins)))
    text = "other operations have the same operationId, so its name is made of method and path"
    assert decode_report(decode_summary(first).report).notes == (Group(text=text, ids=("GET /a", "GET /b")),)


@pytest.mark.parametrize("most", [200, 1])
def test_the_lines_to_choose_from_are_a_configuration_also_where_there_are_too_many(most: int) -> None:
    report, tools = reported(max_operations=most)
    assert len(tools) == (2 if most == 200 else 0)
    choices = [line.removeprefix("# ") for line in report.choices]
    include = "\n".join(f"        {line}" for line in choices)
    assert len(yaml.safe_load(include)) == 6
    text = "auth: none\nbackends:\n  a:\n    protocol: openapi\n    url: http://x\n    document: https://d.example\n"
    config = read(f"{text}    operations:\n      methods: [all]\n      include:\n{include}\n")
    assert config.backends["a"].protocol == "openapi"
    if most == 200:
        assert report.choices[0] == '- {operation: "listPets"} # GET /pets'
        assert report.choices[1] == '# - {operation: "addPet"} # operations.methods leaves out POST.'
        assert report.choices[3] == '- {path: "/pets/{id}", method: GET} # The "one".'
