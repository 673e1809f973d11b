"""The pools under httpx.AsyncClient: its timeouts and its exceptions."""

from __future__ import annotations

import asyncio
import socket
import ssl

import httpx
import pytest
import trustme

from gateway.transport import Kind, Limits
from tests.unit.transport.clients import client_of, refusal
from tests.unit.transport.scripted import DEADLINE_S, Peer, answering, echo_target, listening, serving, until
from tests.unit.transport.test_pool import unanswering


@pytest.mark.anyio
async def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client_of() as (client, _):
            error, cause = await refusal(client.get(f"http://127.0.0.1:{unused.getsockname()[1]}"))
            assert isinstance(error, httpx.ConnectError)
            assert (cause.kind, cause.sent) == (Kind.CONNECT, False)


@pytest.mark.anyio
async def test_an_untrusted_certificate_is_a_connect_error_and_a_trusted_one_is_none() -> None:
    authority = trustme.CA()
    served, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(served)
    authority.configure_trust(trusting)
    async with serving(echo_target, ssl_context=served, name="localhost") as server:
        async with client_of() as (client, _):
            error, cause = await refusal(client.get(server.url))
            assert isinstance(error, httpx.ConnectError)
            assert (cause.kind, cause.sent) == (Kind.TLS, False)
        async with client_of(ssl_context=trusting) as (client, _):
            assert (await client.get(f"{server.url}/safe")).text == "/safe"


@pytest.mark.anyio
async def test_httpx_timeouts_are_kept() -> None:
    async def deaf(peer: Peer) -> None:
        await peer.wait_for_input()
        await peer.stay()

    short = 0.03
    with unanswering() as port:
        async with client_of(timeout=httpx.Timeout(DEADLINE_S, connect=short)) as (client, _):
            error, cause = await refusal(client.get(f"http://127.0.0.1:{port}"))
            assert isinstance(error, httpx.ConnectTimeout)
            assert cause.sent is False
    async with serving(listening) as server, client_of(timeout=httpx.Timeout(DEADLINE_S, read=short)) as (client, _):
        error, cause = await refusal(client.get(server.url))
        assert isinstance(error, httpx.ReadTimeout)
        assert cause.sent is True
    async with serving(deaf) as server, client_of(timeout=httpx.Timeout(DEADLINE_S, read=short)) as (client, _):
        error, cause = await refusal(client.post(server.url, content=b"x" * 2**24))
        assert isinstance(error, httpx.ReadTimeout)
        assert cause.sent is True
    timeout = httpx.Timeout(DEADLINE_S, pool=short)
    async with serving(listening) as server, client_of(Limits(connections=1), timeout=timeout) as (client, _):
        first = asyncio.create_task(client.get(server.url))
        await until(lambda: len(server.requests) == 1)
        error, cause = await refusal(client.get(server.url))
        assert isinstance(error, httpx.PoolTimeout)
        assert cause.sent is False
        first.cancel()
        await asyncio.wait([first])


@pytest.mark.anyio
async def test_a_read_timeout_counts_from_the_last_bytes() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(0.03)
            await peer.send(b"1\r\nx\r\n")
        await peer.until_closed()

    async with serving(script) as server, client_of(timeout=httpx.Timeout(DEADLINE_S, read=0.2)) as (client, _):
        received = b""
        async with client.stream("GET", server.url) as response:
            body = response.aiter_raw()
            while len(received) < 10:
                received += await anext(body)
            error, _ = await refusal(anext(body))
            assert isinstance(error, httpx.ReadTimeout)
        assert received == b"x" * 10


@pytest.mark.anyio
async def test_rubbish_is_a_remote_protocol_error() -> None:
    async with serving(answering(b"rubbish\r\n\r\n")) as server, client_of() as (client, _):
        error, cause = await refusal(client.get(server.url))
        assert isinstance(error, httpx.RemoteProtocolError)
        assert (cause.kind, cause.sent) == (Kind.PROTOCOL, True)


@pytest.mark.anyio
async def test_a_header_that_would_split_the_request_is_a_local_protocol_error() -> None:
    async with serving(echo_target) as server, client_of() as (client, _):
        for headers in ({"X-A": "a\r\nX-B: b"}, {"Host": "h\r\nX-B: b"}):
            error, cause = await refusal(client.get(server.url, headers=headers))
            assert isinstance(error, httpx.LocalProtocolError)
            assert cause.sent is False
        assert server.requests == []


@pytest.mark.anyio
async def test_other_schemes_are_not_spoken() -> None:
    async with client_of() as (client, _):
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")
