"""Answers that come as a stream of events because they are late: a caller who hears nothing may give up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Send

from gateway.ports import EventStream, StreamingEncoder
from gateway.request import Request
from gateway.wire import Headers, WireReply

BEAT_S = 15.0  # between two signs of life; proxies and clients drop a connection that is silent for 30 to 60 s


class LateStream:
    """Begins to answer a request with a stream after `after_s`, if its encoder has one and there is no answer yet.

    Until then the answer can be of any status; afterwards the stream ends with it. `complete` adds the headers that
    every answer of the edge has.
    """

    def __init__(self, request: Request, send: Send, after_s: float, complete: Callable[[Headers], Headers]) -> None:
        self._request = request
        self._send = send
        self._complete = complete
        self._after_s = after_s
        self._stream: EventStream | None = None
        self._beats: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after_s, self._begin)
        self.size = 0  # bytes sent

    def close(self) -> None:
        """Stops: the request is answered, or its caller has left."""
        self._timer.cancel()
        if self._beats is not None:
            self._beats.cancel()

    def _begin(self) -> None:
        encoder = self._request.encoder
        self._stream = encoder.stream if isinstance(encoder, StreamingEncoder) else None
        if self._stream is not None:
            self._beats = asyncio.get_running_loop().create_task(self._beat(self._stream))

    async def _beat(self, stream: EventStream) -> None:
        headers = self._complete(stream.headers)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if first := stream.first():
            await self._write(first, more=True)
        elapsed_s = self._after_s
        while True:
            await self._write(stream.beat(elapsed_s), more=True)
            await asyncio.sleep(BEAT_S)
            elapsed_s += BEAT_S

    async def end(self, reply: WireReply) -> bool:
        """Ends the stream with the answer; False if none has begun."""
        self._timer.cancel()
        if self._stream is None or self._beats is None:
            return False
        await asyncio.sleep(0)  # the head goes first
        self._beats.cancel()
        await asyncio.wait([self._beats])
        await self._write(self._stream.last(reply), more=False)
        return True

    async def _write(self, event: bytes, *, more: bool) -> None:
        self.size += len(event)
        await self._send({"type": "http.response.body", "body": event, "more_body": more})
