"""Refusals of the HTTP surface itself: paths, methods, types and sizes. The codes are HTTP's, the rest is ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.flow.caller import DIALECTS, Caller, call_body, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

ROUTES = [{"tools": "Echo.*", "backend": "scripted"}, {"tools": "*", "backend": "scripted", "scopes": ["counts"]}]
LC_AGENT = {"user-agent": "universal-tool-sdk-py/0.0.2"}


def spoken(path: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The dialect of an answer, the path and the headers that tell it."""
    yield from ((dialect, f"/{dialect}{path}", {}) for dialect in DIALECTS)
    yield from (("oxp", path, {"oxp-version": "1.0"}), ("lc", path, LC_AGENT), ("bare", path, {}))


@pytest.mark.parametrize(
    "path", ["/", "", "/tool", "/tools/", "/tools/call/", "/tools/call/more", "/health/", "//tools"]
)
async def test_an_unknown_path_is_not_found_in_the_dialect_the_head_tells(demo: Caller, path: str) -> None:
    for dialect, whole, headers in spoken(path):
        for method in ("GET", "POST"):
            answer = await demo.send(dialect, "call", method, whole, headers=headers)
            assert answer.status == 404


async def test_an_unknown_prefix_is_not_found(demo: Caller) -> None:
    for path in ("/xyz/tools", "/OTC/tools", "/otc/otc/tools", "/openapi.json/", "/metrics", "/livez"):
        dialect = "otc" if path.startswith("/otc") else "bare"
        assert (await demo.send(dialect, "call", "GET", path)).status == 404


@pytest.mark.parametrize(
    ("path", "methods", "allowed"),
    [
        ("/tools/call", ("GET", "PUT", "DELETE", "OPTIONS", "PATCH"), {"POST"}),
        ("/call", ("GET", "DELETE"), {"POST"}),
        ("/tools", ("POST", "PUT", "DELETE"), {"GET", "HEAD"}),
        ("/health", ("POST", "DELETE"), {"GET", "HEAD"}),
    ],
)
async def test_a_405_lists_methods(demo: Caller, path: str, methods: tuple[str, ...], allowed: set[str]) -> None:
    """Spec: RFC 9110, 15.5.6: `Allow`."""
    for dialect, whole, headers in spoken(path):
        for method in methods:
            answer = await demo.send(dialect, "call", method, whole, headers=headers)
            assert answer.status == 405
            assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "head",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json; charset=iso-8859-1"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": ""},
        {"content-encoding": "gzip"},
        {"content-encoding": "br, gzip"},
    ],
    ids=repr,
)
async def test_a_call_in_anything_but_plain_json_is_refused(demo: Caller, head: dict[str, str]) -> None:
    for dialect, whole, headers in spoken("/tools/call"):
        request = {"tool_id": "Text.Echo", "input": {"value": 1}}
        answer = await demo.post(dialect, whole, call_body(dialect, request), headers=headers | head)
        assert answer.status == 415


@pytest.mark.parametrize("media", ["application/json", "Application/JSON", 'application/json; charset="UTF-8"'])
@every_dialect
async def test_json_may_be_announced_in_any_of_its_spellings(demo: Caller, dialect: str, media: str) -> None:
    headers = {"content-type": media, "content-encoding": "identity"}
    assert (await demo.call(dialect, "Text.Echo", {"value": 1}, headers=headers)).value == 1


@pytest.mark.parametrize("name", ["host", "content-type", "content-length", "content-encoding", "oxp-version"])
@every_dialect
async def test_a_header_that_decides_something_must_not_be_repeated(demo: Caller, dialect: str, name: str) -> None:
    """Another reader on the way could take the other one."""
    headers = [(name, "application/json"), (name, "application/json")]
    assert (await demo.call(dialect, "Text.Echo", {"value": 1}, headers=headers)).status == 400


async def stream(chunks: int) -> AsyncIterator[bytes]:
    """Spaces, of which a body may begin with as many as it likes."""
    for _ in range(chunks):
        yield b" " * 1024


async def test_a_body_too_large_is_refused_announced_or_streamed(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, server={"max_body": "4KiB"}))).caller
    for dialect, whole, headers in spoken("/tools/call"):
        for content in (b" " * 4097, stream(5), stream(10_000)):
            answer = await caller.send(dialect, "call", "POST", whole, headers=headers, content=content)
            assert answer.status == 413
    answer = await caller.send("oxp", "call", "POST", "/oxp/tools/call", content=stream(4))
    assert answer.status == 400  # it fits, and is no JSON


async def test_a_body_is_not_read_before_its_sender_is_known(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, auth={"jwt": [{"secret": SECRET}]}))).caller
    read = 0

    async def watched() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield b"{}"

    assert (await caller.send("otc", "call", "POST", "/otc/tools/call", content=watched())).status == 401
    assert read == 0


@every_dialect
async def test_strict_errors_are_400_but_for_those_of_http(start: Start, server: ToolServer, dialect: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Call Tool: the letter of its list of Server Errors."""
    text = config(
        {"scripted": server.url},
        ROUTES,
        auth={"jwt": [{"secret": SECRET}]},
        server={"max_body": "4KiB"},
        errors={"strict": True},
    )
    caller = (await start(text)).caller
    known = caller.with_token(token())
    path = f"/{dialect}/tools/call"
    assert (await caller.call(dialect, "Echo.Say")).status == 400
    assert (await known.call(dialect, "Count.Up", {"n": 1})).status == 400
    assert (await known.send(dialect, "call", "POST", path, content=b" " * 5000)).status == 400
    assert (await known.call(dialect, "Echo.Say", headers={"content-type": "text/plain"})).status == 400
    assert (await caller.list(dialect)).status == 400
    assert (await known.send(dialect, "call", "PUT", path)).status == 405
    assert (await known.send(dialect, "call", "POST", path + "/more")).status == 404
    assert (await known.call(dialect, "Echo.Say")).status == 200
