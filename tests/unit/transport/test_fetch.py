"""Single requests to any URL, each over a connection of its own."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import trustme

from gateway.transport import Fetcher, Kind, Reply
from tests.unit.transport.scripted import DEADLINE_S, OK, answering, echo_target, failure, serving, until
from tests.unit.transport.test_pool import unanswering

pytestmark = pytest.mark.anyio


async def fetch(fetcher: Fetcher, url: str, method: bytes = b"GET", body: bytes = b"", **options: Any) -> Reply:
    options = {"timeout_s": DEADLINE_S, "max_body": 1000} | options
    return await fetcher.request(method, url, ((b"a", b"1"),), body, **options)


async def test_each_request_has_a_connection_of_its_own() -> None:
    async with serving(echo_target) as server:
        for target in ("/a?b=c%20d", "/", "/x"):
            assert (await fetch(Fetcher(), server.url + target)).body.decode() == target
        assert (await fetch(Fetcher(), server.url + "?q#part")).body == b"/?q"
        await until(lambda: server.open == 0)
        assert server.connections == 4


async def test_method_headers_and_body_are_sent() -> None:
    async with serving(answering(OK)) as server:
        await fetch(Fetcher(), f"{server.url}/up", b"POST", b"{}")
        host = server.origin.authority
        assert server.requests == [b"POST /up HTTP/1.1\r\nhost: %b\r\na: 1\r\ncontent-length: 2\r\n\r\n{}" % host]


async def test_errors_are_those_of_the_pool() -> None:
    async with serving(answering(OK)) as server:
        error = await failure(fetch(Fetcher(), server.url, max_body=1))
        assert (error.kind, error.sent) == (Kind.TOO_LARGE, True)
        await until(lambda: server.open == 0)
    with unanswering() as port:
        error = await failure(fetch(Fetcher(connect_timeout_s=0.03), f"http://127.0.0.1:{port}"))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)


async def test_certificates_are_checked() -> None:
    authority = trustme.CA()
    served, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(served)
    authority.configure_trust(trusting)
    async with serving(echo_target, ssl_context=served, name="localhost") as server:
        error = await failure(fetch(Fetcher(), server.url))
        assert (error.kind, error.sent) == (Kind.TLS, False)
        assert (await fetch(Fetcher(ssl_context=trusting), f"{server.url}/safe")).body == b"/safe"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "/path", "http://", "http://user:word@127.0.0.1/"])
async def test_a_url_that_cannot_be_requested_is_a_value_error(url: str) -> None:
    with pytest.raises(ValueError, match=r"^a URL"):
        await fetch(Fetcher(), url)
