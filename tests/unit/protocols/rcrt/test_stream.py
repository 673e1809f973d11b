"""The event stream: believed as long as it proves itself, reopened sparingly, and never the only way home."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from gateway.core.backoff import JITTER
from gateway.net.client import Pool
from gateway.offload import ChildTasks
from gateway.protocols.rcrt.breadcrumbs import Breadcrumb
from gateway.protocols.rcrt.client import RcrtClient, Timings
from gateway.protocols.rcrt.stream import BreadcrumbStream, reconnect_wait_s
from gateway.upstream.replica_url import Server as ToolServer
from tests.unit.net.client.scripted import DEADLINE_S, Peer, Script, Server, serving
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.crumbs import (
    FAST_POLL,
    HELLO,
    LIMITS,
    SLOW_POLL,
    facing,
    invocation,
    new_key,
    rcrt_settings,
    until,
)

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
PING = b'data: {"type":"ping","ts":"2025-11-10T09:00:05Z"}\n\n'


def event(crumb_id: str = "b7e0", **members: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"breadcrumb_id": crumb_id, **members}).encode()


class Heard:
    def __init__(self) -> None:
        self.crumbs: list[Breadcrumb] = []
        self.gaps = 0

    def gap(self) -> None:
        self.gaps += 1


@asynccontextmanager
async def listening(
    script: Script, timings: Timings = FAST_POLL
) -> AsyncIterator[tuple[BreadcrumbStream, Heard, Server]]:
    heard = Heard()
    async with serving(script) as server, aclosing(Pool(server.origin, LIMITS)) as pool:
        at = ToolServer(server.url, pool, DEADLINE_S)
        settings = rcrt_settings(server.url, auth={"bearer": "t"}, max_response="1KiB")
        client = RcrtClient("crumbs", settings, at, ChildTasks(memory_bytes=0), timings)
        stream = BreadcrumbStream(client, on_event=heard.crumbs.append, on_gap=heard.gap)
        async with aclosing(stream):
            stream.start()
            yield stream, heard, server


def sending(*parts: bytes, stays: bool = True) -> Script:
    """Answers each connection with these bytes, then stays open or ends it."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for part in parts:
            await peer.send(part)
        if stays:
            await peer.until_closed()

    return script


async def test_a_stream_is_asked_for_with_our_token_and_its_events_are_handed_on() -> None:
    async with listening(sending(HEAD, PING, event("a") + event("b")[:9], event("b")[9:])) as (_, heard, server):
        await until(lambda: len(heard.crumbs) == 2)
        head = server.requests[0].lower()
    assert head.startswith(b"get /events/stream http/1.1\r\n")
    assert b"\r\nauthorization: bearer t\r\n" in head
    assert b"\r\naccept: text/event-stream\r\n" in head
    assert [crumb.id for crumb in heard.crumbs] == ["a", "b"]


@pytest.mark.parametrize("lost", [b"data: {broken\n\n", b"data: \xff\n\n", event("x" * 50, context={"a": "x" * 2000})])
async def test_an_event_that_cannot_be_read_is_a_gap(lost: bytes) -> None:
    """Ours: it may have been a response, and a poll will find that."""
    async with listening(sending(HEAD, lost, event("after"))) as (stream, heard, _):
        await until(lambda: len(heard.crumbs) == 1)
        assert heard.gaps == 2  # the first is that the stream was opened
        assert stream.is_up


NO_STREAM = [
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nNATS",
    b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
    b"rubbish\r\n\r\n",
]


@pytest.mark.parametrize("answer", NO_STREAM, ids=["503", "401", "html", "rubbish"])
async def test_a_stream_that_cannot_be_opened_is_tried_again_and_logged_once(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer)

    async with listening(script) as (stream, heard, server):
        await stream.tried()
        assert not stream.is_open
        await until(lambda: len(server.requests) >= 3 and heard.gaps >= 3)
    assert [record.message for record in caplog.records] == ["an event stream broke off"]


async def test_a_silent_stream_is_given_up() -> None:
    async with listening(sending(HEAD, PING), replace(FAST_POLL, idle_s=0.05)) as (stream, heard, server):
        await until(lambda: server.connections == 2 and stream.is_open)
        assert heard.gaps >= 3  # opened, broken off, opened


@pytest.mark.parametrize("piece", [b"\n", b":\n"], ids=repr)
async def test_a_stream_that_floods_is_ended_and_what_it_may_have_said_is_asked_for(
    piece: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + event("a"))
        while True:
            await peer.send(piece * 10_000)

    async with listening(script) as (_, heard, server):
        await until(lambda: server.connections > 1)
        assert heard.crumbs
        assert heard.gaps > 1
    lines = [each for each in caplog.records if each.getMessage() == "an event stream broke off"]
    assert "100000 lines and 5000 more per second" in lines[0].__dict__["reason"]


async def test_pings_keep_a_stream_alive() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD)
        for _ in range(10):
            await peer.send(PING)
            await asyncio.sleep(0.03)
        await peer.send(event("last"))
        await peer.until_closed()

    async with listening(script, replace(FAST_POLL, idle_s=0.2)) as (_, heard, server):
        await until(lambda: bool(heard.crumbs))
        assert server.connections == 1


async def test_a_stream_that_lasted_is_opened_again_soon_however_often_it_ends() -> None:
    timings = replace(FAST_POLL, calm_s=0.0, reconnect_s=60.0)
    async with listening(sending(HEAD, event("a"), stays=False), timings) as (_, heard, server):
        await until(lambda: server.connections >= 5 and len(heard.crumbs) >= 5)


async def test_a_deaf_stream_is_closed_and_trusted_again_with_its_first_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + PING)
        if peer.number > 0:
            await go.wait()
            await peer.send(event("a"))
        await peer.until_closed()

    go = asyncio.Event()
    async with listening(script, replace(FAST_POLL, canary_s=0.0)) as (stream, _, server):
        await until(lambda: stream.is_up)
        for request_id in ("tg-1", "tg-2", "tg-late"):
            stream.expect_echo(request_id)
        for request_id in ("tg-1", "tg-2"):
            stream.time_echo(request_id, stored=True)
        await until(lambda: not stream.is_up)
        await until(
            lambda: "our own request did not come back as an event" in str([r.__dict__ for r in caplog.records])
        )
        await until(lambda: stream.connection == 2 and stream.is_open)
        stream.time_echo("tg-late", stored=True)  # of a connection that is gone
        await until(lambda: not stream._echoes)
        assert stream.is_open
        assert not stream.is_up
        go.set()
        await until(lambda: stream.is_up)
        assert server.connections == 2


async def test_the_wait_for_the_first_attempt_has_a_limit() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.stay()

    async with listening(script, replace(FAST_POLL, stream_open_s=0.05)) as (stream, _, _server):
        await stream.tried()
        assert not stream.is_open


WAITS = [
    *((1, 0.0, 0.5), (2, 0.0, 1.0), (3, 0.0, 2.0), (4, 0.0, 30.0), (5, 0.0, 30.0)),
    *((5, 20.0, 10.0), (6, 45.0, 0.5)),  # from one opening to the next
]


@pytest.mark.parametrize(("attempt", "lasted_s", "wait_s"), WAITS)
def test_the_first_three_reconnects_are_quick_and_later_ones_half_a_minute_apart(
    attempt: int, lasted_s: float, wait_s: float
) -> None:
    waits = {reconnect_wait_s(Timings(), attempt, lasted_s) for _ in range(20)}
    assert wait_s <= min(waits) < max(waits) <= wait_s * (1 + JITTER)


# With the demonstration server.


async def test_a_stream_that_stays_deaf_costs_few_connections(crumbs: Crumbs) -> None:
    crumbs.order("stream", "deaf", times=100)
    timings = replace(FAST_POLL, canary_s=0.05, reconnect_s=60.0)
    async with facing(crumbs.url, timings=timings) as (backend, kept):
        for _ in range(8):
            assert (await kept.call(backend, invocation("echo", new_key()))).value == HELLO
            await asyncio.sleep(0.06)  # longer than the canary lives: each call may raise suspicion
        assert 2 <= backend._stream.connection <= 4


async def test_a_fast_tool_is_no_reason_for_suspicion(crumbs: Crumbs) -> None:
    timings = replace(SLOW_POLL, canary_s=0.05)
    async with facing(crumbs.url, timings=timings) as (backend, kept):
        for _ in range(5):
            await kept.call(backend, invocation("echo", new_key()))
        await asyncio.sleep(0.1)  # the canaries are judged by then
        assert (backend.stream_up, backend._stream.connection) == (True, 1)
        assert not backend._stream._echoes
