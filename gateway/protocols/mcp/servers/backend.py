"""The backend for tool servers that speak MCP over streamable HTTP, of any revision."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Literal

from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError, unavailable
from gateway.core.model import CallContext, Invocation, Json, JsonObject, Listing, ToolResult
from gateway.core.ports import DispatchGate, LargeReply
from gateway.core.wire import Answer, WireRequest
from gateway.net.client import Kind, Reply, TransportError
from gateway.protocols.common import replies
from gateway.protocols.mcp.servers import requests as mcp_server
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.servers import task_messages as mcp_server_tasks
from gateway.protocols.mcp.servers.changes import McpChanges
from gateway.protocols.mcp.servers.channel import McpChannel, McpReply, Peer
from gateway.protocols.mcp.servers.inputs import McpInputs
from gateway.protocols.mcp.servers.list_page import is_page, read_page
from gateway.protocols.mcp.servers.listing import read_tools
from gateway.protocols.mcp.servers.messages import is_about_access
from gateway.protocols.mcp.servers.pages import all_pages
from gateway.protocols.mcp.servers.requests import HeaderArguments
from gateway.protocols.mcp.servers.responses import Denial
from gateway.protocols.mcp.servers.results import RpcFailure
from gateway.protocols.mcp.servers.sessions import McpSessions, SessionRecord
from gateway.protocols.mcp.servers.task_polling import McpTasks, TaskTerms
from gateway.protocols.mcp.settings import McpBackendSettings
from gateway.upstream.admission import Lease
from gateway.upstream.consent_links import is_https_or_loopback
from gateway.upstream.exchange import MAX_LIST_BYTES, HttpExchange
from gateway.upstream.list_reader import SHORT_BYTES, ListReader, is_short, run_apart
from gateway.upstream.replica_url import BackendContext, Server

CALL = WireRequest(method=b"POST", path="")  # stands for one that `_send` makes
EMPTY_CONTEXT = CallContext()
LISTER = "anonymous"  # the principal whose session lists are asked for in


class _UnknownSessionError(Exception):
    """The server does not know the session in which it was asked for a list."""


class McpBackend:
    """One MCP server, or several replicas of it; also the `CallCodec` of its calls."""

    deferred: Literal[False] = False
    max_exchange_s = inf
    call_paths = ("",)
    tool_error_statuses = ()

    def __init__(self, name: str, settings: McpBackendSettings, context: BackendContext) -> None:
        self.name = name
        self._settings = settings
        self._on_change = context.on_change
        self._exchange = HttpExchange(name, settings, context, CALL, send=self._send, ask=self._ask_for_tools)
        self._channel = McpChannel(self._exchange.credentials, context.on_change)
        fixed = None if settings.era == "auto" else settings.era
        self._sessions = McpSessions(self._channel, fixed=fixed, is_shared=settings.sessions == "shared")
        self._changes = McpChanges(name, self._channel, self._sessions, context.on_change)
        self._inputs = McpInputs()
        self._tasks = McpTasks(self._channel, self._sessions.ids)
        self._lists = context.lists
        self._reader = ListReader(read_tools, name, settings, context.lists, trust_meta=settings.trust_meta)
        # By the server's own name of the tool.
        self._header_arguments: dict[str, tuple[JsonObject, HeaderArguments]] = {}

    @property
    def dialect(self) -> str:
        """The revision in use."""
        return f"mcp {self._sessions.version}".strip()

    @property
    def title(self) -> str:
        """What the server calls itself, once it was asked; nothing depends on it."""
        return self._sessions.title

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool; raises as `HttpExchange.call`. What the caller lends goes to another Toolgate alone."""
        if not self._settings.trust_meta and invocation.context != EMPTY_CONTEXT:
            invocation = replace(invocation, context=EMPTY_CONTEXT)
        return self._exchange.call(self, invocation, gate)

    # As the codec: what is sent depends on the session with the replica, and is made in `_send`.

    def request_call(self, invocation: Invocation) -> WireRequest:
        return CALL

    def reading(self, reply: Answer, invocation: Invocation) -> LargeReply | None:
        return replies.reading(reply, b"structuredContent")

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads the response to a call; raises as `CallCodec.decode_reply`."""
        status = reply.status
        if status != 200 and is_about_access(status):
            return mcp_results.with_words_of(mcp_responses.error_in(reply), replies.decode_reply(reply, invocation))
        if document is None:
            document = mcp_responses.message_of(reply)
        urls: Sequence[JsonObject] = ()
        if isinstance(reply, McpReply):
            mcp_responses.check_id(document, reply.id)
            self._inputs.forget(invocation)
            urls = [link for link in reply.urls if is_https_or_loopback(link["url"])]
        try:
            result = _result_of(document, reply)
            if not 200 <= status < 300:
                raise replies.BrokenReplyError(f"status {status}")
            if isinstance(reply, McpReply) and reply.is_task:
                read = partial(self._result, invocation)
                ended = mcp_server_tasks.task_result(result, invocation, read, is_https_or_loopback)
            else:
                ended = self._result(invocation, result)
        except RpcFailure as failure:
            if mcp_results.shows_change(failure):
                self._on_change()
            ended = mcp_results.failed_call(failure, invocation)
        if ended.failure is None:
            return replace(ended, value_bytes=len(reply.body))
        if mcp_results.UNKNOWN_TOOL.match(ended.failure.message):
            self._on_change()  # most servers say so in a result; the list decides
        return mcp_results.with_urls(ended, urls)

    def _result(self, invocation: Invocation, result: JsonObject) -> ToolResult:
        settings = self._settings
        try:
            return mcp_results.tool_result(
                result, invocation, json_text=settings.json_text, trust_meta=settings.trust_meta
            )
        except GatewayError as refusal:
            if refusal.code is ErrorCode.MISSING_REQUIREMENTS:
                self._inputs.store(invocation, mcp_results.answers_to(result))
            raise

    # Calls.

    async def _send(self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
        """Sends a call in the session of its user.

        If the server denies the session, the next call has a new one; so has this one if nothing provably has run, or
        if it may run twice.
        """
        server, principal, user = lease.replica.target, invocation.principal, invocation.user
        for is_second in (False, True):
            record = self._sessions.current(server, principal, user)
            record = record or await self._negotiate(server, principal, deadline, user)
            record.calls += 1
            try:
                reply = await self._call(record.peer_for(principal), invocation, deadline)
            finally:
                record.calls -= 1
            denial = self._drop_if_denied(record, reply)
            if denial is None or not (denial.is_proof or (invocation.idempotent and not is_second)):
                return reply
        raise unavailable("it does not know the session that it has just given us, or the revision that it named")

    async def _negotiate(self, server: Server, principal: str, deadline: float, user: str = "") -> SessionRecord:
        try:
            async with asyncio.timeout(max(deadline - monotonic(), 0.001)):
                return await self._sessions.negotiate(server, principal, user)
        except TimeoutError as exc:
            raise TransportError(Kind.TIMEOUT, "The handshake took too long.", sent=False) from exc

    async def _call(self, peer: Peer, invocation: Invocation, deadline: float) -> Reply:
        id_, session, max_body = next(self._sessions.ids), peer.session, self._settings.max_response_bytes
        answers = self._inputs.answers_for(invocation) if session.is_modern else {}
        request, more = mcp_server.call(session, id_, invocation, self._header_arguments_of(invocation), answers)
        try:
            reply = await self._channel.ask(
                peer, request, id_, deadline=deadline, max_body=max_body, more=more, report=invocation.report
            )
        except (TransportError, asyncio.CancelledError) as exc:
            may_run = isinstance(exc, asyncio.CancelledError) or (exc.sent and exc.kind is Kind.TIMEOUT)
            if may_run and not session.is_modern:  # a modern server sees that the stream is closed
                self._channel.tell(peer, mcp_server.cancel(session, id_))
            raise
        task = mcp_server_tasks.created(reply.body) if session.is_modern else None
        return reply if task is None else await self._tasks.outcome(task, TaskTerms(peer, deadline, max_body))

    def _drop_if_denied(self, record: SessionRecord, reply: Reply) -> Denial | None:
        """Drops a session or a revision that the server does not know, by its answer."""
        denial = mcp_responses.denial_in(record.peer.session, reply)
        if denial is not None:
            self._sessions.forget(record)
            if denial.of == "revision":
                self._sessions.forget_era(record.peer.server)
        return denial

    def _header_arguments_of(self, invocation: Invocation) -> HeaderArguments:
        name, schema = invocation.tool.remote_id, invocation.tool.input_schema
        cached = self._header_arguments.get(name)
        if cached is None or cached[0] is not schema:
            cached = self._header_arguments[name] = schema, mcp_server.header_arguments_of(schema)
        return cached[1]

    # Lists.

    async def list_tools(self) -> Listing:
        """Asks for all pages of the list of tools. Raises BACKEND_UNAVAILABLE."""
        listing = await self._exchange.list_tools(self._read_list)
        self._header_arguments = {}
        return listing

    async def _read_list(self, reply: Reply) -> Listing:
        _, listing = await self._reader.read(reply.body)
        return listing

    async def _ask_for_tools(self, server: Server, timeout_s: float) -> Reply:
        """All pages of the list as one. Raises TransportError, BACKEND_UNAVAILABLE."""
        deadline = monotonic() + timeout_s
        await self._sessions.review(server, LISTER)
        try:
            return await self._pages(server, deadline, once_more=True)
        except _UnknownSessionError:
            return await self._pages(server, deadline)

    async def _pages(self, server: Server, deadline: float, *, once_more: bool = False) -> Reply:
        """Raises _DeniedError in addition, if all can be asked once more."""
        record = self._sessions.current(server, LISTER) or await self._negotiate(server, LISTER, deadline)
        peer = record.peer_for(LISTER)

        async def ask(params: JsonObject) -> Reply:
            id_ = next(self._sessions.ids)
            request = mcp_server.request(peer.session, id_, "tools/list", params)
            reply = await self._channel.ask(
                peer, request, id_, deadline=deadline, max_body=MAX_LIST_BYTES, unread_bytes=SHORT_BYTES
            )
            if self._drop_if_denied(record, reply) is not None and once_more:
                raise _UnknownSessionError
            return reply

        reply = await all_pages(ask, self._read_page)
        if reply.status == 200:
            self._changes.watch(record)
        return reply

    async def _read_page(self, body: bytes) -> tuple[bytes, ...]:
        if len(body) <= jsontext.ALWAYS_HERE_BYTES or (is_short(body) and is_page(body)):
            return read_page(body)
        return await run_apart(self._lists, self.name, read_page, body)

    async def challenge_status(self, check_url: str) -> str:
        """How a challenge of this backend stands; MCP has no way to ask."""
        return await self._exchange.challenge_status(check_url)

    async def aclose(self) -> None:
        """Ends the sessions, refuses the calls that wait and closes every connection."""
        await self._changes.aclose()
        await self._sessions.aclose()
        await self._channel.aclose()
        await self._exchange.aclose()


def _result_of(document: Json, reply: Answer) -> JsonObject:
    """The result in a response. Raises RpcFailure, BrokenReplyError."""
    result = mcp_results.result_of(document)
    return mcp_results.without_nulls(result) if isinstance(reply, McpReply) and reply.is_legacy else result
