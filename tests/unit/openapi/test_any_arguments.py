"""Whatever the arguments are: requests stay what the document says, and frameworks read what callers sent."""

from __future__ import annotations

import base64
import email.policy
import posixpath
from email.message import EmailMessage
from email.parser import BytesParser
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from starlette.requests import cookie_parser
from starlette.routing import Match, Route

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import WireRequest
from gateway.net.client.requesthead import encode_head
from gateway.protocols.openapi.document.plan import Access, CallPlan, Field, Parameter, Style, Where
from gateway.protocols.openapi.document.requests import request_of
from tests.unit.openapi.requesting import body_plan, header, parameter, plan_of, send

MEANING = r"""./\%;?#&=+,:|[]{}"' @""" + "\r\n\t\x00\x7f\xa0é\uff0e\u2025\U0001f600"
WORDS = ["..", "%2e%2e", "../x", "a%2fb", "x\r\nX-Admin: 1", "page", "api_key", "a&page=2", "é b", "%25", "a", "2e"]

STYLES: dict[Where, list[Style]] = {
    "path": ["simple", "label", "matrix"],
    "query": ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
    "header": ["simple"],
    "cookie": ["form", "cookie"],
}
NAMES: list[tuple[Where, str]] = [
    *(("path", "id"), ("path", "name"), ("query", "filter")),
    *(("query", "page"), ("header", "X-Tenant"), ("cookie", "session")),
]
CASES = 3000  # in half a second; Hypothesis takes a minute for as many


def any_text(rng: Random) -> str:
    return "".join(rng.choice(rng.choice([MEANING, WORDS])) for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 5])))


def any_value(rng: Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 3 and kind < 0.2:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if depth < 3 and kind < 0.4:
        return {any_text(rng): any_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return any_text(rng) if kind < 0.9 else rng.choice([None, True, 0, -1, 2**70, 1.5, 1e300])


def any_parameter(rng: Random, where: Where, name: str) -> Parameter:
    return parameter(
        where,
        name,
        rng.choice(STYLES[where]),
        explode=rng.random() < 0.5,
        allow_reserved=rng.random() < 0.5,
        media_type=rng.choice(["", "", "", "application/json", "text/plain"]),
        deep_arrays=rng.choice(["repeat", "brackets", "indexes"]),
    )


def test_openapi_38_39_whatever_the_arguments_the_request_is_the_documents() -> None:
    sent = 0
    for seed in range(CASES):
        rng = Random(seed)
        each = [any_parameter(rng, where, name) for where, name in NAMES]
        plan = plan_of(*each, path="/v1/{id}/keys/x-{name}.json", access=Access(key_names=("api_key",)))
        values = {"id": "7", "name": "x"} | {one.argument: any_value(rng) for one in each if rng.random() < 0.3}
        try:
            request = request_of(plan, values, "call-1")
        except GatewayError as refused:
            check_refusal(refused, plan)
        else:
            sent += 1
            check_request(request, free_names(plan, values))
    assert CASES // 5 < sent < CASES  # else this test shows little


def check_refusal(refused: GatewayError, plan: CallPlan) -> None:
    assert refused.code is ErrorCode.INVALID_ARGUMENTS
    assert refused.parameters
    assert refused.parameters.keys() <= {one.argument for one in plan.parameters}


def check_request(request: WireRequest, chosen: set[str]) -> None:
    """Checks that a request goes where the plan says, and has the names that it says or that its caller may choose."""
    encode_head(request.method, request.path.encode("ascii"), b"host", request.headers)  # refuses what ends a line
    path, _, query = request.path.partition("?")
    first, version, id_, keys, name = path.split("/")
    assert (first, version, keys, name[:2], name[-5:]) == ("", "v1", "keys", "x-", ".json")
    assert id_
    while unquote(path) != path:
        path = unquote(path)
        assert posixpath.normpath(path) == path
        assert path.count("/") == 4
    for found in (key for key, _ in parse_qsl(query, keep_blank_values=True)):
        assert found in ("filter", "page", *chosen) or found.startswith(("filter[", "page["))
        assert found != "api_key"
    names = [found for found, _ in request.headers]
    assert len(set(names)) == len(names)
    assert set(names) <= {b"accept", b"x-tenant", b"cookie"}


def free_names(plan: CallPlan, values: dict[str, Any]) -> set[str]:
    """The names that exploded objects have of their caller."""
    objects = (values.get(one.argument) for one in plan.parameters if one.explode and one.where == "query")
    return {name for value in objects if isinstance(value, dict) for name in value}


def text_of(value: Any) -> str:
    """A scalar as servers expect it, apart from how numbers that are no integers are written."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


TEXTS = st.one_of(
    st.text(st.sampled_from([*MEANING, *"a2eE"]), max_size=6), st.text(max_size=6), st.sampled_from(WORDS)
)
NO_FLOATS = st.one_of(TEXTS, st.booleans(), st.integers())
LISTS = st.lists(NO_FLOATS, min_size=1, max_size=4)
OBJECTS = st.dictionaries(TEXTS, NO_FLOATS, min_size=1, max_size=3)


@settings(max_examples=50)
@given(text=NO_FLOATS, array=LISTS, members=OBJECTS, number=st.floats(allow_nan=False, allow_infinity=False))
def test_openapi_31_starlette_reads_the_query_that_was_sent(text: Any, array: Any, members: Any, number: float) -> None:
    def read(value: Any, style: Style, explode: bool) -> list[tuple[str, str]]:
        plan = plan_of(parameter("query", "a b", style, explode=explode))
        return QueryParams(send(plan, {"a b": value}).path.partition("?")[2]).multi_items()

    assert read(text, "form", True) == [("a b", text_of(text))]
    assert float(read(number, "form", True)[0][1]) == number
    assert read(array, "form", True) == [("a b", text_of(item)) for item in array]
    joined = send(plan_of(parameter("query", "l", explode=False)), {"l": array}).path.partition("=")[2]
    assert [unquote(item) for item in joined.split(",")] == [text_of(item) for item in array]
    if "a b" not in members:
        assert read(members, "form", True) == [(name, text_of(value)) for name, value in members.items()]
    inner = {name: value for name, value in members.items() if not set("[]") & set(name)}
    assert read({"x": inner, "l": array}, "deepObject", True) == [
        *((f"a b[x][{name}]", text_of(value)) for name, value in inner.items()),
        *(("a b[l]", text_of(item)) for item in array),
    ]


@settings(max_examples=50)
@given(first=TEXTS, second=st.integers(0))
def test_openapi_38_starlette_routes_a_path_to_the_values_that_were_sent(first: str, second: int) -> None:
    plan = plan_of(parameter("path", "id"), parameter("path", "n"), path="/v1/{id}/keys/{n}")
    try:
        path = send(plan, {"id": first, "n": second}).path
    except GatewayError:
        assume(False)
    routes = [Route(template, lambda _: None) for template in ("/v1/{id}/keys/{n:int}", "/v1/admin", "/{rest:path}")]
    scope = {"type": "http", "method": "GET", "path": unquote(path), "headers": []}
    match, found = next((match, found) for match, found in (route.matches(scope) for route in routes) if match)
    assert (match, found["path_params"]) == (Match.FULL, {"id": first, "n": second})


@settings(max_examples=50)
@given(text=TEXTS, array=LISTS)
def test_openapi_36_starlette_reads_the_cookies_that_were_sent(text: str, array: list[Any]) -> None:
    plan = plan_of(parameter("cookie", "a"), parameter("cookie", "b", explode=False), parameter("cookie", "c"))
    sent = header(send(plan, {"a": text, "b": array, "c": 1}), "cookie")
    assert sent is not None
    found = cookie_parser(sent)
    assert found.keys() == {"a", "b", "c"}
    assert unquote(found["a"]) == text
    assert [unquote(item) for item in found["b"].split(",")] == [text_of(item) for item in array]


@settings(max_examples=40)
@given(members=st.dictionaries(TEXTS, LISTS, max_size=3), file=st.binary(max_size=40))
def test_openapi_37_forms_and_multipart_are_read_as_they_were_given(members: dict[str, Any], file: bytes) -> None:
    expected = [(name, text_of(item)) for name, items in members.items() for item in items]
    form = send(body_plan("form", "application/x-www-form-urlencoded"), {"body": members}).body.decode("ascii")
    assert parse_qsl(form, keep_blank_values=True, max_num_fields=20) == expected
    values = {f"member{at}": items for at, items in enumerate(members.values())} | {
        "file": base64.b64encode(file).decode()
    }
    fields = {"file": Field(is_binary=True)}
    request = send(body_plan("multipart", "multipart/form-data", fields=fields), {"body": values})
    head = f"Content-Type: {header(request, 'content-type')}\r\n\r\n".encode()
    parts = BytesParser(EmailMessage, policy=email.policy.HTTP).parsebytes(head + request.body).iter_parts()
    *texts, last = [
        (part.get_param("name", header="content-disposition"), part.get_payload(decode=True)) for part in parts
    ]
    assert texts == [
        (name, text_of(item).encode()) for name, items in values.items() if name != "file" for item in items
    ]
    assert last == ("file", file)
