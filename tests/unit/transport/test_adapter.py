"""The pools under httpx.AsyncClient: its interface, its timeouts, its exceptions, and streams that never end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
import trustme

from gateway.transport import HttpTransport, Kind, Limits, TransportError
from gateway.transport.adapter import MAX_ORIGINS
from gateway.transport.stream import Stream
from tests.unit.transport.scripted import (
    DEADLINE_S,
    OK,
    Peer,
    answering,
    echo_target,
    listening,
    serving,
    until,
)
from tests.unit.transport.test_pool import unanswering


@contextlib.asynccontextmanager
async def client_of(
    limits: Limits | None = None,
    *,
    ssl_context: ssl.SSLContext | None = None,
    timeout: float | httpx.Timeout = DEADLINE_S,
) -> AsyncIterator[tuple[httpx.AsyncClient, HttpTransport]]:
    transport = HttpTransport(limits, ssl_context=ssl_context)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
        yield client, transport
        for pool in transport._pools.values():
            assert pool.stats.slots == pool.stats.connecting + pool.stats.live


async def refusal(sending: object) -> tuple[httpx.HTTPError, TransportError]:
    """Awaits a request that must fail and returns what httpx says and what the transport knows."""
    with pytest.raises(httpx.HTTPError) as caught:
        await sending  # type: ignore[misc]
    assert isinstance(caught.value.__cause__, TransportError)
    return caught.value, caught.value.__cause__


@pytest.mark.anyio
async def test_requests_of_every_shape_go_through_and_keep_their_connection() -> None:
    async with serving(echo_target) as server, client_of() as (client, _):
        got = await client.get(f"{server.url}/a?b=c%20d")
        assert (got.status_code, got.text, got.http_version) == (200, "/a?b=c%20d", "HTTP/1.1")
        assert (await client.post(f"{server.url}/json", json={"x": 1})).text == "/json"
        assert (await client.put(f"{server.url}/form", data={"x": "1"})).text == "/form"
        assert (await client.delete(f"{server.url}/gone")).text == "/gone"
        assert server.connections == 1
        get, post, _, delete = server.requests
        assert get.startswith(b"GET /a?b=c%20d HTTP/1.1\r\nhost: " + server.origin.authority + b"\r\n")
        assert b"content-length: " not in get + delete
        assert b"connection: " not in get.lower()
        assert post.endswith(b'content-length: 7\r\n\r\n{"x":1}')


@pytest.mark.anyio
async def test_headers_come_back_with_repetitions() -> None:
    raw = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
    async with serving(answering(raw)) as server, client_of() as (client, _):
        assert (await client.get(server.url)).headers.get_list("set-cookie") == ["a=1", "b=2"]


async def parts() -> AsyncIterator[bytes]:
    for part in (b"one", b"", b"two", b"three"):
        yield part


@pytest.mark.anyio
async def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    async with serving(echo_target) as server, client_of() as (client, _):
        for _ in range(2):
            assert (await client.post(f"{server.url}/up", content=parts())).text == "/up"
        assert server.connections == 1
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert body == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"
        assert b"content-length" not in head.lower()


@pytest.mark.anyio
async def test_a_body_in_parts_may_announce_its_length() -> None:
    async with serving(echo_target) as server, client_of() as (client, _):
        for _ in range(2):
            await client.post(f"{server.url}/up", content=parts(), headers={"Content-Length": "11"})
        assert server.connections == 1
        assert server.requests[0].endswith(b"\r\n\r\nonetwothree")


@pytest.mark.anyio
@pytest.mark.parametrize("length", ["10", "12", "11, 11", "-1", ""])
async def test_a_body_that_is_not_as_long_as_announced_breaks_off(length: str) -> None:
    async with serving(listening) as server, client_of() as (client, transport):
        error, cause = await refusal(client.post(server.url, content=parts(), headers={"Content-Length": length}))
        assert isinstance(error, httpx.LocalProtocolError)
        assert cause.kind is Kind.INVALID
        assert all(pool.stats.live == 0 for pool in transport._pools.values())


@pytest.mark.anyio
async def test_no_byte_is_written_beyond_the_announced_length() -> None:
    received: list[bytes] = []

    async def script(peer: Peer) -> None:
        received.append(await peer.until_closed())

    async with serving(script) as server, client_of() as (client, _):
        await refusal(client.post(server.url, content=parts(), headers={"Content-Length": "10"}))
        await until(lambda: bool(received))
        assert received[0].endswith(b"\r\n\r\nonetwo")


@pytest.mark.anyio
async def test_a_body_whose_source_fails_breaks_off() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"one"
        raise KeyError("source")

    async with serving(listening) as server, client_of() as (client, transport):
        with pytest.raises(KeyError):
            await client.post(server.url, content=failing())
        assert [pool.stats.slots for pool in transport._pools.values()] == [0]


@pytest.mark.anyio
async def test_an_early_answer_ends_the_sending() -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_input()
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await peer.stay()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    async with serving(script) as server, client_of() as (client, transport):
        assert (await client.post(server.url, content=endless())).status_code == 413
        assert [pool.stats.slots for pool in transport._pools.values()] == [0]


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
        assert [pool.stats.slots for pool in transport._pools.values()] == [0]
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
async def test_a_writer_who_waits_for_room_learns_that_the_connection_is_gone() -> None:
    peers: list[Peer] = []

    async def script(peer: Peer) -> None:
        await peer.wait_for_input()
        peers.append(peer)
        await peer.stay()

    async with serving(script) as server, client_of(timeout=httpx.Timeout(None)) as (client, transport):
        sending = asyncio.create_task(refusal(client.post(server.url, content=big_parts())))
        await until(lambda: bool(peers) and any(c._can_write for p in transport._pools.values() for c in p._live))
        peers[0].reset()
        error, cause = await asyncio.wait_for(sending, DEADLINE_S)
        assert isinstance(error, httpx.RemoteProtocolError)
        assert (cause.kind, cause.sent) == (Kind.CLOSED, True)


@pytest.mark.anyio
async def test_a_reader_who_is_cancelled_frees_the_slot() -> None:
    async with serving(listening) as server, client_of() as (client, transport):
        task = asyncio.create_task(client.get(server.url))
        await until(lambda: len(server.requests) == 1)
        task.cancel()
        await asyncio.wait([task])
        assert [pool.stats.slots for pool in transport._pools.values()] == [0]


@pytest.mark.anyio
async def test_a_reply_may_be_given_a_limit() -> None:
    async with serving(echo_target) as server, client_of() as (client, _):
        assert (await client.get(f"{server.url}/1234", extensions={"max_body": 5})).text == "/1234"
        error, cause = await refusal(client.get(f"{server.url}/1234", extensions={"max_body": 4}))
        assert isinstance(error, httpx.RemoteProtocolError)
        assert cause.kind is Kind.TOO_LARGE


@pytest.mark.anyio
async def test_head_and_empty_replies_end_at_once() -> None:
    async with (
        serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) as server,
        client_of() as (client, _),
    ):
        response = await client.head(server.url)
        assert (response.headers["content-length"], response.content) == ("9", b"")


# Failures, as httpx names them.


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
async def test_each_of_httpx_timeouts_is_kept() -> None:
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
    for content in (b"x" * 2**24, big_parts()):
        async with serving(deaf) as server, client_of(timeout=httpx.Timeout(DEADLINE_S, write=short)) as (client, _):
            error, cause = await refusal(client.post(server.url, content=content))
            assert isinstance(error, httpx.WriteTimeout)
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


async def big_parts() -> AsyncIterator[bytes]:
    for _ in range(256):
        yield b"x" * 65536


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


# Many servers.


@pytest.mark.anyio
async def test_the_pool_unused_for_longest_makes_room() -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(echo_target)) for _ in range(MAX_ORIGINS + 2)]
        client, transport = await stack.enter_async_context(client_of())
        for server in servers:
            await client.get(servers[0].url)  # stays in use
            await client.get(server.url)
        assert len(transport._pools) == MAX_ORIGINS
        assert servers[0].origin in transport._pools
        assert servers[1].origin not in transport._pools
        await until(lambda: servers[1].open == 0)
        assert servers[0].connections == 1


@pytest.mark.anyio
async def test_a_pool_in_use_makes_no_room() -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(listening)) for _ in range(MAX_ORIGINS + 1)]
        client, _ = await stack.enter_async_context(client_of())
        running = [asyncio.create_task(client.get(server.url)) for server in servers[:-1]]
        await until(lambda: all(server.requests for server in servers[:-1]))
        error, cause = await refusal(client.get(servers[-1].url))
        assert isinstance(error, httpx.PoolTimeout)
        assert (cause.kind, cause.sent) == (Kind.BUSY, False)
        for task in running:
            task.cancel()
        await asyncio.wait(running)


@pytest.mark.anyio
async def test_closing_the_client_closes_every_connection() -> None:
    async with serving(echo_target) as one, serving(listening) as two:
        async with client_of() as (client, _):
            await client.get(one.url)
            running = asyncio.create_task(client.get(two.url))
            await until(lambda: len(two.requests) == 1)
        with pytest.raises(httpx.RemoteProtocolError):
            await running
        await until(lambda: one.open == two.open == 0)
