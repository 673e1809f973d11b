"""What is learned from a callback tool server, and where it may send us."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import ErrorCode
from gateway.net.client import Origin
from tests.unit.net.client.scripted import answering, listening, serving
from tests.unit.protocols.rap.calling_back import CALLBACK_URL, INVOCATION, TOOL, Toolset, facing
from tests.unit.upstream.facing import head_of, refusal, reply

pytestmark = pytest.mark.anyio

MARK = b"\xef\xbb\xbf"  # of the order of bytes
NOT_ALLOWED = "its endpoint is not a URL at its own origin or one of allowed_origins"


async def test_a_toolset_is_asked_for_below_the_configured_url_with_our_credential() -> None:
    async with facing(Toolset(), "/base", listed=False, token="t0k") as at:
        listing = await at.backend.list_tools()
    assert at.server.requests[0].startswith(b"GET /base/.well-known/rap-toolset HTTP/1.1\r\n")
    fields = head_of(at.server.requests[0])
    assert (fields["accept"], fields["authorization"]) == ("application/json", "bearer t0k")
    assert [(tool.id, tool.remote_id) for tool in listing.tools] == [("builds.lint@1.0.0", "lint")]
    assert at.backend.dialect == "callback"


async def test_a_toolset_may_begin_with_a_byte_order_mark() -> None:
    toolset = Toolset()
    manifest = {"name": "builds", "endpoint": "", "tools": [TOOL]}
    async with facing(toolset, listed=False) as at:
        toolset.manifest = reply(200, MARK + json.dumps(manifest | {"endpoint": at.server.url}).encode())
        assert [tool.id for tool in (await at.backend.list_tools()).tools] == ["builds.lint@1.0.0"]


ANSWERS = [
    (reply(404, b"Not Found", "text/plain"), "answered 404, text/plain, 'Not Found'"),
    (reply(500, b""), "answered 500"),
    (reply(302, b"", location="http://elsewhere.example/"), "answered 302"),
    (reply(200, b'{"name": "builds"'), "Input data was truncated"),
    (reply(200, MARK + MARK + b"{}"), "invalid character"),
    (b"SMTP ready\r\n\r\n", "protocol: "),
]


@pytest.mark.parametrize(("answer", "detail"), ANSWERS, ids=[detail for _, detail in ANSWERS])
async def test_a_toolset_that_cannot_be_fetched_is_for_the_operator(answer: bytes, detail: str) -> None:
    async with facing(answering(answer), listed=False) as at:
        error = await refusal(at.backend.list_tools())
    assert error.code is ErrorCode.BACKEND_UNAVAILABLE
    assert detail in (error.detail or "")


async def test_a_tool_server_that_is_not_there_has_no_toolset_and_takes_no_calls() -> None:
    async with facing(listening, listed=False) as at:
        pass
    for asking in (at.backend.list_tools(), at.backend.dispatch(INVOCATION, CALLBACK_URL)):
        assert (await refusal(asking)).code is ErrorCode.BACKEND_UNAVAILABLE


async def test_a_toolset_with_one_flaw_has_no_tools_and_takes_no_calls() -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        toolset.manifest = reply(200, {"name": "builds", "endpoint": "http://x/", "tools": [TOOL, {"name": "b"}]})
        listing = await at.backend.list_tools()
        assert listing.tools == ()
        assert [rejected.id for rejected in listing.rejected] == ["builds"]
        assert "missing required field `description`" in listing.rejected[0].reason
        assert (await refusal(at.backend.dispatch(INVOCATION, CALLBACK_URL))).detail == "it has no valid toolset"
    assert toolset.noted == []


async def test_a_toolset_that_cannot_be_fetched_again_stays_as_it_was() -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        toolset.manifest = reply(500, b"")
        await refusal(at.backend.list_tools())
        assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is None
    assert [path for path, _ in toolset.noted] == ["/invoke"]


ELSEWHERE = [
    "http://localhost:{port}/invoke",  # the same machine, another name
    "http://127.0.0.1:{other}/invoke",
    "https://127.0.0.1:{port}/invoke",
    "http://user@127.0.0.1:{port}/invoke",
    "http://127.0.0.1:{port}\\@evil.example/invoke",
    "http://127.0.0.1:{port}\r\n/invoke",
    "//127.0.0.1:{port}/invoke",
    "file:///etc/passwd",
    "http://[::1",
    "",
]


@pytest.mark.parametrize("endpoint", ELSEWHERE)
async def test_a_toolset_whose_endpoint_leads_elsewhere_is_refused(endpoint: str) -> None:
    toolset = Toolset()
    async with facing(toolset, listed=False) as at:
        port = at.server.origin.port
        toolset.endpoint = endpoint.format(port=port, other=port + 1 if port < 65535 else port - 1)
        listing = await at.backend.list_tools()
    assert listing.tools == ()
    assert [rejected.reason for rejected in listing.rejected] == [NOT_ALLOWED]


AT_ITS_OWN_ORIGIN = [
    ("http://127.0.0.1:{port}/deep/er?x=1&y=2#part", "/deep/er?x=1&y=2"),
    ("HTTP://127.0.0.1:{port}", "/"),
    ("http://127.0.0.1:{port}//evil.example/", "//evil.example/"),  # a path, and sent as one
]


@pytest.mark.parametrize(("endpoint", "path"), AT_ITS_OWN_ORIGIN)
async def test_any_path_of_its_own_origin_may_be_the_endpoint(endpoint: str, path: str) -> None:
    toolset = Toolset()
    async with facing(toolset, listed=False) as at:
        toolset.endpoint = endpoint.format(port=at.server.origin.port)
        assert (await at.backend.list_tools()).tools
        assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is None
    assert [noted for noted, _ in toolset.noted] == [path]


async def test_an_origin_the_operator_allows_may_be_the_endpoint() -> None:
    worker = Toolset()
    async with serving(worker) as other:
        settings: dict[str, Any] = {"allowed": [other.url], "token": "t0k"}
        async with facing(Toolset(endpoint=f"{other.url}/run"), **settings) as at:
            assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is None
        assert other.origin != Origin.parse(at.server.url)
        assert head_of(other.requests[0])["authorization"] == "bearer t0k"
    assert [path for path, _ in worker.noted] == ["/run"]
