"""Replies that are dear to parse, or mostly not body: others get their turns, and every byte counts."""

from __future__ import annotations

import asyncio
import math
import ssl
import tracemalloc

import pytest

from gateway.net.client import Kind, Limits, Origin, Pool, TransportError
from gateway.net.client.connection import Headers, PooledConnection
from gateway.net.client.replies import WholeReply
from gateway.net.sliced_input import MAX_PIECES, SLICE_BYTES
from tests.unit.net.client.scripted import (
    OK,
    Peer,
    acquire,
    answering,
    call,
    failure,
    pooled,
    serving,
    stats_of,
    until,
)

pytestmark = pytest.mark.anyio

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = bytes(range(32, 127)) * 600  # 57 KB: 340 KB in chunks of one byte
CHOPPED = CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
SMALLEST_CHUNK = len(b"1\r\nx\r\n")
SMALL = Limits(head_bytes=1000)


class Watching(WholeReply):
    """A reply that notes how many chunks came in each turn of the loop."""

    def __init__(self, connection: PooledConnection) -> None:
        super().__init__(connection, b"GET", math.inf, None)
        self.turn = 0
        self.chunks: dict[int, int] = {}
        self.over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.turn += 1
        if not self.over.done():
            asyncio.get_running_loop().call_soon(self._next)

    def on_head(self, status: int, headers: Headers) -> None:
        pass

    def on_body(self, chunk: bytes) -> None:
        self.chunks[self.turn] = self.chunks.get(self.turn, 0) + 1

    def on_end(self) -> None:
        self.over.set_result(None)

    def on_error(self, error: TransportError) -> None:
        self.over.set_exception(error)


async def test_a_reply_in_chunks_of_one_byte_leaves_turns_of_the_loop_to_others() -> None:
    async with serving(answering(CHOPPED)) as server, pooled(server) as pool:
        connection = await acquire(pool)
        watching = Watching(connection)
        connection.start(watching, b"GET / HTTP/1.1\r\n\r\n")
        await watching.over
    assert sum(watching.chunks.values()) == len(BODY)
    assert max(watching.chunks.values()) <= MAX_PIECES + SLICE_BYTES // SMALLEST_CHUNK + 1


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
async def test_it_is_read_whole_and_its_connection_used_again(
    is_tls: bool, server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with (
        serving(answering(CHOPPED, CHOPPED, OK), ssl_context=server_context if is_tls else None) as server,
        pooled(server, ssl_context=trusting) as pool,
    ):
        assert (await call(pool)).body == BODY
        assert (await call(pool)).body == BODY
        assert (await call(pool)).body == b"ok"
        assert server.connections == 1


async def test_a_caller_who_leaves_in_the_middle_of_it_costs_the_connection_only() -> None:
    async with serving(answering(CHOPPED)) as server, pooled(server) as pool:
        task = asyncio.create_task(call(pool))
        await until(lambda: bool(pool.parse_queue._queue))
        task.cancel()
        assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        assert stats_of(pool).live == 0
        assert (await call(pool)).body == BODY


async def test_bytes_behind_a_large_reply_cost_the_connection() -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (2 * SLICE_BYTES, bytes(2 * SLICE_BYTES))

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(large + OK if peer.number == 0 else OK)
        await peer.until_closed()

    async with serving(script) as server, pooled(server) as pool:
        assert len((await call(pool)).body) == 2 * SLICE_BYTES
        assert (await call(pool)).body == b"ok"
        assert server.connections == 2


@pytest.mark.parametrize("size", [1, 10])
async def test_chunk_extensions_count(size: int) -> None:
    piece, sent = b"%x;%b\r\n%b\r\n" % (size, b"a" * 40 * size, b"x" * size), 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(CHUNKED)
        while True:
            await peer.send(piece * 1000)
            sent += len(piece) * 1000

    async with serving(script) as server, pooled(server) as pool:
        error = await failure(call(pool, max_body=2**30))
    assert error.kind is Kind.TOO_LARGE
    assert "framing" in str(error)
    assert sent < 32 * 2**20  # what the sockets hold; the body alone would be let in up to a gigabyte


async def test_extensions_in_proportion_to_their_chunks_are_no_offence() -> None:
    raw = CHUNKED + b"100;sum=0123456789abcdef\r\n%b\r\n" % bytes(256) * 1000 + b"0\r\n\r\n"
    async with serving(answering(raw)) as server, pooled(server, SMALL) as pool:
        assert (await call(pool)).body == bytes(256_000)


async def test_many_small_pieces_take_no_more_memory_than_their_bytes() -> None:
    count = 10_000
    exchange = WholeReply(Pool(Origin("http", "127.0.0.1", 9))._make_connection(), b"GET", 2 * count, None)
    exchange.reply = asyncio.get_running_loop().create_future()
    exchange.on_head(200, ())
    tracemalloc.start()
    try:
        for number in range(count):
            exchange.on_body(b"%02d" % (number % 100))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    exchange.on_end()
    assert len((await exchange.reply).body) == 2 * count
    assert held < 4 * count  # each of them apart takes 35 bytes
