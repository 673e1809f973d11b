"""Any request and any JSON: no 5xx, every refusal is JSON with a `message`, and arguments come back equal. Ours.

Most requests go to the application as a server would hand them over, past HTTP libraries that would not send them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from tests.flow.caller import DIALECTS, SCHEMAS, Caller, every_dialect
from tests.flow.gateways import Running, config, running
from tests.flow.toolserver import object_of, tool, tool_server

pytestmark = pytest.mark.anyio

ENOUGH = settings(max_examples=100, deadline=None)  # about 2 ms each
PREFIXES = ("", *(f"/{dialect}" for dialect in DIALECTS))
PATHS = ("/tools", "/tools/call", "/call", "/health", "/openapi.json", "/challenges/x", "/challenges", "/", "", "*")

Header = tuple[bytes, bytes]
NAMED_HEADERS = st.tuples(
    st.sampled_from(
        [
            b"accept-encoding",
            b"authorization",
            b"content-encoding",
            b"content-length",
            b"content-type",
            b"host",
            b"if-none-match",
            b"oxp-version",
            b"user-agent",
        ]
    ),
    st.sampled_from([b"", b"*", b"1.0", b"gzip;q=0.5, *;q=x", b"application/json; charset=", b"Oxp/", b"Bearer a.b.c"])
    | st.binary(max_size=20),
)
HEADERS = st.lists(NAMED_HEADERS | st.tuples(st.binary(min_size=1, max_size=8), st.binary(max_size=8)), max_size=5)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[bytes, bytes]
    body: bytes


async def exchange(app: ASGIApp, method: str, path: str, headers: list[Header], body: bytes) -> Reply:
    """Sends a request, which must not be answered with a 5xx."""
    sent: list[Message] = []
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(
        {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "surrogateescape"),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8080),
        },
        receive,
        send,
    )
    start, *chunks = sent
    reply = Reply(start["status"], dict(start["headers"]), b"".join(chunk.get("body", b"") for chunk in chunks))
    assert reply.status < 500, reply
    return reply


async def ask(app: ASGIApp, method: str, path: str, headers: list[Header], body: bytes) -> Reply:
    """Sends a request and checks what every answer must be."""
    reply = await exchange(app, method, path, headers, body)
    if method != "HEAD" and reply.status != 304 and b"content-encoding" not in reply.headers:
        document = json.loads(reply.body)
        assert reply.status == 200 or document["message"], reply
    return reply


@pytest.fixture(scope="module")
async def gateway(anyio_backend: object) -> AsyncIterator[Running]:
    """A gateway without authentication, so that requests get further than its refusals."""
    tools = [tool("Echo.Say"), tool("Count.Up", input_schema=object_of(n={"type": "integer"}))]
    async with tool_server(*tools) as server, running(config({"scripted": server.url})) as it:
        yield it


@pytest.fixture(scope="module")
def app(gateway: Running) -> ASGIApp:
    return gateway.gateway.public


@pytest.fixture(scope="module")
def caller(gateway: Running) -> Caller:
    return gateway.caller


@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW", ""]),
    prefix=st.sampled_from(PREFIXES),
    path=st.sampled_from(PATHS) | st.text(max_size=20).map("/".__add__),
    headers=HEADERS,
    body=st.binary(max_size=200),
)
@ENOUGH
async def test_no_request_breaks_the_gateway(
    app: ASGIApp, method: str, prefix: str, path: str, headers: list[Header], body: bytes
) -> None:
    await ask(app, method, prefix + path, headers, body)


@given(
    path=st.sampled_from([prefix + path for prefix in PREFIXES for path in ("/tools/call", "/call", "/tools")]),
    document=ANY_JSON
    | st.dictionaries(
        st.sampled_from(["$schema", "request", "tool_id", "input", "inputs", "call_id", "trace_id", "context"]),
        ANY_JSON
        | st.sampled_from(["Echo.Say", "Count.Up@1", *SCHEMAS.values()])
        | st.dictionaries(
            st.sampled_from(["tool_id", "input", "call_id", "context", "authorization", "secrets", "user_id", "n"]),
            ANY_JSON | st.sampled_from(["Echo.Say", "Count.Up"]),
        ),
    ),
    headers=HEADERS,
)
@example(path="/tools/call", document={"request": {"tool_id": "Echo.Say", "input": {}}}, headers=[])
@ENOUGH
async def test_no_json_breaks_the_gateway(app: ASGIApp, path: str, document: Any, headers: list[Header]) -> None:
    body = json.dumps(document).encode()
    method = "GET" if path.endswith("/tools") else "POST"
    await ask(app, method, path, [(b"content-type", b"application/json"), *headers], body)


HOSTS = (b"", b"[", b"]", b"a b", b"\xff", b"x/otc/y", b"x:y", b"http://x", b"?", b"#/oxp/")


@pytest.mark.parametrize("path", ["/nowhere", "/otc/nowhere", "/health", "/tools", "*", "nowhere"])
async def test_no_host_changes_what_a_path_is(app: ASGIApp, path: str) -> None:
    named = (b"x-request-id", b"the-same")
    alone = await ask(app, "POST", path, [named], b"")
    for host in HOSTS:
        assert await ask(app, "POST", path, [named, (b"host", host)], b"") == alone


@pytest.mark.parametrize("path", ["/tools/call", "/oxp/tools/call", "/lc/tools", "/challenges/x", "/"])
async def test_a_body_of_brackets_breaks_no_path(app: ASGIApp, path: str) -> None:
    for body in (b"[" * 500_000, b'{"a":' * 100_000, b'"' + b"\\" * 500_000, b"1" * 500_000, b"\x00" * 1000):
        for method in ("GET", "POST"):
            await ask(app, method, path, [(b"content-type", b"application/json")], body)


MAX_DEPTH = 64  # of a body, the caller's or the tool server's
MAX_DIGITS = 4300  # of an integer, its sign included
EXAMPLES = 25  # per dialect, about 3 ms each

HUGE = st.integers(1, MAX_DIGITS - 1).map(lambda digits: 10**digits - 7)
NUMBERS = (
    st.integers() | HUGE | HUGE.map(lambda number: -(number // 10)) | st.floats(allow_nan=False, allow_infinity=False)
)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=15
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


def text_of(value: Any) -> str:
    """Tells 1 from 1.0 and 0.0 from -0.0, as `==` does not."""
    return json.dumps(value, sort_keys=True)


@every_dialect
@given(arguments=OBJECTS)
@settings(max_examples=EXAMPLES, deadline=None)
async def test_arguments_come_back_equal(caller: Caller, dialect: str, arguments: dict[str, Any]) -> None:
    assert text_of((await caller.call(dialect, "Echo.Say", arguments)).value) == text_of(arguments)


def nested(depth: int) -> dict[str, Any]:
    """An object of that many levels, arrays among them."""
    value: Any = 1
    for level in range(depth - 1):
        value = [value] if level % 2 else {"in": value}
    return {"in": value}


@every_dialect
async def test_a_body_may_be_nested_up_to_the_limit_and_not_beyond(caller: Caller, dialect: str) -> None:
    around = 1 if dialect == "oxp" else 2  # levels that hold the arguments
    deepest = nested(MAX_DEPTH - around)
    assert (await caller.call(dialect, "Echo.Say", deepest)).value == deepest
    assert (await caller.call(dialect, "Echo.Say", {"in": deepest})).status == 400


@every_dialect
async def test_an_integer_may_have_as_many_digits_as_the_limit_and_no_more(caller: Caller, dialect: str) -> None:
    longest = 10**MAX_DIGITS - 1
    assert (await caller.call(dialect, "Echo.Say", {"n": longest})).value == {"n": longest}
    request = b'{"tool_id":"Echo.Say","input":{"n":%b}}' % (b"9" * (MAX_DIGITS + 1))
    content = request if dialect == "oxp" else b'{"request":%b}' % request
    assert (await caller.send(dialect, "call", "POST", f"/{dialect}/tools/call", content=content)).status == 400
