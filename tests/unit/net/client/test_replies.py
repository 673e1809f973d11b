"""Replies: every framing HTTP/1.1 knows, cut into any packets, and everything that is not a reply."""

from __future__ import annotations

import pytest

from gateway.net.client import Kind, Limits, Reply
from tests.unit.net.client.scripted import OK, Peer, answering, call, failure, pooled, serving, stats_of

pytestmark = pytest.mark.anyio

GOOD = {
    "content-length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "no reason phrase": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, b"x"),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        200,
        b"hello",
    ),
    "chunked with extensions and trailers": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
        200,
        b"hello",
    ),
    "chunk sizes padded with blanks and zeros, as some old servers write them": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3  \r\nhel\r\n0002 ;a=b\r\nlo\r\n0\t \r\n\r\n",
        200,
        b"hello",
    ),
    "204 with a length that means nothing": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b""),
    "304 with the length of another": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "an error": (b"HTTP/1.1 503 Oh\r\nContent-Length: 2\r\n\r\nno", 503, b"no"),
    "interim replies first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n" + OK,
        200,
        b"ok",
    ),
    "an upgrade that is only offered": (
        b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nok",
        200,
        b"ok",
    ),
    "HTTP/1.0 that stays": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
}


@pytest.mark.parametrize("name", GOOD)
async def test_a_whole_reply_is_read_and_its_connection_used_again(name: str) -> None:
    raw, status, body = GOOD[name]
    async with serving(answering(raw, raw)) as server, pooled(server) as pool:
        for _ in range(2):
            reply = await call(pool)
            assert (reply.status, reply.body) == (status, body)
        assert server.connections == 1


ENDS_THE_CONNECTION = {
    "Connection: close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "a 500, behind which uvicorn closes unannounced": b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
    "surplus reply in the same packet": OK + OK,
    "a single surplus byte": OK + b"H",
    "surplus rubbish": OK + b"\x00\x01",
    "surplus after a 204": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    "surplus after Connection: close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + OK,
}


@pytest.mark.parametrize("name", ENDS_THE_CONNECTION)
async def test_such_a_reply_is_delivered_and_the_next_call_takes_a_new_connection(name: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDS_THE_CONNECTION[name] if peer.number == 0 else OK)
        await peer.until_closed()

    async with serving(script) as server, pooled(server) as pool:
        assert (await call(pool)).status in (200, 204, 500)
        assert stats_of(pool).live == 0
        assert (await call(pool)).body == b"ok"
        assert server.connections == 2


LENGTH = b"Content-Length: 2\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n"

BROKEN = {
    "rubbish": b"\x16\x03\x01\x02\x00",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a request": b"GET / HTTP/1.1\r\n\r\n",
    "an unknown version": b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "two different lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "the same length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
    "an empty length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok",
    "a length that overflows": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
    "length and chunks": b"HTTP/1.1 200 OK\r\n" + LENGTH + CHUNKS + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks and length": b"HTTP/1.1 200 OK\r\n" + CHUNKS + LENGTH + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "a coding we did not ask for": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks inside another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a coding that is not chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding with a tab behind it": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "a coding that is given twice": b"HTTP/1.1 200 OK\r\n" + CHUNKS + CHUNKS + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "a chunk size that is no number": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a chunk size that overflows": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "a chunk longer than its size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "chunks with bare line feeds": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n",
    "a head with bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "a folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "a null in a header": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok",
    "a blank before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_not_http_is_a_protocol_error_and_costs_the_connection(name: str) -> None:
    async with serving(answering(BROKEN[name])) as server, pooled(server) as pool:
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.PROTOCOL, True)
        assert stats_of(pool).live == 0


SMALL = Limits(head_bytes=1000)
TOO_MUCH = {
    "one long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2000 + b"\r\nContent-Length: 2\r\n\r\nok",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"Content-Length: 2\r\n\r\nok",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2000,
    "interim replies without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "trailers without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 300,
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_a_head_has_a_limit(name: str) -> None:
    async with serving(answering(TOO_MUCH[name])) as server, pooled(server, SMALL) as pool:
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.TOO_LARGE, True)
        assert stats_of(pool).live == 0


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_a_body_has_a_limit_and_may_be_exactly_that_long(framing: str) -> None:
    body = b"x" * 1000
    raw = {
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body,
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + body + b"\r\n0\r\n\r\n",
        "close": b"HTTP/1.1 200 OK\r\n\r\n" + body,
    }[framing]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)
        if framing != "close":
            await peer.request()
            await peer.send(raw)

    async with serving(script) as server, pooled(server) as pool:
        assert (await call(pool, max_body=1000)).body == body
        error = await failure(call(pool, max_body=999))
        assert (error.kind, error.sent) == (Kind.TOO_LARGE, True)
        assert stats_of(pool).live == 0


async def test_a_reply_that_overtakes_its_request_is_delivered_and_costs_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_input()  # and leave nearly all of the 16 MiB unread
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await peer.stay()

    async with serving(script) as server, pooled(server) as pool:
        reply = await call(pool, body=b"x" * 2**24)
        assert reply == Reply(413, ((b"content-length", b"0"),), b"")
        assert stats_of(pool).live == 0
