"""One request to an MCP server and its response, which comes as JSON or in a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from time import monotonic
from typing import Any

from msgspec import Struct

from gateway.core.model import JsonObject, Progress
from gateway.core.wire import Headers, WireRequest
from gateway.net.client import EventBudget, EventReader, Kind, Reply, ReplyHead, StreamedReply, TransportError
from gateway.protocols.mcp.servers import requests as mcp_server
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers.messages import (
    Envelope,
    is_answer,
    may_be_answer,
    message_of_event,
    read_url_to_open,
)
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from gateway.protocols.mcp.wire import NO_METHOD
from gateway.upstream.credentials import Credentials
from gateway.upstream.oauth import ClientCredentials
from gateway.upstream.replica_url import USER_AGENT, Server

SIDE_S = 5.0  # for requests without a waiting caller: answers to the server, cancellations, ends of sessions
MAX_SIDE = 64  # of these at once; a server that asks for more waits for its answers in vain
MAX_SIDE_BYTES = 64 * 1024
DRAIN_S = 1.0  # for the end of a stream behind the response, so that its connection can be used again
STREAM_TIMES = 8  # a stream with all its notifications may be so much longer than a response
# Lines of a stream: a response in indented JSON, or progress for each of many rows; then 600 events per second.
MOST_LINES, LINES_PER_S = 100_000, 2_000
MAX_RESUMES = 3  # of a stream that brings nothing new
RESUME_S, LEAST_RESUME_S = 1.0, 0.1  # before a stream is resumed, unless the server says how long
MAX_ID = 256  # characters of the id of a server's request, which goes back to it
MAX_URLS = 16
MOVED = (307, 308)  # ask for the same request at another place; nothing has run
CHANGED = "notifications/tools/list_changed"

Report = Callable[[Progress], None]


class McpReply(Reply, frozen=True):
    """The answer to one request."""

    id: int  # of the request
    urls: tuple[JsonObject, ...] = ()  # to be opened by the user while the tool ran
    is_task: bool = False  # it says how the task stands that the call has become
    is_legacy: bool = False  # in a revision with sessions


class Peer(Struct, frozen=True):
    """A replica of an MCP server as one principal talks to it."""

    server: Server
    session: NegotiatedSession
    principal: str  # decides which credentials a request has


class _StreamExchange(Struct):
    """A request that is answered in a stream, and how far that has come."""

    peer: Peer
    id: int
    deadline: float  # as `monotonic` has it
    max_body: int
    budget: EventBudget
    urls: list[JsonObject]
    report: Report | None = None
    unread_bytes: float = inf
    last_id: bytes = b""
    resumes: int = 0  # since something new came
    resume_s: float = RESUME_S

    @property
    def can_resume(self) -> bool:
        """Streams of modern servers cannot be resumed (2026-07-28, Transports); others if their events have ids."""
        in_time = monotonic() + self.resume_s < self.deadline
        return self.peer.session.is_legacy and bool(self.last_id) and self.resumes < MAX_RESUMES and in_time


class McpChannel:
    """Talks to all replicas of one MCP server. Durations in seconds, sizes in bytes.

    `on_change` is called when a server says that its tools have changed. Credentials that an authorization server
    issues are there before anything is sent, and are renewed once after a 401.
    """

    def __init__(self, credentials: Credentials, on_change: Callable[[], None] = lambda: None) -> None:
        self._credentials = credentials
        self._tokens = credentials if isinstance(credentials, ClientCredentials) else None
        self._on_change = on_change
        self._side: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        peer: Peer,
        request: WireRequest,
        id_: int,
        *,
        deadline: float,
        max_body: int,
        more: Headers = (),
        report: Report | None = None,
        unread_bytes: float = inf,
    ) -> McpReply:
        """Sends a request; the body of what it returns is the one message that answers it. Raises TransportError.

        `report` takes how far the server says that it has come. An event of more than `unread_bytes` is not looked at:
        it counts as the answer, and its reader sees whether it is.
        """
        reply = await self._send(peer, request, deadline, max_body, more)
        if isinstance(reply, Reply) and reply.status in MOVED and peer.server.take_slash(reply.header(b"location")):
            reply = await self._send(peer, request, deadline, max_body, more)
        if isinstance(reply, StreamedReply):
            budget = EventBudget(
                most_bytes=STREAM_TIMES * max_body, bytes_per_s=0.0, most_lines=MOST_LINES, lines_per_s=LINES_PER_S
            )
            exchange = _StreamExchange(peer, id_, deadline, max_body, budget, [], report, unread_bytes)
            return await self._read_streams(reply, exchange)
        return McpReply(reply.status, reply.headers, reply.body, id_, is_legacy=peer.session.is_legacy)

    async def _send(
        self, peer: Peer, request: WireRequest, deadline: float, max_body: int, more: Headers = ()
    ) -> Reply | StreamedReply:
        """Sends a request with its principal's credentials. Raises TransportError."""

        def send() -> Awaitable[Reply | StreamedReply]:
            return peer.server.pool.reply_or_events(
                request.method,
                peer.server.endpoint,
                self._headers(request, peer.principal),
                request.body,
                more=more,
                timeout_s=max(deadline - monotonic(), 0.001),
                max_body=max_body,
            )

        return await (send() if self._tokens is None else self._tokens.authorized(send, deadline - monotonic()))

    def _headers(self, request: WireRequest, principal: str) -> Headers:
        return (USER_AGENT, *request.headers, *self._credentials(principal))

    # Streams of events.

    async def _read_streams(self, events: StreamedReply, exchange: _StreamExchange) -> McpReply:
        """The response out of a stream, or out of one that resumes it. Raises TransportError, which counts as sent."""
        while True:
            queue = exchange.peer.server.pool.parse_queue
            reader, response = EventReader(events, exchange.max_body, exchange.budget, queue), None
            try:
                response = await self._read_events(reader, events.head, exchange)
            except TransportError as exc:
                if exc.kind is not Kind.CLOSED:
                    raise
            finally:
                reader.close()
                self._leave(events, is_answered=response is not None)
            if response is not None:
                return response
            if reader.last_id not in (b"", exchange.last_id):
                exchange.last_id, exchange.resumes = reader.last_id, 0
            if reader.retry_ms is not None:
                exchange.resume_s = max(reader.retry_ms / 1000, LEAST_RESUME_S)
            events = await self._resumed(exchange)

    async def _read_events(self, events: EventReader, head: ReplyHead, exchange: _StreamExchange) -> McpReply | None:
        """Reads up to the response; None if the stream ends without one."""
        async for event in events:
            if len(event.data) <= exchange.unread_bytes:
                message = message_of_event(event.data)
                if message is not None and message.method is not None:
                    self._note(message, exchange)
                if message is None:
                    if not may_be_answer(event.data):
                        continue
                elif message.method is not None or not is_answer(message, exchange.id):
                    continue
            headers = (pair for pair in head.headers if pair[0] != b"content-type")
            json = (b"content-type", b"application/json")
            urls, is_legacy = tuple(exchange.urls), exchange.peer.session.is_legacy
            return McpReply(head.status, (json, *headers), event.data, exchange.id, urls, is_legacy=is_legacy)
        return None

    async def _resumed(self, exchange: _StreamExchange) -> StreamedReply:
        """A stream that goes on where the last one ended (2025-11-25, Transports). Raises CLOSED if there is none."""
        while exchange.can_resume:
            exchange.resumes += 1
            await asyncio.sleep(exchange.resume_s)
            request = mcp_server.resume(exchange.peer.session, exchange.last_id)
            try:
                reply = await self._send(exchange.peer, request, exchange.deadline, MAX_SIDE_BYTES)
            except TransportError as exc:
                if exc.kind is Kind.TIMEOUT:
                    raise TransportError(exc.kind, str(exc), sent=True) from exc
                continue
            if not isinstance(reply, StreamedReply):
                break
            if reply.head.status == 200:
                return reply
            reply.close()
            break
        raise TransportError(Kind.CLOSED, "The stream ended without a response.", sent=True)

    @asynccontextmanager
    async def stream(self, peer: Peer, request: WireRequest, idle_s: float) -> AsyncIterator[StreamedReply]:
        """Opens a stream that no response ends; after `idle_s` of silence it does. Raises TransportError."""
        if self._tokens is not None:
            await self._tokens.ready(SIDE_S)
        server, headers = peer.server, self._headers(request, peer.principal)
        async with server.pool.stream(
            request.method, server.endpoint, headers, request.body, timeout_s=inf, idle_s=idle_s, max_body=None
        ) as reply:
            yield reply

    def _leave(self, events: StreamedReply, *, is_answered: bool) -> None:
        """Closes a stream, which tells a modern server that it is not waited for, or has its end read if it is over."""
        if not is_answered or events.is_over or not self._start(_drain(events)):
            events.close()

    # What the server asks for while a tool runs.

    def _note(self, message: Envelope, exchange: _StreamExchange) -> None:
        """Handles what comes before the response."""
        if message.method == "notifications/progress" and exchange.report is not None:
            progress = mcp_responses.progress_of(message.params, exchange.id)
            if progress is not None:
                exchange.report(progress)
        url = self.handle(message, exchange.peer)
        if url is not None and len(exchange.urls) < MAX_URLS:
            exchange.urls.append(url)

    def handle(self, message: Envelope, peer: Peer) -> JsonObject | None:
        """Handles a notification, or answers a request of the server's at once: silence would hold its tool up.

        Returns the URL that it has for the user, if it has one.
        """
        id_, session, url = message.id, peer.session, None
        if message.method == CHANGED:
            self._on_change()
        if not session.version or not (type(id_) is int or (isinstance(id_, str) and len(id_) <= MAX_ID)):
            return None  # a notification, or what is no request
        if message.method == "ping":
            answer = mcp_server.answer(session, id_, "result", {})
        elif message.method == "elicitation/create" and (url := read_url_to_open(message.params)):
            answer = mcp_server.answer(session, id_, "result", {"action": "cancel"})
        else:
            error: JsonObject = {"code": NO_METHOD, "message": "Method not found"}
            answer = mcp_server.answer(session, id_, "error", error)
        self.tell(peer, answer)
        return url

    # Requests without a waiting caller.

    def tell(self, peer: Peer, request: WireRequest) -> None:
        """Sends a message that has no response, without waiting for it."""
        self._start(self._tell(peer, request))

    def _start(self, work: Any) -> bool:
        """Runs something beside the calls; False if too much runs already."""
        if len(self._side) >= MAX_SIDE:
            work.close()
            return False
        task = asyncio.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)
        return True

    async def _tell(self, peer: Peer, request: WireRequest) -> None:
        with suppress(TransportError):
            await self.post(peer, request, timeout_s=SIDE_S)

    async def post(self, peer: Peer, request: WireRequest, *, timeout_s: float) -> Reply:
        """Sends a message that has no response. Raises TransportError.

        A server that answers with a stream of events has taken it; nothing more has to come.
        """
        reply = await self._send(peer, request, monotonic() + timeout_s, MAX_SIDE_BYTES)
        if not isinstance(reply, StreamedReply):
            return reply
        reply.close()
        return Reply(reply.head.status, reply.head.headers, b"")

    async def aclose(self) -> None:
        """Ends what is still being sent."""
        for task in list(self._side):
            task.cancel()
        await asyncio.gather(*self._side, return_exceptions=True)


async def _drain(events: StreamedReply) -> None:
    """Reads what stands behind a response, for a moment."""
    size = 0
    try:
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                async for chunk in events:
                    size += len(chunk)
                    if size > MAX_SIDE_BYTES:
                        break
    finally:
        events.close()
