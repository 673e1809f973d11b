"""The backend for tool servers that speak MCP over streamable HTTP, of any revision."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from math import inf
from time import monotonic
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gateway import jsontext
from gateway.admission import DispatchGate, Lease
from gateway.backends.exchange import MAX_LIST_BYTES, HttpExchange
from gateway.backends.lists import ListReader
from gateway.backends.mcp_channel import McpChannel
from gateway.backends.mcp_pages import all_pages
from gateway.backends.mcp_sessions import McpSessions
from gateway.backends.server import BackendContext, Server
from gateway.dialects import mcp_server, replies
from gateway.dialects.mcp_listings import read_tools
from gateway.dialects.mcp_server import Agreed, Mirrored, RpcFailure
from gateway.dialects.mcp_wire import UNSUPPORTED_VERSION
from gateway.errors import ErrorCode, GatewayError, unavailable
from gateway.model import Invocation, Json, JsonObject, Listing, ToolResult
from gateway.settings.backends import McpBackendSettings
from gateway.transport import Kind, Reply, TransportError
from gateway.wire import Answer, WireRequest

# Both come before any tool is run in every server that was looked at.
LOST_SESSION = re.compile(rb"session|initializ", re.IGNORECASE)


class McpBackend:
    """One MCP server, or several replicas of it; also the `CallCodec` of its calls."""

    deferred: Literal[False] = False
    max_exchange_s = inf
    call_paths = ("",)
    value_members = (b"structuredContent",)
    fails_with_500 = False

    def __init__(self, name: str, settings: McpBackendSettings, context: BackendContext) -> None:
        self.name = name
        self._settings = settings
        self._on_change = context.on_change
        self._exchange = HttpExchange(
            name, settings, context, WireRequest(method=b"POST", path=""), send=self._send, ask=self._ask_for_tools
        )
        self._channel = McpChannel(name, self._exchange.credentials)
        fixed = None if settings.era == "auto" else settings.era
        self._sessions = McpSessions(name, self._channel, fixed=fixed, is_shared=settings.sessions == "shared")
        self._reader = ListReader(read_tools, name, settings, context.lists, trust_meta=settings.trust_meta)
        self._mirrored: dict[str, Mirrored] = {}  # by the server's own name of the tool

    @property
    def dialect(self) -> str:
        """The revision in use."""
        return f"mcp {self._sessions.version}".strip()

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool; raises as `HttpExchange.call`."""
        return self._exchange.call(self, invocation, gate)

    # As the codec: what is sent depends on what was agreed with the replica, and is made in `_send`.

    def request_call(self, invocation: Invocation) -> WireRequest:
        return WireRequest(method=b"POST", path="")

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads the response to a call; raises as `CallCodec.decode_reply`."""
        if document is None:
            try:
                document = jsontext.decode(replies.without_mark(reply.body), replies.MAX_DEPTH)
            except jsontext.JsonError as exc:
                if reply.status != 200:
                    return replies.decode_reply(reply, invocation)
                raise replies.BrokenReplyError(f"not JSON: {exc}") from exc
        if reply.status in (401, 403, 408, 429, 503):
            return replies.decode_reply(reply, invocation)
        settings = self._settings
        try:
            result = mcp_server.result_of(document)
            return mcp_server.tool_result(
                result, invocation, json_text=settings.json_text, trust_meta=settings.trust_meta
            )
        except RpcFailure as failure:
            try:
                return mcp_server.failed_call(failure, invocation)
            except GatewayError as refused:
                if refused.code is ErrorCode.TOOL_NOT_FOUND:
                    self._on_change()
                raise

    # Calls.

    async def _send(self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
        """Sends a call in the session of its principal; once more if the server provably did not know the session."""
        server, principal = lease.replica.target, invocation.principal
        for _ in range(2):
            agreed = await self._agree(server, principal, deadline)
            reply = await self._call(server, agreed, invocation, deadline)
            if not _is_lost(agreed, reply):
                return reply
            self._sessions.forget(server, principal, agreed)
            if agreed.is_modern:
                self._sessions.forget_era(server)
        raise unavailable("it does not know the session that it has just given us")

    async def _agree(self, server: Server, principal: str, deadline: float) -> Agreed:
        try:
            async with asyncio.timeout(max(deadline - monotonic(), 0.001)):
                return await self._sessions.agree(server, principal)
        except TimeoutError as exc:
            raise TransportError(Kind.TIMEOUT, "The handshake took too long.", sent=False) from exc

    async def _call(self, server: Server, agreed: Agreed, invocation: Invocation, deadline: float) -> Reply:
        id_ = next(self._sessions.ids)
        request = mcp_server.call(agreed, id_, invocation, self._mirrored_by(invocation))
        try:
            return await self._channel.ask(
                server,
                agreed,
                request,
                id_,
                invocation.principal,
                timeout_s=max(deadline - monotonic(), 0.001),
                max_body=self._settings.max_response_bytes,
                more=invocation.headers,
            )
        except (TransportError, asyncio.CancelledError) as exc:
            was_sent = isinstance(exc, asyncio.CancelledError) or (exc.sent and exc.kind is Kind.TIMEOUT)
            if was_sent and not agreed.is_modern:  # a modern server sees that the stream is closed
                params = {"requestId": id_, "reason": "It is not waited for any more."}
                cancelled = mcp_server.request(agreed, None, "notifications/cancelled", params)
                self._channel.tell(server, cancelled, invocation.principal)
            raise

    def _mirrored_by(self, invocation: Invocation) -> Mirrored:
        tool = invocation.tool
        if tool.remote_id not in self._mirrored:
            self._mirrored[tool.remote_id] = mcp_server.mirrored_arguments(tool.input_schema)
        return self._mirrored[tool.remote_id]

    # Lists.

    async def list_tools(self) -> Listing:
        """Asks for all pages of the list of tools. Raises BACKEND_UNAVAILABLE."""
        listing = await self._exchange.list_tools(self._read_list)
        self._mirrored = {}
        return listing

    async def _read_list(self, reply: Reply) -> Listing:
        _, listing = await self._reader.read(reply.body)
        return listing

    async def _ask_for_tools(self, server: Server, timeout_s: float) -> Reply:
        """All pages of the list as one. Raises TransportError, BACKEND_UNAVAILABLE."""
        deadline, principal = monotonic() + timeout_s, "anonymous"
        for _ in range(2):
            agreed = await self._agree(server, principal, deadline)
            reply = await self._pages(server, agreed, principal, deadline)
            if not _is_lost(agreed, reply):
                return reply
            self._sessions.forget(server, principal, agreed)
            self._sessions.forget_era(server)
        return reply

    async def _pages(self, server: Server, agreed: Agreed, principal: str, deadline: float) -> Reply:
        async def ask(params: JsonObject) -> Reply:
            id_ = next(self._sessions.ids)
            request = mcp_server.request(agreed, id_, "tools/list", params)
            timeout_s = max(deadline - monotonic(), 0.001)
            return await self._channel.ask(
                server, agreed, request, id_, principal, timeout_s=timeout_s, max_body=MAX_LIST_BYTES
            )

        return await all_pages(ask)

    async def challenge_status(self, check_url: str) -> str:
        """How a challenge of this backend stands; MCP has no way to ask."""
        return await self._exchange.challenge_status(check_url)

    async def aclose(self) -> None:
        """Refuses the calls that wait and closes every connection."""
        await self._channel.aclose()
        await self._exchange.aclose()


def _is_lost(agreed: Agreed, reply: Reply) -> bool:
    """Whether an answer says that the server did not know our session, or our revision: it has run nothing."""
    if agreed.is_modern:
        return reply.status == 400 and _error_code(reply.body) == UNSUPPORTED_VERSION
    if agreed.session is None:
        return False
    if reply.status == 404:
        return True
    return reply.status == 400 and _error_code(reply.body) is not None and LOST_SESSION.search(reply.body) is not None


class _Error(Struct):
    code: int


class _ErrorResponse(Struct):
    error: _Error


def _error_code(body: bytes) -> int | None:
    """The code of an error of JSON-RPC; None if a body is none."""
    try:
        return msgspec.json.decode(body, type=_ErrorResponse).error.code
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
