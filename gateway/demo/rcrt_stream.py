"""The event stream of the RCRT demonstration server: every change of a tenant's breadcrumbs, told once and at best.

Follows `GET /events/stream` of RCRT: data lines only, pings as data, no ids, no replay, nothing beyond 1 MiB.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.demo.faults import Fault, Faults, hang_up
from gateway.demo.rcrt_store import Actor, timestamp
from gateway.demo.service import Site
from gateway.demo.toolbox import JsonObject

MAX_STREAMS = 100
MAX_WAITING = 1000  # events for one stream; whoever reads more slowly loses some
MAX_EVENT_BYTES = 1024 * 1024  # the payload limit of the broker inside the real server: larger events vanish
SILENCE_S = 3600.0  # longer than anybody listens to it
SPLIT_PAUSE_S = 0.02  # so that the halves of a split event do not travel together

CONNECT_FAULTS = {
    "status_401",
    "status_503",  # as a server without its broker
    "deaf",  # pings and nothing else
    "silent",  # open, and not even pings
    "no_space",  # `data:` without the space after it
    "split_text",  # each event in two pieces, cut inside a character where it has a long one
}
END_FAULTS = {"clean_end", "abrupt_end"}  # of all streams, instead of the next event
STREAM_FAULTS = CONNECT_FAULTS | END_FAULTS


class Hub:
    """All open streams."""

    def __init__(self, site: Site, faults: Faults, ping_s: float) -> None:
        self._site = site
        self._faults = faults
        self._ping_s = ping_s
        self._streams: set[_Stream] = set()
        self._closer: asyncio.Task[None] | None = None

    def open(self, request: Request, actor: Actor) -> StreamingResponse:
        """Subscribes before the answer begins: whoever sees its head misses nothing. Raises HTTPException."""
        fault = self._faults.take("stream", CONNECT_FAULTS)
        if fault is not None and fault.name.startswith("status_"):
            raise HTTPException(int(fault.name.removeprefix("status_")), "NATS not connected")
        if len(self._streams) >= MAX_STREAMS:
            raise HTTPException(503, "too many streams")
        if self._closer is None:
            self._closer = asyncio.create_task(self._close())
        stream = _Stream(self, request, actor, fault, self._ping_s)
        self._streams.add(stream)
        return stream

    def leave(self, stream: _Stream) -> None:
        self._streams.discard(stream)

    def publish(self, event: JsonObject) -> None:
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        if len(data) > MAX_EVENT_BYTES:
            return
        end = self._faults.take("stream", END_FAULTS) if self._streams else None
        for stream in self._streams:
            if stream.owner_id == event["owner_id"]:
                stream.offer(data if end is None else end)

    async def _close(self) -> None:
        """An open stream would keep the server from stopping."""
        await self._site.stopping.wait()
        for stream in self._streams:
            stream.close()


class _Stream(StreamingResponse):
    """One connection; a Fault in its queue ends it."""

    def __init__(self, hub: Hub, request: Request, actor: Actor, fault: Fault | None, ping_s: float) -> None:
        super().__init__(self._chunks(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self.owner_id = actor.owner_id
        self._hub = hub
        self._request = request
        self._fault = "" if fault is None else fault.name
        self._ping_s = ping_s
        self._waiting: asyncio.Queue[bytes | Fault | None] = asyncio.Queue(MAX_WAITING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self)

    def offer(self, item: bytes | Fault) -> None:
        if self._fault not in ("deaf", "silent") and not self._waiting.full():
            self._waiting.put_nowait(item)

    def close(self) -> None:
        while self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        prefix = b"data:" if self._fault == "no_space" else b"data: "
        next_ping = loop.time() + (SILENCE_S if self._fault == "silent" else 0)
        while True:
            try:
                async with asyncio.timeout_at(next_ping):
                    item = await self._waiting.get()
            except TimeoutError:
                next_ping += self._ping_s
                item = json.dumps({"type": "ping", "ts": timestamp()}).encode()
            if not isinstance(item, bytes):
                if item is not None and item.name == "abrupt_end":
                    await hang_up(self._request)
                return
            line = prefix + item + b"\n\n"
            cut = _middle(line) if self._fault == "split_text" else len(line)
            yield line[:cut]
            if line[cut:]:
                await asyncio.sleep(SPLIT_PAUSE_S)
                yield line[cut:]


def _middle(line: bytes) -> int:
    """Where to cut: inside the first character of several bytes, else in the middle."""
    return next((index for index, byte in enumerate(line) if byte & 0xC0 == 0x80), len(line) // 2)
