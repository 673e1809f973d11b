"""One request to an MCP server and its response, which comes as JSON or in a stream of events."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from math import inf

import msgspec
from msgspec import Raw, Struct

from gateway.backends.credentials import Credentials
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects import mcp_server
from gateway.dialects.mcp_server import Agreed
from gateway.dialects.mcp_wire import NO_METHOD
from gateway.model import Json
from gateway.sse import EventParser
from gateway.transport import Kind, Reply, StreamedReply, TransportError
from gateway.wire import Headers, WireRequest

log = logging.getLogger("gateway.backends")

SIDE_S = 5.0  # for what nobody waits for: answers to the server's own requests, cancellations, ends of sessions
MAX_SIDE_BYTES = 64 * 1024


class Envelope(Struct):
    """A message of the server's, so far as to tell what it is: its content stays text."""

    id: Json = None
    method: str | None = None
    params: Raw = Raw(b"{}")


_read_envelope = msgspec.json.Decoder(Envelope).decode


class McpChannel:
    """Talks to all replicas of one MCP server. Durations in seconds, sizes in bytes."""

    def __init__(self, name: str, credentials: Credentials) -> None:
        self._name = name
        self._credentials = credentials
        self._side: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        server: Server,
        agreed: Agreed | None,
        request: WireRequest,
        id_: int,
        principal: str,
        *,
        timeout_s: float,
        max_body: int,
        more: Headers = (),
    ) -> Reply:
        """Sends a request; the body of what it returns is the one message that answers it. Raises TransportError."""
        async with server.pool.stream(
            request.method,
            server.target(request.path),
            self._headers(request, principal),
            request.body,
            more=more,
            timeout_s=timeout_s,
            idle_s=inf,
            max_body=max_body,
        ) as reply:
            kind = reply.head.header(b"content-type") or b""
            if not kind.lower().startswith(b"text/event-stream"):
                return await reply.read()
            return await self._read_events(reply, server, agreed, id_, principal, max_body)

    async def _read_events(
        self, reply: StreamedReply, server: Server, agreed: Agreed | None, id_: int, principal: str, max_body: int
    ) -> Reply:
        parser = EventParser(max_body)
        async for chunk in reply:
            for event in parser.feed(chunk):
                message = _message(event.data)
                if message is None:
                    continue
                if message.method is not None:
                    if message.id is not None and agreed is not None:
                        self._refuse(server, agreed, message, principal)
                elif message.id == id_ and type(message.id) is int:
                    headers = [(name, value) for name, value in reply.head.headers if name != b"content-type"]
                    return Reply(reply.head.status, ((b"content-type", b"application/json"), *headers), event.data)
        raise TransportError(Kind.CLOSED, "The stream ended without a response.", sent=True)

    def _headers(self, request: WireRequest, principal: str) -> Headers:
        return (USER_AGENT, *request.headers, *self._credentials(principal))

    # What nobody waits for.

    def _refuse(self, server: Server, agreed: Agreed, message: Envelope, principal: str) -> None:
        """Answers a request of the server's at once: silence would hold its tool up until its timeout."""
        match message.method:
            case "ping":
                answer = mcp_server.answer(agreed, message.id, "result", {})
            case "elicitation/create" if b'"url"' in bytes(message.params):
                answer = mcp_server.answer(agreed, message.id, "result", {"action": "cancel"})
            case _:
                error = {"code": NO_METHOD, "message": "Method not found"}
                answer = mcp_server.answer(agreed, message.id, "error", error)
        self.tell(server, answer, principal)

    def tell(self, server: Server, request: WireRequest, principal: str) -> None:
        """Sends a message that has no response, without waiting for it."""
        task = asyncio.create_task(self._tell(server, request, principal))
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    async def _tell(self, server: Server, request: WireRequest, principal: str) -> None:
        with suppress(TransportError):
            await self.post(server, request, principal, timeout_s=SIDE_S)

    async def post(self, server: Server, request: WireRequest, principal: str, *, timeout_s: float) -> Reply:
        """Sends a message that has no response. Raises TransportError."""
        headers = self._headers(request, principal)
        return await server.pool.request(
            request.method,
            server.target(request.path),
            headers,
            request.body,
            timeout_s=timeout_s,
            max_body=MAX_SIDE_BYTES,
        )

    async def aclose(self) -> None:
        """Ends what is still being sent."""
        for task in list(self._side):
            task.cancel()
        await asyncio.gather(*self._side, return_exceptions=True)


def _message(data: bytes) -> Envelope | None:
    """What an event holds; None for what is no message, such as the empty first event of some servers."""
    if not data.strip():
        return None
    try:
        return _read_envelope(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
