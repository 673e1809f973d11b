"""Replies that are streamed are judged as whole ones are: by what was sent, and by what came."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from gateway.backends.exchange import HttpExchange
from gateway.dialects import recognise
from gateway.errors import ErrorCode
from gateway.model import Invocation
from gateway.sse import EventParser
from gateway.transport import Kind, Reply, StreamedReply, TransportError
from tests.unit.backends.admitting import admission, context_of, settings_of
from tests.unit.backends.facing import IDEMPOTENT, INVOCATION, OK, VALUE, refusal
from tests.unit.transport.scripted import Peer, Script, Server, listening, serving

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PROGRESS = b'data: {"progress": 1}\n\n'
ANSWER = b"data: " + json.dumps(VALUE).encode() + b"\n\n"


async def read_answer(reply: StreamedReply, invocation: Invocation) -> Reply:
    """Reads events up to the one with the result; a reply that is no stream is read whole."""
    if reply.head.header(b"content-type") != b"text/event-stream":
        return await reply.read()
    parser = EventParser(4096)
    async for chunk in reply:
        for event in parser.feed(chunk):
            if b'"success"' in event.data:
                return Reply(200, (), event.data)
    raise TransportError(Kind.CLOSED, "The stream ended without an answer.", sent=True)


def streaming(*pieces: bytes, stays: bool = False) -> Script:
    """Sends the pieces, each as soon as it can, and hangs up unless it `stays`."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
        if stays:
            await peer.request()

    return script


def exchange_at(url: str) -> HttpExchange:
    context = context_of(admission(url))
    request = recognise.OXP.request_list()
    return HttpExchange("crm", settings_of("oxp", url), context, request, read_stream=read_answer)


@asynccontextmanager
async def facing(script: Script) -> AsyncIterator[tuple[HttpExchange, Server]]:
    async with serving(script) as server, aclosing(exchange_at(server.url)) as exchange:
        yield exchange, server


@pytest.mark.parametrize("pieces", [(HEAD, b": ping\n\n", PROGRESS, ANSWER), (HEAD + ANSWER,), (OK,)])
async def test_the_answer_is_taken_out_of_the_stream_while_it_goes_on(pieces: Sequence[bytes]) -> None:
    async with facing(streaming(*pieces, stays=True)) as (exchange, _):
        assert (await exchange.call(recognise.OXP, INVOCATION)).value == 7


@pytest.mark.parametrize(("invocation", "requests"), [(INVOCATION, 1), (IDEMPOTENT, 2)])
@pytest.mark.parametrize("pieces", [(HEAD, PROGRESS), (HEAD, ANSWER[:10]), ()])
async def test_a_stream_that_ends_before_the_answer_leaves_the_outcome_unknown(
    pieces: Sequence[bytes], invocation: Invocation, requests: int
) -> None:
    async with facing(streaming(*pieces)) as (exchange, server):
        failure = (await exchange.call(recognise.OXP, invocation)).failure
        assert len(server.requests) == requests
    assert failure is not None
    assert (failure.outcome, failure.can_retry) == ("unknown", invocation.idempotent)


async def test_a_stream_that_cannot_be_asked_for_is_a_refusal() -> None:
    async with serving(listening) as server:
        url = server.url
    async with aclosing(exchange_at(url)) as exchange:
        assert (await refusal(exchange.call(recognise.OXP, INVOCATION))).code is ErrorCode.BACKEND_UNAVAILABLE
