"""Answers that are sent in pieces: late ones, whose callers may give up if they hear nothing, and those that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf, nextafter
from time import monotonic

from msgspec.structs import replace
from starlette.types import Receive, Send

from gateway.core.encoders import EventStream, StreamingEncoder
from gateway.core.model import Progress
from gateway.core.sse import EVENT_STREAM, event
from gateway.core.wire import Events, Headers, StreamReply, WireReply
from gateway.pipeline.request import Request

STEP = 0.001  # by which a sign of life is above the progress before it: too little to be in the way of what is next
BEAT_S = 15.0  # between two signs of life; proxies and clients drop a connection that is silent for 30 to 60 s


class LateTimer:
    """Requests without an answer: one timer begins the streams of all that last longer than `after_s`.

    A timer for each would cost 2 % of a call.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._due: dict[LateStream, float] = {}  # the first one first, because all may last as long
        self._is_timed = False

    def add(self, stream: LateStream) -> float:
        """Begins the stream if it is still here in `after_s`; returns the time, as `monotonic` has it."""
        now = monotonic()
        self._due[stream] = now + self._after_s
        if not self._is_timed:
            self._look_in(self._after_s)
        return now

    def remove(self, stream: LateStream) -> None:
        self._due.pop(stream, None)

    def _look_in(self, seconds: float) -> None:
        self._is_timed = True
        asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._is_timed = False
        while self._due:
            stream, due = next(iter(self._due.items()))
            if (left_s := due - monotonic()) > 0:
                return self._look_in(left_s)
            del self._due[stream]
            stream.begin()
        return None


class LateStream:
    """Answers one request in pieces.

    It begins a stream when it is late, or once there is progress to tell, if the encoder of the request has one and
    there is no answer yet. Until then the answer can be of any status; afterwards the stream ends with it. `complete`
    adds the headers that every answer of the edge has.
    """

    size = 0  # bytes sent
    _done = -inf  # the last progress
    _news: Progress | None = None  # that is to be sent: the newest
    _stream: EventStream | None = None
    _has_begun = False  # its head is sent
    _beats: asyncio.Task[None] | None = None

    def __init__(
        self,
        request: Request,
        send: Send,
        late_timer: LateTimer,
        complete: Callable[[Request, Headers], Headers],
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        self._request = request
        self._send = send
        self._late_timer = late_timer
        self._complete = complete
        self._beat_s = beat_s
        self._started_s = late_timer.add(self)
        request.report = self._report

    def close(self) -> None:
        """Stops: the request is answered, or its caller has left."""
        self._request.report = None
        self._done = inf  # its run may go on, and report
        self._late_timer.remove(self)
        if self._beats is not None:
            self._beats.cancel()

    def begin(self) -> None:
        """Begins the stream, if there can be one."""
        encoder = self._request.encoder
        if encoder is None:  # its body is still arriving
            self._late_timer.add(self)
            return
        self._stream = encoder.stream if isinstance(encoder, StreamingEncoder) else None
        if self._stream is not None:
            self._woken = asyncio.Event()
            self._beats = asyncio.get_running_loop().create_task(self._beat(self._stream))

    def _report(self, progress: Progress) -> None:
        """Has progress sent, unless it is none. However slowly the caller reads, the newest alone is due."""
        if progress.done <= self._done:
            return
        self._done, self._news = progress.done, progress
        if self._beats is None:
            self._late_timer.remove(self)
            self.begin()
        else:
            self._woken.set()

    async def _write_head(self, stream: EventStream) -> None:
        headers = self._complete(self._request, stream.headers)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._has_begun = True
        if first := stream.first():
            await self._write(first, more=True)

    async def _beat(self, stream: EventStream) -> None:
        await self._write_head(stream)
        while True:
            news = self._news
            self._woken.clear()
            await self._write(stream.beat(news or self._still_running()), more=True)
            if self._news is news:  # only now, since this task may be ended while it waits to write
                self._news = None
            with suppress(TimeoutError):
                async with asyncio.timeout(self._beat_s):
                    await self._woken.wait()

    def _still_running(self) -> Progress:
        last = max(self._done, 0.0)
        self._done = max(last + STEP, nextafter(last, inf))
        elapsed_s = monotonic() - self._started_s
        return Progress(self._done, message=f"running for {elapsed_s:.0f} s")

    async def end(self, reply: WireReply) -> bool:
        """Ends the stream with the answer; False if none has begun, so that the answer is to be sent whole.

        Progress that is still to be sent, as when a server reports it together with the answer, is sent before that.
        """
        self._late_timer.remove(self)
        self._done = inf
        stream = self._stream
        if stream is None or self._beats is None:
            return False
        self._beats.cancel()
        await asyncio.gather(self._beats, return_exceptions=True)
        if not self._has_begun:
            if self._news is None or reply.status != 200:
                return False
            await self._write_head(stream)
        if self._news is not None:
            await self._write(stream.beat(self._news), more=True)
        await self._write(stream.last(reply), more=False)
        return True

    async def carry(self, reply: StreamReply, receive: Receive | None) -> None:
        """Sends an answer piece by piece to its end.

        The server cancels this when the caller leaves. One that does not says so by `receive`.
        """
        self.close()
        headers, events = self._complete(self._request, reply.headers), reply.events
        del self._complete  # it leads to all tools, which would outlive the next reload with this stream
        watching = None if receive is None else asyncio.create_task(_watch(receive, events))
        try:
            await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
            while (piece := await events.next()) is not None:
                await self._write(piece, more=True)
            await self._write(b"", more=False)
        finally:
            events.close()
            if watching is not None:
                watching.cancel()

    async def _write(self, piece: bytes, *, more: bool) -> None:
        self.size += len(piece)
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


def as_accepted(reply: WireReply, request: Request) -> WireReply:
    """An answer as the one event of a stream if its caller takes nothing else."""
    accept = request.head.headers.get(b"accept", b"")
    if b"application/json" in accept:  # nearly all of them
        return reply
    accept = accept.lower()
    if b"text/event-stream" not in accept or b"application/json" in accept or b"*/*" in accept:
        return reply
    if reply.status != 200 or not reply.body:
        return reply
    framing = {name for name, _ in EVENT_STREAM}
    headers = (*EVENT_STREAM, *((name, value) for name, value in reply.headers if name not in framing))
    return replace(reply, headers=headers, body=event(reply.body))


async def _watch(receive: Receive, events: Events) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    events.close()
