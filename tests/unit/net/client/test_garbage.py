"""A connection that ends, however it ends, is freed at once: no cycle keeps it and what it has read in memory."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from gateway.net.client import Limits, Origin, Pool, TransportError
from gateway.net.client.connection import PooledConnection
from tests.support.ports import lasting_port
from tests.unit.net.client.scripted import OK, Peer, Script, call, serving, until

pytestmark = pytest.mark.anyio


LIMITS = Limits(connect_timeout_s=0.1)
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"


def saying(words: bytes, *, stays: bool = False) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(words)
        if stays:
            await peer.until_closed()

    return script


async def hanging_up(peer: Peer) -> None:
    """Says nothing."""


ENDINGS = {
    "answered": saying(OK),
    "no answer": hanging_up,
    "half an answer": saying(HALF),
    "no end": saying(HALF, stays=True),
    "no HTTP": saying(b"SSH-2.0\r\n\r\n"),
    "too large": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(3_000_000)),
}


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left() -> list[object]:
    """The connections and errors of this process."""
    return [thing for thing in gc.get_objects() if isinstance(thing, PooledConnection | TransportError)]


async def fail(pool: Pool) -> None:
    with suppress(TransportError):
        await call(pool, timeout_s=0.2)


async def assert_nothing_left(pool: Pool) -> None:
    with without_collector():
        before = len(left())
        await asyncio.gather(*(fail(pool) for _ in range(3)))
        await pool.aclose()
        await until(lambda: len(left()) <= before)


@pytest.mark.parametrize(("how", "is_tls"), [*((how, False) for how in ENDINGS), ("answered", True), ("no end", True)])
async def test_nothing_is_left_of_a_connection(
    how: str, is_tls: bool, server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with serving(ENDINGS[how], ssl_context=server_context if is_tls else None) as server:
        await assert_nothing_left(Pool(server.origin, LIMITS, trusting))


@pytest.mark.parametrize("how", ["stranger", "no TLS", "silence"])
async def test_nothing_is_left_of_a_handshake_that_fails(how: str, server_context: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_input()
        if how == "silence":
            await peer.until_closed()

    async with serving(script, ssl_context=server_context if how == "stranger" else None) as server:
        await assert_nothing_left(Pool(Origin("https", "127.0.0.1", server.origin.port), LIMITS))


async def test_nothing_is_left_of_a_connection_that_was_refused() -> None:
    await assert_nothing_left(Pool(Origin("http", "127.0.0.1", lasting_port()), LIMITS))
