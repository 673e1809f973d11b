"""Calls of tools on the surface of MCP: which tool is called, on which options, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject, ToolCall, ToolRef, user_of
from gateway.core.surfaces import (
    NO_OPTIONS,
    Awaited,
    CallOptions,
    Handover,
    Opened,
    OpenedCall,
    RefusedOpening,
    ResumeRequest,
)
from gateway.core.wire import Head
from gateway.protocols.common import fields
from gateway.protocols.mcp.callers import tasks as mcp_tasks
from gateway.protocols.mcp.callers.answers import McpEncoder, McpStream, RpcError
from gateway.protocols.mcp.callers.auth import Protection
from gateway.protocols.mcp.callers.consent import UrlPrompt, opens_urls, unanswered
from gateway.protocols.mcp.callers.listen import takes_events
from gateway.protocols.mcp.callers.requests import MAX_ID, RpcMessage, is_id
from gateway.protocols.mcp.callers.session_ids import Sealing, SessionIds, is_resumable
from gateway.protocols.mcp.wire import (
    CALL_ID_MEMBER,
    CAPABILITIES_MEMBER,
    CONTEXT_MEMBER,
    LAST_EVENT,
    LEGACY,
    MODERN,
    PARAMS,
    RESUMABLE,
    WAIT_MEMBER,
)

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"  # unprefixed by exception (2026-07-28, `_meta`)
IDEMPOTENCY_KEY = b"idempotency-key"
SILENT = McpStream()  # of callers that asked for no progress, and cannot resume
URLS: JsonObject = {"elicitation": {"url": {}}}
CONTEXT_MEMBERS = {CALL_ID_MEMBER: "call_id", CONTEXT_MEMBER: "context"}


class CallReader:
    """Reads requests for calls, and those for an answer that was lost on its way. Settings are as in `McpSurface`."""

    def __init__(
        self,
        sessions: SessionIds,
        consents: Sealing,
        protection: Protection,
        *,
        stream_after_s: float,
        task_after_s: float | None,
    ) -> None:
        self._sessions = sessions
        self._consents = consents
        self._protection = protection
        self._stream_after_s = stream_after_s
        self._task_after_s = task_after_s

    def open(self, message: RpcMessage, head: Head, toolkit: str | None) -> Opened:
        """Reads a call. `toolkit`: the only one whose tools can be called. Raises RpcError."""
        params = message.params
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not 0 < len(name) <= fields.MAX_TOOL_ID:
            raise RpcError(PARAMS, f"name must be a string of 1 to {fields.MAX_TOOL_ID} characters.")
        if not fields.are_arguments(arguments):
            raise RpcError(PARAMS, "arguments must be an object.")
        meta = params.get("_meta")
        ref, members = _tool_ref(name, toolkit), _context_members(meta, head)
        call = _call_of({"input": arguments, **members}, ref) if members else ToolCall(ref=ref, arguments=arguments)
        prompt, awaited = self._prompt(message, name, call)
        after_s = None
        if self._task_after_s is not None and message.version == MODERN and mcp_tasks.takes_tasks(meta):
            after_s = self._task_after_s
        stream = (
            _stream(head, meta, self._first_event_id(message))
            if after_s is None or after_s > self._stream_after_s
            else None
        )  # the task is first
        encoder = McpEncoder(
            wire_version=message.version,
            id=message.id,
            stream=stream,
            protection=self._protection.at(head.path),
            prompt=prompt,
        )
        if awaited is not None and (refusal := unanswered(awaited, params.get("inputResponses"))) is not None:
            return RefusedOpening(encoder, refusal)
        handover = None if after_s is None else mcp_tasks.handover(encoder, after_s)
        reports = stream is not None and stream.progress_token is not None
        options, hides = _options(message, meta, handover, reports=reports), not message.can_get_scopes
        return OpenedCall(encoder, call, hides, awaited, options)

    def _prompt(self, message: RpcMessage, tool: str, call: ToolCall) -> tuple[UrlPrompt | None, Awaited | None]:
        """How the user can be asked to open URLs, and what the caller brings back of it. Raises RpcError."""
        if message.version == MODERN:
            capabilities, state = message.params["_meta"][CAPABILITIES_MEMBER], message.params.get("requestState")
            if not capabilities and state is None:
                return None, None
        else:
            session, state = message.session, None
            capabilities = URLS if session and session.opens_urls and session.version == LEGACY[0] else None
        asks = opens_urls(capabilities)
        if not asks and state is None:
            return None, None
        is_modern = message.version == MODERN
        prompt = UrlPrompt(
            sealing=self._consents,
            owner=message.owner,
            user=user_of(call.context),
            tool=tool,
            arguments=call.arguments,
            is_modern=is_modern,
            asks=asks,
        )
        if state is None:
            return prompt, None
        try:
            awaited = prompt.awaited(state)
        except ValueError:
            raise RpcError(PARAMS, "requestState is not of this call, or is too old.") from None
        return prompt.after(awaited), awaited

    def _first_event_id(self, message: RpcMessage) -> Callable[[], bytes] | None:
        """What makes the id of the event from which the answer to a call can be resumed; None: it cannot be."""
        session = message.session
        if session is None or not is_resumable(session, message.version):
            return None
        return partial(self._sessions.event, session, message.id, message.owner)

    def resume(self, head: Head, owner: str) -> Opened:
        """Opens a GET for the answer of a stream that broke off (2025-11-25, Resumability)."""
        last = head.headers[LAST_EVENT]
        event = self._sessions.read_event(last, owner)
        if event is None:
            raise no_stream(head)
        key, id_ = event
        encoder = McpEncoder(wire_version=RESUMABLE, id=id_, stream=McpStream(first_event_id=lambda: last))
        return ResumeRequest(encoder=encoder, request_key=key, lost=no_stream(head))


def _context_members(meta: Json, head: Head) -> JsonObject:
    """What a call has beside its arguments, as members of a call request of OTC."""
    members: JsonObject = {}
    if isinstance(meta, dict) and not CONTEXT_MEMBERS.keys().isdisjoint(meta):
        members = {name: meta[member] for member, name in CONTEXT_MEMBERS.items() if member in meta}
    if "call_id" not in members and IDEMPOTENCY_KEY in head.headers:
        members["call_id"] = head.headers[IDEMPOTENCY_KEY].decode("latin-1")
    return members


@lru_cache(maxsize=4096)  # bounded in entries, and each key in length
def _tool_ref(name: str, toolkit: str | None) -> ToolRef:
    """Raises RpcError for an id of no possible tool."""
    if "." not in name:
        return ToolRef(tool=name, by_name=True, toolkit=toolkit)
    try:
        ref = fields.tool_ref(name)
    except GatewayError:
        raise RpcError(PARAMS, f"Unknown tool: {name}") from None
    return ref if toolkit is None else replace(ref, toolkit=toolkit)


def _call_of(request: JsonObject, ref: ToolRef) -> ToolCall:
    try:
        return fields.call_of(request, ref)
    except GatewayError as exc:
        raise RpcError(PARAMS, exc.message) from None


def _options(message: RpcMessage, meta: Json, handover: Handover | None, *, reports: bool) -> CallOptions:
    """A legacy call goes on if its caller leaves, and comes again under the same id of its session.

    Raises RpcError for a time to wait that is none.
    """
    meta = meta if isinstance(meta, dict) else {}
    wait = meta.get(WAIT_MEMBER)
    wait_s = None if wait is None else fields.duration(wait)
    if wait is not None and wait_s is None:
        raise RpcError(PARAMS, f"{WAIT_MEMBER} must be a number of seconds.")
    trace = _trace(meta) if TRACEPARENT in meta else None
    if message.version == MODERN:
        is_usual = wait_s is None and handover is None and trace is None and not reports
        return NO_OPTIONS if is_usual else CallOptions(wait_s=wait_s, handover=handover, trace=trace, reports=reports)
    key = None if message.session is None else message.session.request_key(message.id)
    return CallOptions(request_key=key, outlives_caller=True, wait_s=wait_s, trace=trace, reports=reports)


def _trace(meta: JsonObject) -> tuple[bytes, bytes | None] | None:
    """The trace that a request is part of (2026-07-28, `_meta`); None for what can be none."""
    parent, state = meta[TRACEPARENT], meta.get(TRACESTATE)
    if not isinstance(parent, str):
        return None
    return parent.encode("ascii", "replace"), state.encode("ascii", "replace") if isinstance(state, str) else None


def no_stream(head: Head) -> GatewayError:
    """The refusal of a GET for events of which there are none."""
    allow = ((b"allow", b"POST"),)
    return GatewayError(ErrorCode.METHOD_NOT_ALLOWED, f"{head.path} answers POST only.", headers=allow)


def _stream(head: Head, meta: Json, first_event_id: Callable[[], bytes] | None) -> McpStream | None:
    """How a late answer is sent: not as events to callers that take JSON alone."""
    if not takes_events(head):
        return None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is None and first_event_id is None:
        return SILENT
    if isinstance(token, str) and len(token) <= MAX_ID:
        return McpStream(encode(token), first_event_id)
    return McpStream(encode(token) if is_id(token) else None, first_event_id)
