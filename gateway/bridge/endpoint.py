"""The bridge as an ASGI application: streamable HTTP of the revision that its server speaks.

To a legacy server (to 2025-11-25) callers say `initialize`, and get the answer that the bridge itself has had: they
share one session of the server. Ids of sessions are made up and kept nowhere; they tell whose request is cancelled.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from gateway.bridge.handshake import Ready
from gateway.bridge.relay import BusyError, Key, PendingRequest, RelayedReply, RequestRelay, Unread
from gateway.bridge.requests import BridgedMessage, BridgeRefusal, check_caller, check_modern, is_modern, read_message
from gateway.core.jsontext import encode
from gateway.core.model import JsonObject
from gateway.protocols.mcp.wire import INVALID, NO_METHOD, SESSION, UNSUPPORTED_VERSION, envelope

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_LISTENERS = 64  # open streams of notifications
STREAM_AFTER_S = 10.0  # an answer that takes longer is a stream of events, so that no proxy thinks it dead
COMMENT_S = 15.0  # between two signs of life on a stream
ABANDONED_S = 600.0  # how long a request may still run whose caller has left
LEFT = "The caller has left."
# Refusals that a modern server makes with a status of its own (2026-07-28, Transports).
STATUS = {NO_METHOD: 404, INVALID: 400, -32700: 400, -32020: 400, -32021: 400, UNSUPPORTED_VERSION: 400}
JSON = (b"content-type", b"application/json")
EVENTS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))

Headers = tuple[tuple[bytes, bytes], ...]


class BridgedServer(Protocol):
    """The server behind the bridge."""

    listeners: set[Unread[bytes]]

    async def ready(self, *, is_modern: bool) -> tuple[RequestRelay, Ready]:
        """Its process for callers of an era, or the only one it has. Raises BusyError while it cannot be asked."""
        ...


class _BridgeExchange(Struct):
    """A request of HTTP, and what is sent back."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    lines: Headers
    receive: Receive
    send: Send

    def accepts(self, media: bytes) -> bool:
        accept = self.headers.get(b"accept", b"*/*").lower()
        return media in accept or b"*/*" in accept or media.partition(b"/")[0] + b"/*" in accept

    async def answer(self, status: int, body: bytes = b"", more: Headers = ()) -> None:
        headers = (*((JSON,) if body else ()), (b"content-length", b"%d" % len(body)), *more)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def begin_stream(self) -> None:
        await self.send({"type": "http.response.start", "status": 200, "headers": EVENTS})

    async def write(self, piece: bytes, *, is_last: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": piece, "more_body": not is_last})

    async def body(self) -> bytes:
        """Raises BridgeRefusal."""
        body = bytearray()
        while True:
            piece = await self.receive()
            if piece["type"] == "http.disconnect":
                raise asyncio.CancelledError
            body += piece.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise BridgeRefusal(413, INVALID, f"A request has at most {MAX_BODY_BYTES} bytes.")
            if not piece.get("more_body", False):
                return bytes(body)


class BridgeEndpoint:
    """`POST path`, and `GET path` for the notifications of a legacy server. `hosts`: see `check_caller`."""

    def __init__(self, path: str, server: BridgedServer, hosts: frozenset[str] | None) -> None:
        self._path = path
        self._server = server
        self._hosts = hosts
        self._stops = asyncio.Event()

    def stop(self) -> None:
        """Ends the streams of notifications."""
        self._stops.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        lines = tuple(scope["headers"])
        exchange = _BridgeExchange(scope["method"], scope["path"], dict(lines), lines, receive, send)
        id_ = None
        try:
            if exchange.path.removesuffix("/") != self._path:
                raise BridgeRefusal(404, INVALID, f"There is nothing here but {self._path}.")
            check_caller(exchange.headers, self._hosts)
            match exchange.method:
                case "POST":
                    message = read_message(exchange.headers, await exchange.body())
                    id_ = message.id
                    await self._post(exchange, message)
                case "GET":
                    await self._listen(exchange)
                case _:
                    await exchange.answer(405, more=((b"allow", b"GET, POST"),))
        except BridgeRefusal as refused:
            error: JsonObject = {"code": refused.code, "message": str(refused), **refused.more}
            await exchange.answer(refused.status, envelope(id_, b"error", encode(error)), refused.headers)
        except BusyError:
            error = {"code": 503, "message": "The server does not run, or has too many requests; none was sent to it."}
            await exchange.answer(503, envelope(id_, b"error", encode(error)), ((b"retry-after", b"1"),))

    async def _post(self, exchange: _BridgeExchange, message: BridgedMessage) -> None:
        wants_modern = is_modern(exchange.headers, message)
        relay, ready = await self._server.ready(is_modern=wants_modern)
        if ready.initialize_result is None:
            check_modern(exchange.headers, exchange.lines, message)
        elif wants_modern:
            raise BridgeRefusal(400, INVALID, f"The server speaks {ready.version}; begin with initialize.")
        session = exchange.headers.get(SESSION, b"").decode("latin-1")
        if message.method is None:  # a response to nothing that was asked
            await exchange.answer(202)
        elif not message.has_id:
            self._take_notification(relay, message, session)
            await exchange.answer(202)
        elif message.method == "initialize" and ready.initialize_result is not None:
            new_session = ((SESSION, secrets.token_urlsafe(18).encode()),)
            await exchange.answer(200, envelope(message.id, b"result", encode(ready.initialize_result)), new_session)
        else:
            key = (session, encode(message.id)) if session and ready.initialize_result is not None else None
            await self._ask(exchange, relay, message, key)

    def _take_notification(self, relay: RequestRelay, message: BridgedMessage, session: str) -> None:
        if message.method == "notifications/cancelled":
            params = message.params or {}
            if session:
                relay.cancel_by((session, encode(params.get("requestId"))), str(params.get("reason", ""))[:200])
        elif message.method is not None and message.method != "notifications/initialized":
            relay.notify(message.method, message.params)

    # Answers.

    async def _ask(
        self, exchange: _BridgeExchange, relay: RequestRelay, message: BridgedMessage, key: Key | None
    ) -> None:
        assert message.method is not None
        pending = await relay.ask(message.id, message.method, message.params, key)
        try:
            await self._write_replies(exchange, pending, is_modern=message.is_modern)
        except asyncio.CancelledError:  # the caller has left, which only in the modern revision cancels at once
            if message.is_modern:
                relay.cancel(pending, LEFT)
            else:
                asyncio.get_running_loop().call_later(ABANDONED_S, relay.cancel, pending, LEFT)
            pending.replies.close()
            raise

    async def _write_replies(self, exchange: _BridgeExchange, pending: PendingRequest, *, is_modern: bool) -> None:
        takes_events = exchange.accepts(b"text/event-stream")
        only_events = takes_events and not exchange.accepts(b"application/json")
        patience_s = STREAM_AFTER_S if takes_events else None
        reply: RelayedReply | None = None
        try:
            async with asyncio.timeout(0 if only_events else patience_s):
                while not ((reply := await pending.replies.get()).is_last or takes_events):
                    pass  # it does not take notifications
        except TimeoutError:
            pass
        if reply is not None and reply.is_last and not only_events:
            status = STATUS.get(reply.code or 0, 200) if is_modern else 200
            return await exchange.answer(status if reply.message else 202, reply.message)
        await exchange.begin_stream()
        while reply is None or not reply.is_last:
            await exchange.write(b": \n\n" if reply is None else _event(reply.message))
            try:
                reply = await asyncio.wait_for(pending.replies.get(), COMMENT_S)
            except TimeoutError:
                reply = None
        return await exchange.write(_event(reply.message) if reply.message else b"", is_last=True)

    async def _listen(self, exchange: _BridgeExchange) -> None:
        _, ready = await self._server.ready(is_modern=SESSION not in exchange.headers)
        if ready.initialize_result is None or not exchange.accepts(b"text/event-stream"):
            return await exchange.answer(405, more=((b"allow", b"POST"),))
        if len(self._server.listeners) >= MAX_LISTENERS:
            raise BusyError
        queue = Unread[bytes]()
        self._server.listeners.add(queue)
        try:
            await exchange.begin_stream()
            await exchange.write(b": \n\n")
            while (message := await self._next(queue)) is not None:
                await exchange.write(_event(message) if message else b": \n\n")
            await exchange.write(b"", is_last=True)
        finally:
            self._server.listeners.discard(queue)

    async def _next(self, queue: Unread[bytes]) -> bytes | None:
        """The next notification; empty after a while without one, None at the end."""
        waiting = [asyncio.ensure_future(queue.get()), asyncio.ensure_future(self._stops.wait())]
        try:
            await asyncio.wait(waiting, timeout=COMMENT_S, return_when=asyncio.FIRST_COMPLETED)
            if self._stops.is_set():
                return None
            return waiting[0].result() if waiting[0].done() else b""  # type: ignore[return-value]
        finally:
            for task in waiting:
                task.cancel()


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % message
