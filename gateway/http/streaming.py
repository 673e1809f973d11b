"""Answers that are sent in pieces: late ones, whose callers may give up if they hear nothing, and those that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from msgspec.structs import replace
from starlette.types import Receive, Send

from gateway.ports import EventStream, StreamingEncoder
from gateway.request import Request
from gateway.sse import EVENT_STREAM, event
from gateway.wire import Events, Headers, StreamReply, WireReply

BEAT_S = 15.0  # between two signs of life; proxies and clients drop a connection that is silent for 30 to 60 s


class Unanswered:
    """Requests without an answer: one timer begins the streams of all that last longer than `after_s`.

    A timer for each would cost 2 % of a call.
    """

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        self._due: dict[LateStream, float] = {}  # the first one first, because all may last as long
        self._is_timed = False

    def add(self, stream: LateStream) -> None:
        self._due[stream] = monotonic() + self.after_s
        if not self._is_timed:
            self._look_in(self.after_s)

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

    It begins a stream when it is late if the encoder of the request has one and there is no answer yet. Until then the
    answer can be of any status; afterwards the stream ends with it. `complete` adds the headers that
    every answer of the edge has.
    """

    size = 0  # bytes sent
    _stream: EventStream | None = None
    _has_begun = False  # its head is sent
    _beats: asyncio.Task[None] | None = None

    def __init__(
        self,
        request: Request,
        send: Send,
        unanswered: Unanswered,
        complete: Callable[[Request, Headers], Headers],
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        self._request = request
        self._send = send
        self._unanswered = unanswered
        self._complete = complete
        self._elapsed_s = unanswered.after_s
        self._beat_s = beat_s
        unanswered.add(self)

    def close(self) -> None:
        """Stops: the request is answered, or its caller has left."""
        self._unanswered.remove(self)
        if self._beats is not None:
            self._beats.cancel()

    def begin(self) -> None:
        """Begins the stream, if there can be one."""
        encoder = self._request.encoder
        if encoder is None:  # its body is still arriving
            self._elapsed_s += self._unanswered.after_s
            return self._unanswered.add(self)
        self._stream = encoder.stream if isinstance(encoder, StreamingEncoder) else None
        if self._stream is not None:
            self._beats = asyncio.get_running_loop().create_task(self._beat(self._stream))
        return None

    async def _beat(self, stream: EventStream) -> None:
        headers = self._complete(self._request, stream.headers)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._has_begun = True
        if first := stream.first():
            await self._write(first, more=True)
        while True:
            await self._write(stream.beat(self._elapsed_s), more=True)
            await asyncio.sleep(self._beat_s)
            self._elapsed_s += self._beat_s

    async def end(self, reply: WireReply) -> bool:
        """Ends the stream with the answer; False if none has begun, so that the answer is to be sent whole."""
        self._unanswered.remove(self)
        if self._stream is None or self._beats is None:
            return False
        self._beats.cancel()
        await asyncio.gather(self._beats, return_exceptions=True)
        if not self._has_begun:
            return False
        await self._write(self._stream.last(reply), more=False)
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
    accepted = request.head.headers.get(b"accept", b"")
    if b"application/json" in accepted:  # nearly all of them
        return reply
    accepted = accepted.lower()
    if b"text/event-stream" not in accepted or b"application/json" in accepted or b"*/*" in accepted:
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
