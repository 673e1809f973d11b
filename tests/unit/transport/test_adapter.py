"""The httpx transport: what httpx asks for goes out as our requests do, and our errors come back as its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable

import httpx
import pytest
import trustme

from gateway.transport import HttpTransport, Kind, Limits, TransportError
from tests.unit.transport.scripted import DEADLINE_S, Peer, answering, echo_target, listening, serving, until
from tests.unit.transport.test_pool import unanswering

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def client_of(
    limits: Limits | None = None, *, ssl_context: ssl.SSLContext | None = None, timeout: float = DEADLINE_S
) -> AsyncIterator[httpx.AsyncClient]:
    transport = HttpTransport(limits, ssl_context=ssl_context)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
        yield client


async def error_of(sending: Awaitable[httpx.Response]) -> tuple[type[httpx.HTTPError], Kind, bool]:
    """Awaits a request that must fail; returns httpx's exception, and what the transport knows."""
    with pytest.raises(httpx.HTTPError) as caught:
        await sending
    cause = caught.value.__cause__
    assert isinstance(cause, TransportError)
    return type(caught.value), cause.kind, cause.sent


async def test_requests_of_every_shape_go_through() -> None:
    async with serving(echo_target) as server, client_of() as client:
        got = await client.get(f"{server.url}/a?b=c%20d")
        assert (got.status_code, got.text, got.http_version) == (200, "/a?b=c%20d", "HTTP/1.1")
        assert (await client.post(f"{server.url}/json", json={"x": 1})).text == "/json"
        assert (await client.delete(f"{server.url}/gone")).text == "/gone"
        get, post, delete = server.requests
        assert get.startswith(b"GET /a?b=c%20d HTTP/1.1\r\nhost: " + server.origin.authority + b"\r\n")
        assert b"content-length: " not in get + delete
        assert b"connection: " not in get.lower()
        assert post.endswith(b'content-length: 7\r\n\r\n{"x":1}')
        await until(lambda: server.open == 0)  # each had a connection of its own


async def test_a_body_in_parts_is_sent_whole() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one", b"", b"two"):
            yield part

    async with serving(echo_target) as server, client_of() as client:
        assert (await client.post(f"{server.url}/up", content=parts())).text == "/up"
        assert server.requests[0].endswith(b"content-length: 6\r\n\r\nonetwo")
        assert b"transfer-encoding" not in server.requests[0].lower()


async def test_headers_come_back_with_repetitions() -> None:
    raw = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with serving(answering(raw)) as server, client_of() as client:
        reply = await client.get(server.url)
        assert reply.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert "content-length" not in reply.headers


async def test_a_reply_may_be_given_a_limit() -> None:
    async with serving(echo_target) as server, client_of() as client:
        assert (await client.get(f"{server.url}/1234", extensions={"max_body": 5})).text == "/1234"
        error = await error_of(client.get(f"{server.url}/1234", extensions={"max_body": 4}))
        assert error == (httpx.RemoteProtocolError, Kind.TOO_LARGE, True)


async def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client_of() as client:
            error = await error_of(client.get(f"http://127.0.0.1:{unused.getsockname()[1]}"))
            assert error == (httpx.ConnectError, Kind.CONNECT, False)


async def test_an_untrusted_certificate_is_a_connect_error_and_a_trusted_one_is_none() -> None:
    authority = trustme.CA()
    served, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(served)
    authority.configure_trust(trusting)
    async with serving(echo_target, ssl_context=served, name="localhost") as server:
        async with client_of() as client:
            assert await error_of(client.get(server.url)) == (httpx.ConnectError, Kind.TLS, False)
        async with client_of(ssl_context=trusting) as client:
            assert (await client.get(f"{server.url}/safe")).text == "/safe"


async def test_timeouts_say_whether_anything_was_sent() -> None:
    short = 0.03
    with unanswering() as port:
        async with client_of(Limits(connect_timeout_s=short)) as client:
            error = await error_of(client.get(f"http://127.0.0.1:{port}"))
            assert error == (httpx.ConnectTimeout, Kind.TIMEOUT, False)
    async with serving(listening) as server, client_of(timeout=short) as client:
        assert await error_of(client.get(server.url)) == (httpx.ReadTimeout, Kind.TIMEOUT, True)


@pytest.mark.parametrize(("raw", "kind"), [(b"rubbish\r\n\r\n", Kind.PROTOCOL), (b"", Kind.CLOSED)])
async def test_a_reply_that_is_none_is_a_remote_protocol_error(raw: bytes, kind: Kind) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)

    async with serving(script) as server, client_of() as client:
        assert await error_of(client.get(server.url)) == (httpx.RemoteProtocolError, kind, True)


async def test_a_header_that_would_split_the_request_is_a_local_protocol_error() -> None:
    async with serving(echo_target) as server, client_of() as client:
        error = await error_of(client.get(server.url, headers={"X-A": "a\r\nX-B: b"}))
        assert error == (httpx.LocalProtocolError, Kind.INVALID, False)
        assert server.requests == []


async def test_other_schemes_are_not_spoken() -> None:
    async with client_of() as client:
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")
