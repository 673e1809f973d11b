"""The pools under httpx.AsyncClient: its interface, bodies of every kind, and many servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.transport import Kind
from gateway.transport.adapter import MAX_ORIGINS
from tests.unit.transport.clients import client_of, refusal
from tests.unit.transport.scripted import Peer, answering, echo_target, listening, serving, until


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
