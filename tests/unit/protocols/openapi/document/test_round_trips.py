"""From a document to what a server reads: every place, style and type, and next to each value one that is refused."""

from __future__ import annotations

import email.policy
import json
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

import pytest
from starlette.requests import Request
from starlette.routing import Match as Matched
from starlette.routing import Route

from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject
from gateway.core.wire import WireRequest
from gateway.protocols.common.listing import decode_summary
from gateway.protocols.openapi.document.curation import ToolTerms
from gateway.protocols.openapi.document.plan import OperationTool
from gateway.protocols.openapi.document.requests import request_of
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.documents import root, terms


class Type(NamedTuple):
    """A schema, values of it, and values that are not of it. `read` makes a value of what a server has split."""

    schema: JsonObject
    values: list[Json]
    wrong: list[Json]
    read: Callable[[Any], Json] = lambda text: text


MEMBERS: JsonObject = {"r": {"type": "integer"}, "g": {"type": "string"}}
TYPES: dict[str, Type] = {
    "text": Type({"type": "string"}, ["blue", "a b", "7", "+~x"], [7, ["a"], {}]),
    "integer": Type({"type": "integer"}, [0, -7, 2**53 + 1], ["7", 1.5, [7]], int),
    "number": Type({"type": "number"}, [1.5, 10.0, 1e21, 5e-324], ["x", True], float),
    "boolean": Type({"type": "boolean"}, [True, False], ["true", 1], {"true": True, "false": False}.__getitem__),
    "texts": Type({"type": "array", "items": {"type": "string"}}, [["blue"], ["b", "a b", "b"]], ["blue", [7]]),
    "integers": Type(
        {"type": "array", "items": {"type": "integer"}}, [[1], [3, -1, 2]], [["x"], 1], lambda texts: [*map(int, texts)]
    ),
    "object": Type(
        {"type": "object", "properties": MEMBERS, "required": ["r"], "additionalProperties": False},
        [{"r": 1}, {"r": 100, "g": "a b"}],
        [{"g": "x"}, {"r": "x"}, {"r": 1, "x": 2}, "r,1", [["r", 1]]],
        lambda texts: {"r": int(texts["r"])} | {name: texts[name] for name in texts if name != "r"},
    ),
}


class Received(NamedTuple):
    """A request as an author of a server has it: decoded by a framework, but for what is split before it is decoded."""

    segment: str
    query: dict[str, list[str]]
    raw_query: str
    headers: dict[str, str]
    cookies: dict[str, str]


def received(request: WireRequest) -> Received:
    path, _, query = request.path.partition("?")
    headers = [(name, text) for name, text in request.headers]
    scope = {"type": "http", "method": "GET", "path": unquote(path), "query_string": query.encode(), "headers": headers}
    seen = Request(scope)
    match, found = Route("/{number}/{v}/end", lambda _: None).matches(scope)
    segment = found["path_params"]["v"] if match is Matched.FULL else ""
    return Received(segment, parse_qs(query, keep_blank_values=True), query, dict(seen.headers), seen.cookies)


def pairs(parts: list[str]) -> dict[str, str]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def assigned(parts: list[str]) -> dict[str, str]:
    return dict(part.split("=") for part in parts)


def delimited(text: str, delimiter: str) -> list[str]:
    return [unquote(part) for part in text.partition("=")[2].split(delimiter)]


def of_query(query: dict[str, list[str]]) -> dict[str, str]:
    return {name: texts[0] for name, texts in query.items()}


def bare(query: dict[str, list[str]]) -> dict[str, str]:
    return {name.removeprefix("v[").removesuffix("]"): text for name, text in of_query(query).items()}


Reader = Callable[[Received], Any]
# How servers read a parameter `v`, by place, style and explode: one value, an array, an object; None: not offered.
READERS: dict[tuple[str, str, bool], tuple[Reader | None, Reader | None, Reader | None]] = {
    ("path", "simple", False): (
        lambda got: got.segment,
        lambda got: got.segment.split(","),
        lambda got: pairs(got.segment.split(",")),
    ),
    ("path", "simple", True): (
        lambda got: got.segment,
        lambda got: got.segment.split(","),
        lambda got: assigned(got.segment.split(",")),
    ),
    ("path", "label", False): (
        lambda got: got.segment[1:],
        lambda got: got.segment[1:].split(","),
        lambda got: pairs(got.segment[1:].split(",")),
    ),
    ("path", "label", True): (
        lambda got: got.segment[1:],
        lambda got: got.segment.split(".")[1:],
        lambda got: assigned(got.segment.split(".")[1:]),
    ),
    ("path", "matrix", False): (
        lambda got: got.segment.removeprefix(";v="),
        lambda got: got.segment.removeprefix(";v=").split(","),
        lambda got: pairs(got.segment.removeprefix(";v=").split(",")),
    ),
    ("path", "matrix", True): (
        lambda got: got.segment.removeprefix(";v="),
        lambda got: got.segment.split(";v=")[1:],
        lambda got: assigned(got.segment.split(";")[1:]),
    ),
    ("query", "form", False): (
        lambda got: got.query["v"][0],
        lambda got: got.query["v"][0].split(","),
        lambda got: pairs(got.query["v"][0].split(",")),
    ),
    ("query", "form", True): (
        lambda got: got.query["v"][0],
        lambda got: got.query["v"],
        lambda got: of_query(got.query),
    ),
    ("query", "spaceDelimited", False): (
        lambda got: got.query["v"][0],
        lambda got: delimited(got.raw_query, "%20"),
        lambda got: pairs(delimited(got.raw_query, "%20")),
    ),
    ("query", "pipeDelimited", False): (
        lambda got: got.query["v"][0],
        lambda got: got.query["v"][0].split("|"),
        lambda got: pairs(got.query["v"][0].split("|")),
    ),
    ("query", "pipeDelimited", True): (lambda got: got.query["v"][0], lambda got: got.query["v"], None),
    ("query", "deepObject", True): (None, lambda got: got.query["v[]"], lambda got: bare(got.query)),
    ("header", "simple", False): (
        lambda got: got.headers["v"],
        lambda got: got.headers["v"].split(","),
        lambda got: pairs(got.headers["v"].split(",")),
    ),
    ("header", "simple", True): (
        lambda got: got.headers["v"],
        lambda got: got.headers["v"].split(","),
        lambda got: assigned(got.headers["v"].split(",")),
    ),
    ("cookie", "form", False): (
        lambda got: unquote(got.cookies["v"]),
        lambda got: unquote(got.cookies["v"]).split(","),
        lambda got: pairs(unquote(got.cookies["v"]).split(",")),
    ),
    ("cookie", "form", True): (
        lambda got: unquote(got.cookies["v"]),
        lambda got: [*map(unquote, parse_qs(got.headers["cookie"])["v"])],
        lambda got: of_query(parse_qs(got.headers["cookie"])),
    ),
    ("cookie", "cookie", True): (lambda got: got.cookies["v"], None, lambda got: got.cookies),
}
SCALARS = ("text", "integer", "number", "boolean")


def reader_of(place: tuple[str, str, bool], kind: str) -> Reader | None:
    one, array, members = READERS[place]
    return one if kind in SCALARS else members if kind == "object" else array


def each() -> Iterator[tuple[tuple[str, str, bool], str]]:
    for place in READERS:
        for kind in TYPES:
            yield place, kind


def operation_id(place: tuple[str, str, bool], kind: str) -> str:
    return f"{place[0]}_{place[1]}_{place[2]}_{kind}"


def read(paths: JsonObject, **said: Any) -> tuple[dict[str, OperationTool], dict[str, str]]:
    text = encode(root(paths, "3.2.0", components={"securitySchemes": {"key": KEY}}))
    first, *parts = read_operations(encode(terms(methods=("ALL",), **said)), text)
    decode = decoder()
    found = {tool.tool.partition(".")[2]: tool for part in parts for tool in decode(part)}
    return found, {one.id: one.reason for one in decode_summary(first).rejected}


KEY = {"type": "apiKey", "in": "query", "name": "api_key"}


def parameter_paths() -> JsonObject:
    """An operation for each way to send each type; the parameter is called `v` and is required."""
    paths: JsonObject = {}
    for number, ((where, style, explode), kind) in enumerate(each()):
        schema = TYPES[kind].schema
        node = {"name": "v", "in": where, "style": style, "explode": explode, "required": True, "schema": schema}
        path = f"/{number}/{{v}}/end" if where == "path" else f"/{number}"
        paths[path] = {"get": {"operationId": operation_id((where, style, explode), kind), "parameters": [node]}}
    return paths


def is_refused(tool: OperationTool, arguments: JsonObject) -> bool:
    """Whether arguments are refused: by the tool's schema, or because they cannot be sent."""
    if CompiledSchema.compile(tool.input_schema).findings(arguments):
        return True
    try:
        request_of(tool.plan, arguments, "call-1")
    except GatewayError:
        return True
    return False


def sent(tool: OperationTool, arguments: JsonObject) -> WireRequest:
    assert CompiledSchema.compile(tool.input_schema).findings(arguments) == []
    return request_of(tool.plan, arguments, "call-1")


@pytest.fixture(scope="module")
def by_parameter() -> tuple[dict[str, OperationTool], dict[str, str]]:
    return read(parameter_paths())


@pytest.mark.parametrize("place", READERS, ids=lambda place: f"{place[0]}-{place[1]}-{place[2]}")
def test_openapi_30_servers_read_the_arguments_that_callers_gave(
    place: tuple[str, str, bool], by_parameter: tuple[dict[str, OperationTool], dict[str, str]]
) -> None:
    tools, rejected = by_parameter
    for kind, (_, values, wrong, typed) in TYPES.items():
        name, reader = operation_id(place, kind), reader_of(place, kind)
        if reader is None:
            assert name not in tools or place[1] == "cookie"
            assert name in rejected or place[1] == "cookie"
            continue
        tool = tools[name]
        for value in values:
            if style_lacks(place, value):
                assert is_refused(tool, {"v": value})
            else:
                assert typed(reader(received(sent(tool, {"v": value})))) == value, (name, value)
        for bad in [{"v": value} for value in wrong] + [{}, {"v": None}, {"v": values[0], "w": 1}]:
            assert is_refused(tool, bad), (name, bad)


def style_lacks(place: tuple[str, str, bool], value: Json) -> bool:
    """Whether a style has no form for a value: nothing is encoded in its cookies, or blanks separate its items."""
    has_blank = " " in json.dumps(value, separators=(",", ":"))
    if place[1] == "spaceDelimited":
        return has_blank and isinstance(value, list | dict)
    if place[1] == "label" and place[2]:
        return False
    return place[1] == "cookie" and has_blank


FILE = {"type": "string", "format": "binary"}
FORM: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "l": TYPES["texts"].schema, "o": TYPES["object"].schema},
    "required": ["n"],
    "additionalProperties": False,
}
UPLOAD = {**FORM, "properties": {**FORM["properties"], "file": FILE}}
FORM_VALUES: list[Json] = [{"n": 1}, {"n": 2, "l": ["a&b", "é"], "o": {"r": 1, "g": "="}}]
NO_FORM: list[Json] = [{}, {"n": "x"}, {"n": 1, "x": 1}, [], "n=1"]
PICTURE = {"base64": "AP8KDQ==", "filename": 'a"b.png', "content_type": "image/png"}


def read_form(request: WireRequest) -> Json:
    pairs = parse_qs(request.body.decode("ascii"), keep_blank_values=True)
    return (
        {"n": int(pairs["n"][0])}
        | with_list(pairs)
        | {name: json.loads(pairs[name][0]) for name in pairs if name == "o"}
    )


def with_list(found: dict[str, list[str]]) -> JsonObject:
    return {"l": found["l"]} if "l" in found else {}


def read_multipart(request: WireRequest) -> Json:
    head = b"Content-Type: " + dict(request.headers)[b"content-type"] + b"\r\n\r\n"
    message = BytesParser(EmailMessage, policy=email.policy.HTTP).parsebytes(head + request.body)
    parts: dict[str, list[str]] = {}
    value: JsonObject = {}
    for part in message.iter_parts():
        name, payload = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        if part.get_filename() is not None:
            assert (part.get_content_type(), part.get_filename(), payload) == (
                "image/png",
                "a%22b.png",
                b"\x00\xff\n\r",
            )
            value["file"] = PICTURE
        else:
            parts.setdefault(name, []).append(payload.decode())
    return (
        value
        | {"n": int(parts["n"][0])}
        | with_list(parts)
        | ({"o": json.loads(parts["o"][0])} if "o" in parts else {})
    )


# By media type: the schema, values, values that are refused, and how a server reads a body.
BODIES: dict[str, tuple[JsonObject, list[Json], list[Json], Callable[[WireRequest], Json]]] = {
    "application/json": (
        {"type": ["object", "array", "null", "integer"], "items": {"type": "integer"}},
        [None, [], [1, 2], {}, {"a": {"b": None}}, 0],
        ["x", 1.5, ["x"]],
        lambda request: json.loads(request.body),
    ),
    "application/vnd.a+json; v=1": ({"type": "string"}, ["é", ""], [7, None], lambda request: json.loads(request.body)),
    "application/x-ndjson": (
        {"type": "array", "items": {"type": "integer"}},
        [[], [1, 2]],
        [1, ["x"], {}],
        lambda request: [json.loads(line) for line in request.body.splitlines()],
    ),
    "application/x-www-form-urlencoded": (FORM, FORM_VALUES, NO_FORM, read_form),
    "multipart/form-data": (
        UPLOAD,
        [*FORM_VALUES, {"n": 1, "file": PICTURE}],
        [*NO_FORM, {"n": 1, "file": "!"}, {"n": 1, "file": {"base64": "AA=="} | {"name": "x"}}],
        read_multipart,
    ),
    "text/plain; charset=iso-8859-1": (
        {"type": "string"},
        ["é", "a\nb"],
        ["€", 7],
        lambda request: request.body.decode("latin-1"),
    ),
    "image/png": (FILE, ["AP8="], ["AP8", {}, "é"], lambda request: {b"\x00\xff": "AP8="}[request.body]),
}


def test_openapi_21_37_servers_read_the_bodies_that_callers_gave() -> None:
    paths = {
        f"/{number}": {
            "post": {
                "operationId": f"body{number}",
                "parameters": [{"name": "body", "in": "query", "schema": {"type": "integer"}}],
                "requestBody": {"required": True, "content": {media_type: {"schema": schema}}},
            }
        }
        for number, (media_type, (schema, *_)) in enumerate(BODIES.items())
    }
    tools, rejected = read(paths)
    assert rejected == {}
    for number, (media_type, (_, values, wrong, reader)) in enumerate(BODIES.items()):
        tool = tools[f"body{number}"]
        for value in values:
            request = sent(tool, {"body": value, "query_body": 7})
            assert (request.path, reader(request)) == (f"/{number}?body=7", value)
            content_type = dict(request.headers)[b"content-type"].decode()
            assert content_type.startswith(media_type)
            assert content_type == media_type or media_type == "multipart/form-data"
        for bad in wrong:
            assert is_refused(tool, {"body": bad}), (media_type, bad)
        assert is_refused(tool, {})


def test_openapi_28_what_is_hidden_or_a_credential_no_caller_can_send() -> None:
    free = {"name": "filter", "in": "query", "schema": {"type": "object", "additionalProperties": {"type": "string"}}}
    more = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("admin", "owner", "sort")]
    paths = {"/things": {"get": {"operationId": "find", "parameters": [free, *more], "security": [{"key": []}]}}}
    said = {"find": ToolTerms(arguments={"owner": "acme"}, hide=("admin",))}
    (tool,) = read(paths, tools=said)[0].values()
    assert tool.input_schema["properties"].keys() == {"filter", "sort"}
    assert sent(tool, {"filter": {"size": "1"}, "sort": "x"}).path == "/things?size=1&owner=acme&sort=x"
    for name in ("admin", "owner", "sort", "api_key", "Admin", "admin[x]"):
        assert is_refused(tool, {"filter": {name: "evil"}}), name
    assert is_refused(tool, {"owner": "evil"})
