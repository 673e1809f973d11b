"""TLS: the certificate decides, and nothing is sent before it has."""

from __future__ import annotations

import ssl

import pytest
import trustme

from gateway.net.client import Kind, Limits, Origin, Pool
from tests.unit.net.client.scripted import (
    Peer,
    Stats,
    call,
    echo_target,
    failure,
    pooled,
    serving,
    stats_of,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_a_trusted_server_is_called_and_its_connection_kept(
    name: str, server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with (
        serving(echo_target, ssl_context=server_context, name=name) as server,
        pooled(server, ssl_context=trusting) as pool,
    ):
        for i in range(5):
            assert (await call(pool, b"/%d" % i)).body == b"/%d" % i
        assert server.connections == 1


async def test_the_handshake_names_the_host(
    server_context: ssl.SSLContext, trusting: ssl.SSLContext, authority: trustme.CA
) -> None:
    names: list[str | None] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with (
        serving(echo_target, ssl_context=context, name="localhost") as server,
        pooled(server, ssl_context=trusting) as pool,
    ):
        await call(pool)
    assert names == ["localhost"]


async def test_an_untrusted_certificate_is_refused_with_nothing_sent(server_context: ssl.SSLContext) -> None:
    async with serving(echo_target, ssl_context=server_context, name="localhost") as server, pooled(server) as pool:
        error = await failure(call(pool, body=b"secret"))
        assert (error.kind, error.sent) == (Kind.TLS, False)
        assert isinstance(error.__cause__, ssl.SSLCertVerificationError)
        assert server.requests == []
        assert stats_of(pool) == Stats(0, 0, 0, 0)


async def test_a_certificate_for_another_name_is_refused_with_nothing_sent(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("tools.example").configure_cert(context)
    async with (
        serving(echo_target, ssl_context=context, name="localhost") as server,
        pooled(server, ssl_context=trusting) as pool,
    ):
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.TLS, False)


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_server_that_does_not_speak_tls_is_a_tls_error(greeting: bytes, trusting: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_input()
        await peer.send(greeting)

    async with serving(script) as server:
        pool = Pool(Origin("https", "127.0.0.1", server.origin.port), None, trusting)
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.TLS, False)
        assert ("does not speak TLS" in str(error)) is bool(greeting)
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        await pool.aclose()


async def test_a_handshake_that_hangs_meets_the_connect_timeout(trusting: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.until_closed()

    async with serving(script) as server:
        pool = Pool(Origin("https", "127.0.0.1", server.origin.port), Limits(connect_timeout_s=0.05), trusting)
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        await pool.aclose()
