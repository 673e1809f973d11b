"""Bodies of requests, read back by other programs' parsers."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from msgspec import Raw

from gateway.core import jsontext
from gateway.core.wire import WireRequest
from gateway.protocols.openapi.document.plan import BodyPlan, Field
from tests.unit.protocols.openapi.document.requesting import (
    body_plan,
    header,
    parameter,
    parts_of,
    plan_of,
    refusal,
    send,
)

FORM = "application/x-www-form-urlencoded"
PICTURE = bytes(range(256))


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def sent(kind: str, media_type: str, value: Any, **more: Any) -> bytes:
    request = send(body_plan(kind, media_type, **more), {"body": value})
    assert header(request, "content-type") == media_type
    return request.body


def wrong(kind: str, media_type: str, value: Any, **more: Any) -> bool:
    return refusal(body_plan(kind, media_type, **more), {"body": value}).keys() == {"body"}


@pytest.mark.parametrize("value", [None, [], {}, 0, False, "", "é", {"a": {"b": None}}, [[1.5, 2**64]]])
def test_openapi_24_37_a_json_body_is_sent_as_it_is_given(value: Any) -> None:
    for media_type in ("application/json", "application/vnd.a+json; v=1", "application/merge-patch+json"):
        assert jsontext.decode(sent("json", media_type, value)) == value


@pytest.mark.parametrize("kind", ["json", "lines", "form", "multipart", "text", "bytes"])
def test_openapi_29_a_body_that_is_left_out_is_not_sent_unless_it_is_required(kind: str) -> None:
    request = send(body_plan(kind, "a/b"), {})
    assert (request.body, header(request, "content-type")) == (b"", None)
    assert refusal(body_plan(kind, "a/b", required=True), {}) == {"body": "is required"}
    if kind != "json":  # in which null is a value
        assert send(body_plan(kind, "a/b"), {"body": None}) == request
        assert refusal(body_plan(kind, "a/b", required=True), {"body": Raw(b"null")}) == {"body": "is required"}


def test_an_operation_without_a_body_sends_none() -> None:
    assert send(plan_of(method="POST"), {"body": 1}).body == b""


def test_openapi_37_text_is_sent_in_its_character_set() -> None:
    assert sent("text", "text/plain", "é\n") == "é\n".encode()
    assert sent("text", 'text/csv; Charset="ISO-8859-1"', "é") == b"\xe9"
    assert sent("text", "text/plain", 10.0) == b"10"
    assert wrong("text", "text/plain;charset=latin-1", "€")
    assert wrong("text", "text/plain;charset=rot13", "a")
    assert wrong("text", "text/plain", {})


def test_openapi_37_bytes_are_given_as_base64() -> None:
    assert sent("bytes", "application/octet-stream", base64_of(PICTURE)) == PICTURE
    assert sent("bytes", "image/png", "") == b""
    for bad in ("a", "ab==c", "a b=", "ab\n==", "é===", "-_==", 7, {"base64": ""}):
        assert wrong("bytes", "image/png", bad)


def test_openapi_37_lines_hold_an_item_each() -> None:
    assert sent("lines", "application/x-ndjson", [{"a": "\n"}, 1, None]) == b'{"a":"\\n"}\n1\nnull\n'
    assert sent("lines", "application/jsonl", []) == b""
    assert wrong("lines", "application/jsonl", {"a": 1})


FORMS: list[tuple[dict[str, Any], dict[str, Field], bytes]] = [
    ({"a b": "c d", "é": "&=+%"}, {}, b"a+b=c+d&%C3%A9=%26%3D%2B%25"),
    ({"t": True, "n": None, "i": 10.0, "e": ""}, {}, b"t=true&i=10&e="),
    ({"tags": [1, "b"], "none": []}, {}, b"tags=1&tags=b"),
    ({"o": {"a": [1]}, "l": [{"b": 1}]}, {}, b"o=%7B%22a%22%3A%5B1%5D%7D&l=%7B%22b%22%3A1%7D"),
    ({"l": [1, 2], "s": "x"}, {"l": Field(content_type="application/json")}, b"l=%5B1%2C2%5D&s=x"),
    ({"l": [1, "a,b"]}, {"l": Field(style="form", explode=False)}, b"l=1,a%2Cb"),
    ({"l": ["a b", 2]}, {"l": Field(style="pipeDelimited", explode=False)}, b"l=a%20b%7C2"),
    ({"o": {"a": {"b": 1}}}, {"o": Field(style="deepObject")}, b"o%5Ba%5D%5Bb%5D=1"),
    (
        {"u": "/a?b&c", "l": []},
        {"u": Field(style="form", allow_reserved=True), "l": Field(style="form")},
        b"u=/a?b%26c",
    ),
    ({}, {}, b""),
]


def test_openapi_37_t17_forms_repeat_arrays_and_nest_json() -> None:
    for value, fields, expected in FORMS:
        assert sent("form", FORM, value, fields=fields) == expected
    assert wrong("form", FORM, [])
    assert wrong("form", FORM, "a=b")
    assert wrong("form", FORM, {"a": [[1], None]})


FIELDS = {"file": Field(is_binary=True), "typed": Field(content_type="image/*, image/png", is_binary=True)}


def multipart(value: Any, **fields: Field) -> WireRequest:
    return send(body_plan("multipart", "multipart/form-data", fields=FIELDS | fields), {"body": value})


def test_openapi_37_multipart_has_a_part_for_each_value() -> None:
    other = {"base64": base64_of(b"x"), "filename": "a.gif", "content_type": "image/gif"}
    request = multipart(
        {"s": "é", "n": 10.0, "none": None, "o": {"a": 1}, "l": ["a", {"b": 2}], "file": [base64_of(PICTURE), other]}
        | {"typed": other | {"content_type": None}, "j": [1, 2], "x": "<a/>"},
        j=Field(content_type="application/json"),
        x=Field(content_type="application/xml", headers={"X-Part": "1"}),
    )
    assert parts_of(request) == [
        ("s", "text/plain", None, "é".encode()),
        ("n", "text/plain", None, b"10"),
        ("o", "application/json", None, b'{"a":1}'),
        ("l", "text/plain", None, b"a"),
        ("l", "application/json", None, b'{"b":2}'),
        ("file", "application/octet-stream", "file", PICTURE),
        ("file", "image/gif", "a.gif", b"x"),
        ("typed", "image/png", "a.gif", b"x"),
        ("j", "application/json", None, b"[1,2]"),
        ("x", "application/xml", None, b"<a/>"),
    ]
    assert b"\r\nX-Part: 1\r\n" in request.body


def test_openapi_37_no_file_ends_its_part() -> None:
    first = multipart({"file": base64_of(b"x")})
    boundary = str(header(first, "content-type")).partition("boundary=")[2].encode()
    for content in (b"\r\n--" + boundary + b"--\r\n", first.body, b"--ours\r\n"):
        request = multipart({"file": base64_of(content), "s": "after"})
        assert [part[3] for part in parts_of(request)] == [content, b"after"]


def test_openapi_37_names_end_no_line_and_no_quotes() -> None:
    name = 'a"\r\nContent-Type: text/html\r\n\r\n<b>'
    request = multipart({name: "x", "file": {"base64": "", "filename": name}})
    assert request.body.count(b"\r\n\r\n") == 2
    assert b'name="a%22%0D%0AContent-Type: text/html%0D%0A%0D%0A<b>"' in request.body
    files: list[Any] = [
        {"base64": "", "filename": 7},
        {"base64": "", "filename": "a\x00"},
        {"filename": "a"},
        {"base64": 1},
    ]
    for bad in files:
        assert wrong("multipart", "multipart/form-data", {"file": bad}, fields=FIELDS)
    for no_type in ("text", "a/b\r\nX: y", "a/b\n", "a/é", 7, "a/b; \x00"):
        bad = {"base64": "", "content_type": no_type}
        assert wrong("multipart", "multipart/form-data", {"file": bad}, fields=FIELDS)
    assert wrong("multipart", "multipart/form-data", [1])


FIXED: list[tuple[dict[str, Any], Any, Any]] = [
    ({"/a": 1}, {"a": 2, "b": 3}, {"a": 1, "b": 3}),
    ({"/a": 1}, {}, {"a": 1}),
    ({"/a/b": 1, "/a/c": 2}, {"a": {"b": 5, "d": 6}}, {"a": {"b": 1, "c": 2, "d": 6}}),
    ({"/a~1b/c~0d": 1}, {}, {"a/b": {"c~d": 1}}),
    ({"/l/1/x": 1}, {"l": [{}, {"x": 0}]}, {"l": [{}, {"x": 1}]}),
    ({"": {"whole": True}}, {"a": 1}, {"whole": True}),
    ({"/a": None}, None, {"a": None}),
]


@pytest.mark.parametrize(("fixed", "given", "expected"), FIXED)
def test_openapi_28_what_the_operator_fixes_in_a_body_is_sent(fixed: dict[str, Any], given: Any, expected: Any) -> None:
    plan, before = body_plan("json", "application/json", fixed=fixed), msgspec.json.encode(given)
    for value in (given, Raw(before)):
        assert jsontext.decode(send(plan, {"body": value}).body) == expected
    assert msgspec.json.encode(given) == before  # the caller's own arguments are as they were


def test_openapi_28_a_body_with_fixed_values_is_sent_also_when_left_out() -> None:
    assert send(body_plan("json", "application/json", fixed={"/a": 1}, required=True), {}).body == b'{"a":1}'
    no_place: list[Any] = [[], "x", {"a": []}, {"a": [1]}]
    for bad in no_place:
        assert wrong("json", "application/json", bad, fixed={"/a/0/b": 1})


def test_openapi_28_a_fixed_parameter_is_not_the_callers() -> None:
    plan = plan_of(parameter("query", "owner", fixed="acme"), parameter("path", "id", fixed=7))
    assert send(plan, {"owner": "evil", "id": "x"}).path == "/things/7?owner=acme"


def test_arguments_that_are_text_are_read_no_deeper_than_needed() -> None:
    plan = plan_of(parameter("path", "id"), parameter("query", "q"), method="POST", body=JSON)
    wide = b"[" + b"1," * 50_000 + b"1]"
    request = send(plan, Raw(b'{"id": 7, "q": null, "body": ' + wide + b"}"))
    assert (request.path, request.body) == ("/things/7", wide)
    assert refusal(plan, Raw(b'{"id": ' + wide + b"}")).keys() == {"id"}
    assert wrong("json", "application/json", Raw(wide), fixed={"/a": 1})
    for kind in ("lines", "form", "multipart", "text", "bytes"):
        assert wrong(kind, "a/b", Raw(wide))


def test_a_long_text_is_not_many_values() -> None:
    text = b" " * jsontext.NEVER_HERE_BYTES + msgspec.json.encode(base64_of(PICTURE))
    assert send(body_plan("bytes", "image/png"), {"body": Raw(text)}).body == PICTURE
    plan = body_plan("multipart", "multipart/form-data", fields=FIELDS)
    assert PICTURE in send(plan, {"body": Raw(b'{"file":' + text + b"}")}).body
    assert wrong("multipart", "multipart/form-data", Raw(b'{"file":' + text + b',"l":[' + b"1," * 2000 + b"1]}"))


JSON = BodyPlan(kind="json", media_type="application/json")


def test_openapi_37_forms_are_read_as_they_were_given() -> None:
    value = {"a b": "c&d=é+%20", "empty": "", "number": 7, "list": ["x", "y z"]}
    expected = [("a b", "c&d=é+%20"), ("empty", ""), ("number", "7"), ("list", "x"), ("list", "y z")]
    for long in ([], [("long", "a&" * 10_000), ("longer", "é" * 20_000), ("none", "")]):
        body = sent("form", FORM, value | dict(long)).decode("ascii")
        assert parse_qsl(body, keep_blank_values=True, strict_parsing=True) == expected + long


@pytest.mark.parametrize("style", ["form", "deepObject", "pipeDelimited"])
@pytest.mark.parametrize("explode", [True, False])
def test_no_style_encodes_long_texts_one_character_at_a_time(style: Any, explode: bool) -> None:
    text = "a&" * 20_000
    field = Field(style=style, explode=explode, allow_reserved=True)
    for value in (text, [text]):
        body = sent("form", FORM, {"f": value}, fields={"f": field}).decode("ascii")
        assert body.partition("=")[2] == f"%{text.encode().hex('%').upper()}"  # every byte, at once
