"""The pools under httpx.AsyncClient: replies that are read as they come, and those who stop reading or writing."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.transport import Kind, Limits
from gateway.transport.stream import Stream
from tests.unit.transport.clients import client_of, refusal
from tests.unit.transport.scripted import OK, Peer, echo_target, listening, serving, until
from tests.unit.transport.stats import stats_of


@pytest.mark.anyio
async def test_an_endless_stream_is_read_as_it_comes_and_dropped_when_left() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for number in range(1_000_000):
            await peer.send(b"data: %d\n\n" % number)
            await asyncio.sleep(0.001)

    async with serving(script) as server, client_of() as (client, transport):
        seen = []
        async with client.stream("GET", server.url, timeout=httpx.Timeout(1.0, read=None)) as response:
            async for line in response.aiter_lines():
                seen.append(line)
                if len(seen) == 20:
                    break
        assert seen[:3] == ["data: 0", "", "data: 1"]
        assert [stats_of(pool).slots for pool in transport._pools.values()] == [0]
        await until(lambda: server.open == 0)


@pytest.mark.anyio
@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_a_reader_who_pauses_slows_the_server_down_and_loses_nothing(framing: str) -> None:
    size = 24 * 2**20  # more than the socket buffers of both ends hold
    peers: list[Peer] = []

    async def script(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        block = bytes(range(256)) * 256
        if framing == "length":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size // len(block)):
                await peer.send(block)
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(size // len(block)):
                await peer.send(b"10000\r\n" + block + b"\r\n")
            await peer.send(b"0\r\n\r\n")
        await peer.request()
        await peer.send(OK)

    async with serving(script) as server, client_of() as (client, transport):
        async with client.stream("GET", server.url) as response:
            body = response.aiter_raw()
            received = len(await anext(body))
            await until(lambda: peers[0].unsent > 0)
            pool = next(iter(transport._pools.values()))
            connection = next(iter(pool._live))
            stream = connection._exchange
            assert isinstance(stream, Stream)
            assert stream._unread <= Limits().stream_bytes + 2**19  # one read of the loop more than we keep
            async for part in body:
                assert len(part) <= Limits().stream_bytes + 2**19
                received += len(part)
        assert received == size
        assert (await client.get(server.url)).text == "ok"
        assert server.connections == 1


@pytest.mark.anyio
async def test_a_reply_left_unread_does_not_silence_the_next_one_on_its_connection() -> None:
    async with serving(echo_target) as server, client_of(Limits(stream_bytes=4)) as (client, _):
        async with client.stream("GET", f"{server.url}/longer-than-four") as response:
            assert (await client.get(f"{server.url}/next")).text == "/next"
            assert await response.aread() == b"/longer-than-four"
        assert server.connections == 1


@pytest.mark.anyio
async def test_a_stream_that_breaks_gives_what_came_and_then_the_error() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")

    async with serving(script) as server, client_of() as (client, _), client.stream("GET", server.url) as response:
        body = response.aiter_raw()
        assert await anext(body) == b"hello"
        error, cause = await refusal(anext(body))
        assert isinstance(error, httpx.RemoteProtocolError)
        assert (cause.kind, cause.sent) == (Kind.CLOSED, True)


@pytest.mark.anyio
async def test_a_reader_who_is_cancelled_frees_the_slot() -> None:
    async with serving(listening) as server, client_of() as (client, transport):
        task = asyncio.create_task(client.get(server.url))
        await until(lambda: len(server.requests) == 1)
        task.cancel()
        await asyncio.wait([task])
        assert [stats_of(pool).slots for pool in transport._pools.values()] == [0]
