"""The scripted tool server takes HTTP as clients write it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from toolgate_conformance.clients.rest.scenarios import SCENARIOS, RestScript
from toolgate_conformance.clients.scripted import CONTINUE, HOST, Reply, ScriptedServer
from toolgate_conformance.servers.rest.forms import FORMS

BODY = b'{"tool_id":"KitSums.Echo@1.0.0","input":{},"call_id":"c-1"}'
HEAD = b"POST /tools/call HTTP/1.1\r\nHost: kit\r\nAuthorization: Bearer s3cret\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
REQUESTS = [
    ("with a length", HEAD + LENGTH + b"\r\n" + BODY),
    ("in chunks", HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    ("that offers HTTP/2", HEAD + LENGTH + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n" + BODY),
    ("below the name of the dialect", HEAD.replace(b"/tools", b"/oxp/tools") + LENGTH + b"\r\n" + BODY),
]


@asynccontextmanager
async def served(scenario: str) -> AsyncIterator[ScriptedServer]:
    server, script = ScriptedServer(), RestScript(SCENARIOS[scenario], FORMS["oxp"])
    try:
        await server.start(script.answer)
        script.elsewhere_url = server.elsewhere_url
        yield server
    finally:
        await server.aclose()


async def exchanged(url: str, *pieces: bytes) -> bytes:
    """All that comes back."""
    reader, writer = await asyncio.open_connection(HOST, urlsplit(url).port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@pytest.mark.parametrize("request_", [bytes_ for _, bytes_ in REQUESTS], ids=[name for name, _ in REQUESTS])
def test_it_reads_a_request(request_: bytes) -> None:
    async def play() -> None:
        async with served("plain") as server:
            answer = await exchanged(server.url, request_[:40], request_[40:])
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b'"call_id": "c-1"' in answer
            (request,) = server.requests
            assert request.body == BODY
            assert request.has("s3cret")
            assert "s3cret" not in request.text

    asyncio.run(play())


def test_it_asks_for_a_body_that_waits_to_be_asked_for() -> None:
    async def play() -> bytes:
        async with served("plain") as server:
            return await exchanged(server.url, HEAD + LENGTH + b"Expect: 100-continue\r\n\r\n", BODY)

    assert asyncio.run(play()).startswith(CONTINUE + b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("request_", [b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n", b"", b"GET / HTTP/1.1\r\nBroken"])
def test_what_is_no_request_is_not_kept(request_: bytes) -> None:
    async def play() -> None:
        async with served("plain") as server:
            reader, writer = await asyncio.open_connection(HOST, urlsplit(server.url).port)
            writer.write(request_)
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            assert server.requests == []

    asyncio.run(play())


def test_it_resets_the_connection_where_the_scenario_says_so() -> None:
    async def play() -> None:
        async with served("reset") as server:
            with pytest.raises(ConnectionResetError):
                await exchanged(server.url, HEAD + LENGTH + b"\r\n" + BODY)
            assert (await exchanged(server.url, HEAD + LENGTH + b"\r\n" + BODY)).startswith(b"HTTP/1.1 200 OK\r\n")

    asyncio.run(play())


def test_the_other_origin_serves_a_tool_of_its_own_and_keeps_what_comes() -> None:
    async def play() -> None:
        async with served("empty") as server:
            answer = await exchanged(server.elsewhere_url, HEAD + LENGTH + b"\r\n" + BODY)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert [request.is_elsewhere for request in server.requests] == [True]

    asyncio.run(play())


def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        yield b"x" * 20

    async def play() -> None:
        server = ScriptedServer()
        await server.start(lambda request: Reply(200, {"content-type": "text/event-stream"}, chunks=chunks()))
        try:
            answer = await exchanged(server.url, b"GET / HTTP/1.1\r\nHost: kit\r\n\r\n")
        finally:
            await server.aclose()
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"\r\ntransfer-encoding: chunked\r\n" in head
        assert b"content-length" not in head
        assert body == b"9\r\ndata: 1\n\n\r\n14\r\n" + b"x" * 20 + b"\r\n0\r\n\r\n"

    asyncio.run(play())
