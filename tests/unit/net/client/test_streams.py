"""Replies that are read while they arrive: pace, limits, ends, and what is left of their connections."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from math import inf

import pytest

from gateway.net.body_memory import BodyMemory
from gateway.net.client import Kind, Limits, Pool, StreamedReply
from gateway.net.client.replies import UNCOUNTED_BYTES
from tests.unit.net.client.scripted import (
    DEADLINE_S,
    OK,
    Peer,
    Script,
    answering,
    call,
    echo_target,
    failure,
    listening,
    pooled,
    serving,
    stats_of,
    then,
    until,
)

pytestmark = pytest.mark.anyio

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT_S = 0.05
ONE_READ = 2**19  # a read of the event loop, and some room


def stream(
    pool: Pool,
    target: bytes = b"/",
    *,
    method: bytes = b"GET",
    timeout_s: float = inf,
    idle_s: float = DEADLINE_S,
    max_body: int | None = None,
) -> AbstractAsyncContextManager[StreamedReply]:
    return pool.stream(method, target, (), b"", timeout_s=timeout_s, idle_s=idle_s, max_body=max_body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sending(*parts: bytes, stays: bool = True) -> Script:
    """Answers the first request of a connection with these parts; then stays, or closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for part in parts:
            await peer.send(part)
        if stays:
            await peer.until_closed()

    return script


async def trickling(peer: Peer) -> None:
    await peer.request()
    await peer.send(EVENTS)
    while True:
        await peer.send(chunk(b"x"))
        await asyncio.sleep(0.005)


async def read_into(pieces: list[bytes], reply: StreamedReply) -> None:
    async for piece in reply:
        pieces.append(piece)  # noqa: PERF401 - what came before an error counts


async def everything(pool: Pool, **options: float) -> bytes:
    async with stream(pool, **options) as reply:  # type: ignore[arg-type]
        return b"".join([piece async for piece in reply])


# Head, pieces, whole.


async def test_the_head_comes_before_the_body() -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        await go.wait()
        await peer.send(chunk(b"data: a\n\n") + b"0\r\n\r\n")
        await peer.until_closed()

    async with serving(script) as server, pooled(server) as pool, stream(pool) as reply:
        assert (reply.head.status, reply.head.header(b"content-type")) == (200, b"text/event-stream")
        go.set()
        assert [piece async for piece in reply] == [b"data: a\n\n"]


async def test_it_can_be_read_whole_also_after_its_first_piece() -> None:
    large = bytes(300_000)
    raw = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % (5 + len(large))
    async with serving(answering(raw + b"first" + large)) as server, pooled(server) as pool:
        async with stream(pool) as reply:
            first = await anext(reply)
            whole = await reply.read()
        assert (whole.status, whole.headers, first + whole.body) == (201, reply.head.headers, b"first" + large)


# The connection afterwards.


async def test_a_stream_that_was_read_gives_its_connection_back() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(connections=1)) as pool:
        for number in range(3):
            async with stream(pool, b"/%d" % number) as reply:
                assert b"".join([piece async for piece in reply]) == b"/%d" % number
                assert stats_of(pool).idle == 1  # before its reader leaves
        assert (await call(pool, b"/next")).body == b"/next"
        assert server.connections == 1


async def test_a_reply_that_has_arrived_may_be_read_while_its_connection_serves_others() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(stream_bytes=4)) as pool:
        async with stream(pool, b"/longer-than-four") as reply:
            assert (await call(pool, b"/next")).body == b"/next"
            assert (await reply.read()).body == b"/longer-than-four"
        assert server.connections == 1


async def test_a_stream_left_early_closes_its_connection_and_no_other_call_gets_its_rest() -> None:
    async with serving(sending(EVENTS + chunk(b"first"), chunk(b"rest"))) as server, pooled(server) as pool:
        for number in range(3):
            async with stream(pool) as reply:
                assert (await anext(reply)).startswith(b"first")
            assert stats_of(pool).slots == 0
            assert (await failure(anext(reply))).kind is Kind.CLOSED
            assert server.connections == number + 1
        await until(lambda: server.open == 0)


# Pace.


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_a_reader_who_pauses_slows_the_server_down_and_loses_nothing(framing: str) -> None:
    block = bytes(range(256)) * 256
    count = 384  # 24 MiB: more than the socket buffers of both ends hold
    peers: list[Peer] = []

    async def script(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        chunked = framing == "chunked"
        await peer.send(EVENTS if chunked else b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(block)))
        for _ in range(count):
            await peer.send(chunk(block) if chunked else block)
        if chunked:
            await peer.send(b"0\r\n\r\n")
        await peer.request()
        await peer.send(OK)
        await peer.until_closed()

    async with serving(script) as server, pooled(server) as pool:
        async with stream(pool, idle_s=DEADLINE_S) as reply:
            received = len(await anext(reply))
            await until(lambda: peers[0].unsent > 0)
            async for piece in reply:
                assert len(piece) <= Limits().stream_bytes + ONE_READ
                received += len(piece)
        assert received == count * len(block)
        assert (await call(pool)).body == b"ok"
        assert server.connections == 1


async def test_a_slow_reader_is_no_silent_server() -> None:
    script = sending(EVENTS + chunk(b"a") + b"0\r\n\r\n")
    async with serving(script) as server, pooled(server) as pool, stream(pool, idle_s=0.5) as reply:
        await asyncio.sleep(0.6)
        assert (await reply.read()).body == b"a"


# How it fails, and whether anything was sent.


@pytest.mark.parametrize("parts", [[], [EVENTS], [EVENTS + chunk(b"x")]], ids=["no head", "no body", "a piece"])
async def test_a_server_that_is_silent_for_too_long_ends_the_stream(parts: list[bytes]) -> None:
    async with serving(then(sending(*parts))) as server, pooled(server) as pool:
        await call(pool)
        error = await failure(everything(pool, idle_s=SHORT_S))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)
        assert stats_of(pool).slots == 0


@pytest.mark.parametrize("reads", [True, False])
async def test_the_deadline_ends_a_stream_whether_it_is_read_or_not(reads: bool) -> None:
    async with serving(trickling) as server, pooled(server) as pool, stream(pool, timeout_s=0.5) as reply:
        if not reads:
            await until(lambda: stats_of(pool).slots == 0)
        error = await failure(read_into([], reply))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)


async def test_a_stream_that_breaks_gives_what_came_and_then_the_error() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"
    async with serving(sending(raw, stays=False)) as server, pooled(server) as pool, stream(pool) as reply:
        assert await anext(reply) == b"hello"
        for _ in range(2):
            error = await failure(anext(reply))
            assert (error.kind, error.sent) == (Kind.CLOSED, True)


async def test_before_a_connection_is_there_nothing_was_sent() -> None:
    async with serving(listening) as server, pooled(server, Limits(connections=1)) as pool:
        assert (await failure(everything(Pool(server.origin), timeout_s=0))).sent is False
        first = asyncio.create_task(everything(pool))
        await until(lambda: len(server.requests) == 1)
        for options in ({"idle_s": SHORT_S}, {"timeout_s": SHORT_S}):
            error = await failure(everything(pool, **options))
            assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert len(server.requests) == 1
        first.cancel()
        await asyncio.wait([first])


# Sizes.


async def test_a_body_may_have_just_its_limit() -> None:
    raw = EVENTS + chunk(b"x" * 40) + chunk(b"x" * 60) + b"0\r\n\r\n"
    async with serving(answering(raw, raw)) as server, pooled(server) as pool:
        assert await everything(pool, max_body=100) == b"x" * 100
        error = await failure(everything(pool, max_body=99))
        assert (error.kind, error.sent) == (Kind.TOO_LARGE, True)
        assert "99 bytes" in str(error)


async def test_the_limit_holds_for_all_pieces_together() -> None:
    received: list[bytes] = []
    async with serving(trickling) as server, pooled(server) as pool, stream(pool, max_body=20) as reply:
        error = await failure(read_into(received, reply))
        assert error.kind is Kind.TOO_LARGE
        assert "20 bytes" in str(error)
        assert b"".join(received) == b"x" * 20


# Memory.

LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (8 * UNCOUNTED_BYTES) + bytes(8 * UNCOUNTED_BYTES)


class Remembering(BodyMemory):
    """Knows the most that was ever held."""

    most = 0

    def take(self, holder: str, size: int) -> None:
        super().take(holder, size)
        self.most = max(self.most, self.held)


@pytest.mark.parametrize("how", ["left", "read", "taken", "broken"])
async def test_what_waits_for_its_reader_is_counted_in_memory_until_it_is_taken(how: str) -> None:
    memory = Remembering(2**30)
    async with serving(sending(LARGE[:-1] if how == "broken" else LARGE, stays=how != "broken")) as server:
        pool = Pool(server.origin, memory=memory)
        async with stream(pool) as reply:
            await until(lambda: memory.held > 0)
            assert memory.held <= Limits().stream_bytes + UNCOUNTED_BYTES
            if how == "read":
                assert len((await reply.read()).body) == 8 * UNCOUNTED_BYTES
                assert memory.most > 4 * UNCOUNTED_BYTES
            elif how == "taken":
                await read_into([], reply)
            elif how == "broken":
                assert (await failure(read_into([], reply))).kind is Kind.CLOSED
        assert memory.held == 0
        await pool.aclose()


async def test_a_whole_reply_waits_while_the_memory_is_full() -> None:
    memory = BodyMemory(2**20)
    async with serving(sending(LARGE)) as server:
        pool = Pool(server.origin, memory=memory)
        memory.take("a caller", 2**20)
        async with stream(pool) as reply:
            reading = asyncio.create_task(reply.read())
            await until(lambda: memory.is_full)
            await asyncio.sleep(SHORT_S)
            assert memory.held <= 2**20 + 2 * UNCOUNTED_BYTES
            memory.give("a caller", 2**20)
            assert len((await reading).body) == 8 * UNCOUNTED_BYTES
        assert memory.held == 0
        await pool.aclose()
