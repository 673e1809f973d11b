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
from tests.unit.transport.scripted import answering, echo_target, listening, serving, until


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


@pytest.mark.anyio
@pytest.mark.parametrize("announced", [{}, {"Content-Length": "12"}])
async def test_a_body_in_parts_is_sent_whole(announced: dict[str, str]) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one", b"", b"two", b"three"):
            yield part

    async with serving(echo_target) as server, client_of() as (client, _):
        for _ in range(2):
            assert (await client.post(f"{server.url}/up", content=parts(), headers=announced)).text == "/up"
        assert server.connections == 1
        assert server.requests[0].endswith(b"content-length: 11\r\n\r\nonetwothree")
        assert b"transfer-encoding" not in server.requests[0].lower()


@pytest.mark.anyio
async def test_a_body_whose_source_fails_costs_no_connection() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"one"
        raise KeyError("source")

    async with serving(listening) as server, client_of() as (client, transport):
        with pytest.raises(KeyError):
            await client.post(server.url, content=failing())
        assert not transport._pools


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
