"""Calls over HTTP whose outcome flow tests cannot show, and replies that are streamed instead of read whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from math import inf
from time import monotonic

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.core.model import Invocation, ToolResult
from gateway.core.sse import EventParser
from gateway.core.wire import WireRequest
from gateway.net.client import Kind, Reply, TransportError
from gateway.protocols.otc import surface as otc_surface
from gateway.upstream import replica_url as replicas
from gateway.upstream.admission import Lease
from gateway.upstream.exchange import HttpExchange
from tests.unit.net.client.scripted import Peer, Script, Server, answering, listening, serving
from tests.unit.upstream.admitting import admission, context_of, settings_of
from tests.unit.upstream.facing import (
    IDEMPOTENT,
    INVOCATION,
    OK,
    VALUE,
    backend_at,
    facing,
    head_of,
    outcome,
    refusal,
    reply,
)

pytestmark = pytest.mark.anyio


async def test_a_duration_is_that_of_the_tool_or_else_measured() -> None:
    assert await outcome(answering(OK)) == ToolResult(value=7, duration_ms=2)
    measured = (await outcome(answering(reply(200, VALUE | {"duration": None})))).duration_ms
    assert measured is not None
    assert 0 < measured < 5000


async def test_a_request_carries_our_name_our_credential_and_what_is_forwarded() -> None:
    async with facing(answering(OK), "/base", token="t0k") as (backend, server):
        await backend.call(replace(INVOCATION, headers=((b"x-tenant", b"9"),)))
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /base/tools/call HTTP/1.1\r\n")
    fields = head_of(server.requests[0])
    assert fields["user-agent"].startswith("toolgate/")
    assert (fields["authorization"], fields["x-tenant"], fields["oxp-version"]) == ("bearer t0k", "9", "1.0")
    assert json.loads(body) == {"call_id": "tg-1", "tool_id": "A.B@1.0.0", "input": {"n": 1}}


async def test_a_second_sending_that_was_not_sent_leaves_the_outcome_unknown() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        listener.close()
        writer.close()

    listener = await asyncio.start_server(die, "127.0.0.1", 0)
    async with aclosing(backend_at(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")) as backend:
        failure = (await backend.call(IDEMPOTENT)).failure
    assert failure is not None
    assert failure.message == "The connection to the tool server broke; the tool may have run."


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PROGRESS = b'data: {"progress": 1}\n\n'
ANSWER = b"data: " + json.dumps(VALUE).encode() + b"\n\n"


async def send(lease: Lease[replicas.Server], request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
    """Sends a call and reads events up to the one with the result; a reply that is no stream is read whole."""
    target = lease.replica.target
    async with target.pool.stream(
        request.method,
        target.target(request.path),
        request.headers,
        request.body,
        timeout_s=deadline - monotonic(),
        idle_s=inf,
        max_body=4096,
    ) as reply:
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
    request = otc_surface.OXP.request_list()
    return HttpExchange("crm", settings_of("oxp", url), context, request, send=send)


@asynccontextmanager
async def facing_stream(script: Script) -> AsyncIterator[tuple[HttpExchange, Server]]:
    async with serving(script) as server, aclosing(exchange_at(server.url)) as exchange:
        yield exchange, server


@pytest.mark.parametrize("pieces", [(HEAD, b": ping\n\n", PROGRESS, ANSWER), (HEAD + ANSWER,), (OK,)])
async def test_the_answer_is_taken_out_of_the_stream_while_it_goes_on(pieces: Sequence[bytes]) -> None:
    async with facing_stream(streaming(*pieces, stays=True)) as (exchange, _):
        assert (await exchange.call(otc_surface.OXP, INVOCATION)).value == 7


@pytest.mark.parametrize(("invocation", "requests"), [(INVOCATION, 1), (IDEMPOTENT, 2)])
@pytest.mark.parametrize("pieces", [(HEAD, PROGRESS), (HEAD, ANSWER[:10]), ()])
async def test_a_stream_that_ends_before_the_answer_leaves_the_outcome_unknown(
    pieces: Sequence[bytes], invocation: Invocation, requests: int
) -> None:
    async with facing_stream(streaming(*pieces)) as (exchange, server):
        failure = (await exchange.call(otc_surface.OXP, invocation)).failure
        assert len(server.requests) == requests
    assert failure is not None
    assert (failure.outcome, failure.can_retry) == ("unknown", invocation.idempotent)


async def test_a_stream_that_cannot_be_asked_for_is_a_refusal() -> None:
    async with serving(listening) as server:
        url = server.url
    async with aclosing(exchange_at(url)) as exchange:
        assert (await refusal(exchange.call(otc_surface.OXP, INVOCATION))).code is ErrorCode.BACKEND_UNAVAILABLE
