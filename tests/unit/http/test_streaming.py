"""Answers sent in pieces: when a stream begins, what is sent while it waits, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message

from gateway.core.model import Progress
from gateway.core.wire import Head, Headers, WireReply
from gateway.http.streaming import LateStream, LateTimer, as_accepted
from gateway.pipeline.request import Request
from gateway.protocols.mcp.callers.answers import McpEncoder, McpStream
from gateway.protocols.mcp.wire import MODERN
from gateway.protocols.otc.surface import REST

pytestmark = pytest.mark.anyio

SOON_S = 0.001
DEADLINE_S = 20.0
REPLY = WireReply(status=200, headers=((b"content-type", b"application/json"),), body=b'{"id":7}')


class Sent:
    """What an application sends, and whether its caller reads."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._changed = asyncio.Event()

    async def __call__(self, message: Message) -> None:
        await self.reads.wait()
        self.messages.append(message)
        self._changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.messages) < count:
                self._changed.clear()
                await self._changed.wait()

    @property
    def pieces(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]


def request(*, token: bytes | None = None, can_stream: bool = True, accept: bytes = b"") -> Request:
    head = Head(method="POST", path="/mcp", headers={b"accept": accept})
    stream = McpStream(token) if can_stream else None
    return Request(head, REST, encoder=McpEncoder(wire_version=MODERN, id=7, stream=stream))


def complete(_: Request, headers: Headers) -> Headers:
    return (*headers, (b"ratelimit", b"x"))


def late(asked: Request, sent: Callable[[Message], Awaitable[None]]) -> LateStream:
    return LateStream(asked, sent, LateTimer(SOON_S), complete, beat_s=SOON_S)


async def test_mcp_20_a_late_answer_is_a_stream_with_comments_and_the_response_is_last() -> None:
    sent = Sent()
    stream = late(request(), sent)
    await sent.until(4)
    assert await stream.end(REPLY)
    stream.close()
    start = sent.messages[0]
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
        b"ratelimit": b"x",
    }
    assert set(sent.pieces[:-1]) == {b":\n\n"}
    assert sent.pieces[-1] == b'event: message\ndata: {"id":7}\n\n'
    assert [message["more_body"] for message in sent.messages[1:]] == [*[True] * (len(sent.pieces) - 1), False]
    assert stream.size == sum(map(len, sent.pieces))


async def test_mcp_42_beats_are_progress_with_growing_values_for_those_who_asked_and_none_comes_after_the_answer() -> (
    None
):
    sent = Sent()
    stream = late(request(token=b'"p"'), sent)
    await sent.until(6)
    assert await stream.end(REPLY)
    seen = len(sent.messages)
    beats: list[Any] = [json.loads(piece.split(b"data: ")[1]) for piece in sent.pieces[:-1]]
    assert {beat["method"] for beat in beats} == {"notifications/progress"}
    assert {beat["params"]["progressToken"] for beat in beats} == {"p"}
    values = [beat["params"]["progress"] for beat in beats]
    assert values == sorted(set(values))
    await asyncio.sleep(5 * SOON_S)
    assert len(sent.messages) == seen


def told(sent: Sent) -> list[Any]:
    """What the caller was told of the progress of its call."""
    events = [json.loads(piece.split(b"data: ")[1]) for piece in sent.pieces if b"params" in piece]
    return [one["params"] for one in events]


def reporting(asked: Request) -> Callable[[Progress], None]:
    assert asked.report is not None
    return asked.report


async def test_mcp_72_progress_begins_the_stream_and_a_sign_of_life_is_hardly_more() -> None:
    """Ours: what keeps a caller waiting must not be above the progress that comes next."""
    sent, asked = Sent(), request(token=b'"p"')
    stream = LateStream(asked, sent, LateTimer(DEADLINE_S), complete, beat_s=SOON_S)
    reporting(asked)(Progress(0.5, 2.0, "reading"))
    await sent.until(4)
    reporting(asked)(Progress(0.6))
    await sent.until(len(sent.messages) + 2)
    assert await stream.end(REPLY)
    first, *more = told(sent)
    assert first == {"progressToken": "p", "progress": 0.5, "total": 2.0, "message": "reading"}
    assert more[0] == {"progressToken": "p", "progress": 0.501, "message": "running for 0 s"}
    assert {"progressToken": "p", "progress": 0.6} in more
    values = [one["progress"] for one in (first, *more)]
    assert values == sorted(set(values))


async def test_mcp_72_a_caller_who_does_not_read_is_owed_the_newest_progress() -> None:
    sent, asked = Sent(), request(token=b"7")
    stream = LateStream(asked, sent, LateTimer(DEADLINE_S), complete)
    report = reporting(asked)
    report(Progress(0.0))
    await sent.until(2)
    sent.reads.clear()
    for done in (1.0, 3.0, 2.0, 1e300, -1.0):
        report(Progress(done))
        await asyncio.sleep(0)
    sent.reads.set()
    await sent.until(4)
    assert await stream.end(REPLY)
    stream.close()
    report(Progress(2e300))  # its run goes on
    assert [one["progress"] for one in told(sent)] == [0.0, 1.0, 1e300]
    assert asked.report is None


async def test_mcp_72_the_last_progress_is_sent_before_an_answer_that_comes_with_it() -> None:
    sent, asked = Sent(), request(token=b"7")
    stream = LateStream(asked, sent, LateTimer(DEADLINE_S), complete)
    for done in (1.0, 2.0):
        reporting(asked)(Progress(done))
    assert await stream.end(REPLY)
    assert [one["progress"] for one in told(sent)] == [2.0]
    assert sent.pieces[-1] == b'event: message\ndata: {"id":7}\n\n'


async def test_mcp_72_progress_that_waits_for_its_caller_to_read_is_sent_before_the_answer() -> None:
    sent, asked = Sent(), request(token=b"7")
    stream = LateStream(asked, sent, LateTimer(DEADLINE_S), complete)
    reporting(asked)(Progress(1.0))
    await sent.until(2)
    sent.reads.clear()
    reporting(asked)(Progress(2.0))
    await asyncio.sleep(0)
    ending = asyncio.create_task(stream.end(REPLY))
    await asyncio.sleep(0)
    sent.reads.set()
    assert await ending
    assert [one["progress"] for one in told(sent)] == [1.0, 2.0]


async def test_mcp_72_a_refusal_that_comes_with_progress_keeps_its_status() -> None:
    sent, asked = Sent(), request(token=b"7")
    stream = LateStream(asked, sent, LateTimer(DEADLINE_S), complete)
    reporting(asked)(Progress(1.0))
    assert not await stream.end(WireReply(status=400, body=b"{}"))
    assert sent.messages == []


async def test_mcp_19_an_answer_in_time_is_no_stream() -> None:
    sent = Sent()
    stream = LateStream(request(), sent, LateTimer(DEADLINE_S), complete)
    assert not await stream.end(REPLY)
    stream.close()
    assert sent.messages == []


async def test_mcp_18_a_caller_that_takes_only_json_is_never_sent_a_stream() -> None:
    sent = Sent()
    stream = late(request(can_stream=False), sent)
    await asyncio.sleep(5 * SOON_S)
    assert not await stream.end(REPLY)
    assert sent.messages == []


async def test_a_request_that_is_still_arriving_when_it_is_late_becomes_a_stream_afterwards() -> None:
    sent, asked = Sent(), request()
    encoder, asked.encoder = asked.encoder, None
    stream = late(asked, sent)
    await asyncio.sleep(5 * SOON_S)
    assert sent.messages == []
    asked.encoder = encoder
    await sent.until(1)
    assert await stream.end(REPLY)


async def test_one_timer_begins_the_streams_of_all_requests_that_are_late_and_of_no_others() -> None:
    late_timer = LateTimer(0.01)
    sent, unheard = [Sent() for _ in range(3)], Sent()
    streams = [LateStream(request(), each, late_timer, complete) for each in sent[:2]]
    LateStream(request(), unheard, late_timer, complete).close()
    await sent[0].until(1)
    streams.append(LateStream(request(), sent[2], late_timer, complete))
    for each, stream in zip(sent, streams, strict=True):
        await each.until(1)
        assert await stream.end(REPLY)
    assert unheard.messages == []


async def test_an_answer_that_comes_before_the_head_could_be_sent_is_no_stream() -> None:
    sent = Sent()
    sent.reads.clear()  # an earlier answer on this connection is not read yet
    stream = late(request(), sent)
    await asyncio.sleep(5 * SOON_S)
    assert not await stream.end(REPLY)
    sent.reads.set()
    assert sent.messages == []


async def test_mcp_21_a_caller_who_does_not_read_is_owed_one_beat_at_most() -> None:
    sent = Sent()
    stream = late(request(), sent)
    await sent.until(2)
    sent.reads.clear()
    await asyncio.sleep(10 * SOON_S)
    seen = len(sent.messages)
    sent.reads.set()
    assert await stream.end(REPLY)
    assert len(sent.messages) <= seen + 2


@pytest.mark.parametrize(
    ("accept", "is_event"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; q=1", True),
        (b"application/json, text/event-stream", False),
        (b"text/event-stream, */*", False),
        (b"application/json", False),
        (b"*/*", False),
        (b"", False),
    ],
)
async def test_mcp_18_one_event_only_for_callers_that_take_nothing_else(accept: bytes, is_event: bool) -> None:
    reply = as_accepted(REPLY, request(accept=accept))
    assert reply.header(b"content-type") == (b"text/event-stream" if is_event else b"application/json")
    assert reply.body == (b'event: message\ndata: {"id":7}\n\n' if is_event else REPLY.body)


async def test_mcp_18_what_is_no_result_stays_what_it_is() -> None:
    asked = request(accept=b"text/event-stream")
    for reply in (WireReply(status=202), WireReply(status=400, body=b"{}")):
        assert as_accepted(reply, asked) is reply
