"""Bodies in a content coding that nobody asked for: decoded within the limit of the body, and never much beyond it."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections import deque
from functools import partial
from typing import Any

import pytest

from gateway.net.client import Kind, Reply, TransportError
from gateway.net.client.codings import FREE_MEMBERS, HERE_BYTES, PIECE_BYTES, Inflater, decoded
from tests.unit.net.client.scripted import DEADLINE_S, Peer, answering, pooled, serving

pytestmark = pytest.mark.anyio

TEXT = b'{"call_id": "tg-1", "value": "' + b"seven " * 100 + b'"}'
LARGE = bytes(range(256)) * 8192  # 2 MiB, and some KiB when it is compressed
MAX_BODY = 4 * 1024 * 1024


def bare(data: bytes) -> bytes:
    """Deflate without the header of zlib."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def raw(coding: str, body: bytes, *, status: int = 200, chunked: bool = False) -> bytes:
    framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(body)
    if chunked:
        body = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = b"HTTP/1.1 %d OK\r\ncontent-encoding: %b\r\ncontent-type: x/y\r\n%b\r\n\r\n"
    return head % (status, coding.encode(), framing) + body


async def reply_to(answer: bytes, *, max_body: int = MAX_BODY, method: bytes = b"GET") -> Reply:
    async with serving(answering(answer)) as server, pooled(server) as pool:
        reply = await pool.request(method, b"/", (), b"", timeout_s=DEADLINE_S, max_body=max_body)
        assert b"\r\naccept-encoding: identity\r\n" in server.requests[0]
        return reply


BODIES: dict[str, tuple[str, bytes, bytes]] = {
    "gzip": ("gzip", gzip.compress(TEXT), TEXT),
    "another name": (" X-GZIP\t", gzip.compress(TEXT), TEXT),
    "beside identity": ("identity, gzip", gzip.compress(TEXT), TEXT),
    "members": ("gzip", gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:]), TEXT),
    "blocks": ("gzip", b"".join(gzip.compress(LARGE[at : at + 4096]) for at in range(0, len(LARGE), 4096)), LARGE),
    "padding": ("gzip", gzip.compress(TEXT) + bytes(5), TEXT),
    "large": ("gzip", gzip.compress(LARGE), LARGE),
    "large, hardly compressed": ("gzip", gzip.compress(LARGE, 0), LARGE),
    "empty inside": ("gzip", gzip.compress(b""), b""),
    "zlib": ("deflate", zlib.compress(TEXT), TEXT),
    "bare": ("deflate", bare(TEXT), TEXT),
    "plain": ("gzip", TEXT, TEXT),
    "plain and large": ("gzip", LARGE, LARGE),
    "one byte": ("gzip", b"7", b"7"),
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("coding", "body", "meant"), BODIES.values(), ids=BODIES)
async def test_a_body_is_decoded_and_its_headers_say_so(coding: str, body: bytes, meant: bytes, chunked: bool) -> None:
    if chunked and len(body) > 10_000:
        return  # one byte a chunk
    reply = await reply_to(raw(coding, body, chunked=chunked))
    assert reply.body == meant
    assert [name for name, _ in reply.headers if name != b"transfer-encoding"] == [b"content-type"]


@pytest.mark.parametrize(
    ("coding", "body"), [("br", b"xyz"), ("gzip, gzip", b"xyz"), ("identity", b"x"), ("gzip", b"")]
)
async def test_what_cannot_be_decoded_stays_as_it_is(coding: str, body: bytes) -> None:
    reply = await reply_to(raw(coding, body, status=401))
    assert (reply.status, reply.body, reply.header(b"content-encoding")) == (401, body, coding.encode())


async def test_a_reply_without_a_body_is_not_decoded() -> None:
    assert (await reply_to(raw("gzip", b"")[:-4] + b"0\r\n\r\n", method=b"HEAD")).body == b""


WRONG = {
    "cut off": (gzip.compress(TEXT)[:-9], Kind.PROTOCOL),
    "cut off in its header": (gzip.compress(TEXT)[:5], Kind.PROTOCOL),
    "damaged": (gzip.compress(TEXT)[:30] + b"\xff\xff\xff" + gzip.compress(TEXT)[33:], Kind.PROTOCOL),
    "too large": (gzip.compress(bytes(MAX_BODY + 1)), Kind.TOO_LARGE),
    "a bomb": (gzip.compress(gzip.compress(bytes(64 << 20))[:1000] + bytes(64 << 20)), Kind.TOO_LARGE),
    "too large in members": (gzip.compress(bytes(MAX_BODY // 2)) * 3, Kind.TOO_LARGE),
    "too large and plain": (bytes(MAX_BODY + 1), Kind.TOO_LARGE),
}


@pytest.mark.parametrize(("body", "kind"), WRONG.values(), ids=WRONG)
async def test_a_body_that_is_wrong_or_becomes_too_large_is_an_error_that_counts_as_sent(
    body: bytes, kind: Kind
) -> None:
    with pytest.raises(TransportError) as caught:
        await reply_to(raw("gzip", body))
    assert (caught.value.kind, caught.value.sent) == (kind, True)


@pytest.mark.parametrize(
    "packed", [gzip.compress(bytes(64 << 20)), zlib.compress(bytes(64 << 20))], ids=["gzip", "zlib"]
)
async def test_a_bomb_is_decoded_no_further_than_to_its_limit(packed: bytes) -> None:
    inflater, size = Inflater(b"gzip" if packed.startswith(b"\x1f\x8b") else b"deflate", MAX_BODY), 0
    inflater.feed(packed)
    for _ in range(MAX_BODY // PIECE_BYTES):
        piece = inflater.piece()
        assert 0 < len(piece) <= PIECE_BYTES
        size += len(piece)
    assert size == MAX_BODY
    with pytest.raises(TransportError):
        inflater.piece()


@pytest.mark.parametrize("member", [gzip.compress(b""), gzip.compress(b"7")], ids=["empty", "one byte"])
async def test_many_small_members_are_not_taken_apart(member: bytes) -> None:
    """Each begins with 20 bytes and needs a decoder of its own: 8 MiB of them took seconds of the event loop."""
    inflater, pieces = Inflater(b"gzip", MAX_BODY), deque[bytes]()
    inflater.feed(member * 4 * FREE_MEMBERS)
    with pytest.raises(TransportError, match="too many small gzip members") as caught:
        pieces.extend(iter(inflater.piece, b""))
    assert len(pieces) <= FREE_MEMBERS + 1
    assert caught.value.kind is Kind.PROTOCOL


async def test_a_long_body_is_decoded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    async def in_a_thread(work: Any, *args: Any) -> None:
        threads.append(work)
        work(*args)

    monkeypatch.setattr(asyncio, "to_thread", in_a_thread)
    for size, count in ((HERE_BYTES - 1, 0), (HERE_BYTES + PIECE_BYTES, 1)):
        threads.clear()
        assert await decoded(Inflater(b"gzip", MAX_BODY), gzip.compress(bytes(size))) == bytes(size)
        assert len(threads) == count


async def test_a_stream_is_decoded_while_it_comes() -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n")
        for event in (b"data: one\n\n", b"data: two\n\n", bytes(1 << 20)):
            await peer.send(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH))
            await asked.get()

    asked = asyncio.Queue[None]()
    async with serving(script) as server, pooled(server) as pool:
        reply = await pool.reply_or_events(b"POST", b"/", (), b"", timeout_s=DEADLINE_S, max_body=1000)
        assert not isinstance(reply, Reply)
        assert reply.head.header(b"content-encoding") is None
        for event in (b"data: one\n\n", b"data: two\n\n"):
            assert await anext(reply) == event
            asked.put_nowait(None)
        asked.put_nowait(None)
        pieces = [piece async for piece in reply]
        assert (sum(map(len, pieces)), max(map(len, pieces))) == (1 << 20, PIECE_BYTES)


async def test_a_stream_with_a_limit_ends_where_what_it_becomes_exceeds_that() -> None:
    answer = raw("gzip", gzip.compress(bytes(1 << 20)))
    async with serving(answering(answer, answer)) as server, pooled(server) as pool:
        ask = partial(pool.stream, b"GET", b"/", (), b"", timeout_s=DEADLINE_S, idle_s=DEADLINE_S)
        async with ask(max_body=2 << 20) as reply:
            assert (await reply.read()).body == bytes(1 << 20)
        async with ask(max_body=1 << 19) as reply:
            with pytest.raises(TransportError, match="larger than 524288"):
                _ = [piece async for piece in reply]
