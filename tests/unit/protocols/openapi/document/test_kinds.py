"""What the schema of a parameter or a form lists can be sent, and what cannot be sent is not listed."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.wire import WireRequest
from gateway.protocols.openapi.document.inputs import Input
from gateway.protocols.openapi.document.plan import OperationError
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.converting import body_, input_
from tests.unit.protocols.openapi.document.requesting import parts_of, plan_of, send

STRING: Any = {"type": "string"}
OBJECT: Any = {"type": "object", "properties": {"gte": {"type": "integer"}, "tags": {"type": "array", "items": STRING}}}
FORM = "application/x-www-form-urlencoded"


def takes(found: Input, argument: str, value: Any) -> bool:
    return CompiledSchema.compile(found.schema).is_valid({argument: value})


def of(schema: Any, style: str = "form", *, explode: bool = True, **more: Any) -> Input:
    node = {"name": "q", "in": "query", "style": style, "explode": explode, "schema": schema, **more}
    return input_(
        {"parameters": [node]}, components={"schemas": {"Range": OBJECT, "Item": {"anyOf": [OBJECT, STRING]}}}
    )


def target(found: Input, value: Any) -> str:
    assert takes(found, "q", value)
    path = send(plan_of(*found.parameters, path="/x"), {"q": value}).path.partition("?")[2]
    return path.replace("%5B", "[").replace("%5D", "]")


def sent_body(found: Input, body: Any) -> WireRequest:
    return send(plan_of(method="POST", body=found.body), {"body": body})


def test_parameters_of_payment_apis_are_sent() -> None:
    created = of({"anyOf": [{"$ref": "#/components/schemas/Range"}, {"type": "integer"}]}, "deepObject")
    assert target(created, {"gte": 5}) == "q[gte]=5"
    assert target(created, 5) == "q=5"
    assert not takes(created, "q", "text")
    assert target(of({"type": "array", "items": STRING}, "deepObject"), ["a", "b"]) == "q[]=a&q[]=b"
    assert target(of({"type": "array", "items": OBJECT}, "deepObject"), [{"gte": 1}]) == "q[0][gte]=1"


def test_forms_of_payment_apis_are_sent() -> None:
    properties = {
        "expand": {"type": "array", "items": STRING},
        "items": {"type": "array", "items": OBJECT},
        "address": {"anyOf": [OBJECT, {"type": "string", "enum": [""]}]},
        "range": {"anyOf": [OBJECT, {"type": "array", "items": OBJECT}, STRING]},
    }
    deep = {name: {"style": "deepObject", "explode": True} for name in ("expand", "items", "address")}
    encoding = {**deep, "range": {"style": "form", "explode": False}}
    content = {FORM: {"schema": {"type": "object", "properties": properties}, "encoding": encoding}}
    found = body_(content, terms={"deep_arrays": "indexes"})

    def sent(body: Any) -> str:
        assert takes(found, "body", body)
        return send(plan_of(method="POST", body=found.body), {"body": body}).body.decode().replace("%5B", "[")

    assert sent({"expand": ["a"], "items": [{"gte": 1}]}) == "expand[0%5D=a&items[0%5D[gte%5D=1"
    assert sent({"address": ""}) == "address="
    assert sent({"address": {"gte": 1}, "range": {"gte": 1}}) == "address[gte%5D=1&range=gte,1"
    for wrong in ({"tags": ["a"]}, [{"gte": 1}], {"x": {"y": 1}}):
        assert not takes(found, "body", {"range": wrong})


def test_an_api_that_takes_lists_in_brackets_has_all_lists_so() -> None:
    inner: Any = {"type": "object", "properties": {"rates": {"type": "array", "items": STRING}}}
    expand: Any = {"type": "array", "items": STRING}
    deep = {"style": "deepObject", "explode": True}
    filtered: Any = {"name": "q", "in": "query", "schema": inner, **deep}
    listed: Any = {"name": "expand", "in": "query", "schema": expand, **deep}
    content = {
        FORM: {"schema": {"properties": {"a": inner, "expand": expand}}, "encoding": {"a": deep, "expand": deep}}
    }
    for nodes, expected in ([filtered], "q[rates]=x&q[rates]=y"), ([filtered, listed], "q[rates][]=x&q[rates][]=y"):
        assert target(input_({"parameters": nodes}), {"rates": ["x", "y"]}) == expected
    for arrays, mark in (("auto", "[]"), ("repeat", ""), ("indexes", "[0]")):
        found = body_(content, terms={"deep_arrays": arrays})
        body = send(plan_of(method="POST", body=found.body), {"body": {"a": {"rates": ["x"]}}}).body
        assert body.decode().replace("%5B", "[").replace("%5D", "]") == f"a[rates]{mark}=x"


def test_parts_have_the_style_that_a_document_gives_them() -> None:
    link: Any = {"type": "object", "properties": {"create": {"type": "boolean"}, "tags": {"type": "array"}}}
    properties: Any = {
        "file": {"type": "string", "format": "binary"},
        "link": link,
        "expand": {"type": "array", "items": STRING},
        "csv": {"type": "array", "items": {"type": "integer"}},
        "usual": {"type": "array", "items": link},
        "joined": link,
    }
    deep: Any = {"style": "deepObject", "explode": True}
    joined: Any = {"style": "form", "explode": False}
    encoding: Any = {name: {"style": "form"} for name in properties}
    encoding |= {"link": deep, "expand": deep, "csv": joined, "joined": joined}
    found = body_({"multipart/form-data": {"schema": {"properties": properties}, "encoding": encoding}})
    body = {
        "file": "aGk=",
        "link": {"create": True, "tags": ["&", "="]},
        "expand": ["a b", "c"],
        "csv": [1, 2],
        "usual": [{"create": True}],
        "joined": {"tags": [1]},
    }
    assert takes(found, "body", body)
    assert [(name, content) for name, _, _, content in parts_of(sent_body(found, body))] == [
        ("file", b"hi"),
        ("link[create]", b"true"),
        ("link[tags][]", b"&"),
        ("link[tags][]", b"="),
        ("expand[]", b"a b"),
        ("expand[]", b"c"),
        ("csv", b"1,2"),
        ("usual", b'{"create":true}'),
        ("joined", b'{"tags":[1]}'),
    ]
    assert not takes(found, "body", {"csv": [[1]]})


NARROWED: list[tuple[Any, list[Any], list[Any]]] = [
    (OBJECT, [{"gte": 1}, {"x": "y", "n": None}], [{"tags": ["a"]}, {"x": {}}, {"x": []}]),
    ({"type": "array", "items": {"$ref": "#/components/schemas/Item"}}, [["a"], []], [[{"gte": 1}], [1], [None]]),
    ({"anyOf": [{"type": "array", "items": OBJECT}, STRING]}, ["a"], [[{"gte": 1}], [["a"]]]),
    ({"type": ["array", "string"], "items": {"type": "array"}}, ["a"], [[[1]]]),
    ({}, ["a", 1, ["a"], {"a": 1}], [[["a"]], {"a": ["b"]}, [None]]),
    (
        {"type": "array", "items": {"type": "string", "nullable": True, "enum": ["a", None]}},
        [["a"]],
        [[None], ["b"]],
    ),
    (
        {
            "allOf": [
                {"$ref": "#/components/schemas/Range"},
                {"type": "object", "properties": {"x": OBJECT, "y": STRING}},
            ]
        },
        [{"gte": 1, "y": "a"}],
        [{"x": {"gte": 1}}, {"tags": []}, {"y": 1}],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "array", "items": STRING}, "properties": {"a": STRING}},
        [{"a": "b"}],
        [{"b": ["c"]}],
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), NARROWED, ids=range(len(NARROWED)))
def test_what_a_style_has_no_form_for_is_not_listed(schema: Any, good: Any, bad: Any) -> None:
    for found in (of(schema), of(schema, explode=False)):
        for value in good:
            target(found, value)
        assert [value for value in bad if takes(found, "q", value)] == []


def test_what_has_a_form_already_is_listed_as_it_is() -> None:
    for schema in (STRING, {"type": "array", "items": STRING}, {"$ref": "#/components/schemas/Word"}):
        node = {"name": "q", "in": "query", "schema": schema}
        found = input_({"parameters": [node]}, components={"schemas": {"Word": {"type": "string", "enum": ["a"]}}})
        expected = {"$ref": "#/$defs/Word"} if "$ref" in schema else schema
        assert found.schema["properties"]["q"] == expected


def test_what_has_no_form_at_all_leaves_a_parameter_out() -> None:
    nested = {"type": "array", "items": {"type": "array"}}
    assert of(nested).parameters == ()
    with pytest.raises(OperationError, match="no form for values inside values"):
        of(nested, required=True)
    text = {"name": "q", "in": "query", "content": {"text/plain": {"schema": OBJECT}}}
    assert input_({"parameters": [text]}).parameters == ()
    either = {"name": "q", "in": "query", "content": {"text/plain": {"schema": {"anyOf": [OBJECT, STRING]}}}}
    found = input_({"parameters": [either]})
    assert (takes(found, "q", "a"), takes(found, "q", {})) == (True, False)
    required = {"type": "object", "required": ["a"], "properties": {"a": nested}}
    content = {FORM: {"schema": required, "encoding": {"a": {"style": "form"}}}}
    with pytest.raises(OperationError, match="'a' of its body cannot be sent"):
        body_(content)
    scalar_or_object = {FORM: {"schema": {"anyOf": [OBJECT, STRING]}}}
    assert not takes(body_(scalar_or_object), "body", "text")


def test_null_is_not_listed_where_something_has_to_be_sent() -> None:
    for schema in ({"type": "string", "nullable": True}, {"type": "array", "nullable": True, "items": STRING}):
        assert takes(of(schema), "q", None)
        assert not takes(of(schema, required=True), "q", None)
