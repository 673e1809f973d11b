"""What callers of MCP are answered: results, refusals and lists as JSON-RPC responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Raw, Struct

from gateway import __version__
from gateway.core.errors import CODE, DeniedError, ErrorCode, GatewayError, InsufficientScopeError, NotJsonError
from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject, Progress, ToolDefinition, ToolFailure, ToolResult
from gateway.core.sse import COMMENT, EVENT_STREAM, event
from gateway.core.wire import Head, Headers, JoinedList, WireReply
from gateway.protocols.common.fields import JSON_TYPE, NO_STORE, retry_after
from gateway.protocols.mcp.callers import tools as mcp_tools
from gateway.protocols.mcp.callers.auth import Protection
from gateway.protocols.mcp.callers.consent import UrlPrompt, elicitations, input_requests
from gateway.protocols.mcp.wire import (
    CALL_ID_MEMBER,
    ELICITATION_REQUIRED,
    ERROR_MEMBER,
    INTERNAL,
    INVALID,
    MODERN,
    NO_METHOD,
    PARAMS,
    PARSE,
    SERVER_MEMBER,
    envelope,
)

SERVER = Raw(encode({"name": "toolgate", "title": "Toolgate", "version": __version__}))
SERVER_META = encode({SERVER_MEMBER: SERVER})[1:-1]  # what modern callers find in `_meta` of every result
HEADERS: Headers = (JSON_TYPE, NO_STORE)
# A response with a result: its id, its content, its structured content if any, and the id of the call go in between.
START, MIDDLE = b'{"jsonrpc":"2.0","id":', b',"_meta":{"toolgate/call_id":'
MODERN_PARTS = b',"result":{"resultType":"complete","content":', b",%b}}}" % SERVER_META
LEGACY_PARTS = b',"result":{"content":', b"}}}"

# Refusals of a call that a model can act on: they are answered as results.
READABLE = frozenset(
    {
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.CALL_CONFLICT,
        ErrorCode.RESULT_EXPIRED,
        ErrorCode.MISSING_REQUIREMENTS,
        ErrorCode.BACKEND_UNAVAILABLE,
        ErrorCode.AUTHORIZATION_UNAVAILABLE,
        ErrorCode.RATE_LIMITED,
    }
)
CAN_RETRY = frozenset({ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.AUTHORIZATION_UNAVAILABLE, ErrorCode.RATE_LIMITED})
RPC_CODES = {ErrorCode.NOT_FOUND: NO_METHOD, ErrorCode.TOOL_NOT_FOUND: PARAMS, ErrorCode.INTERNAL: INTERNAL}
# Refusals of HTTP itself; their status is the code, too, since codes of our own must not be negative.
STATUSES = {
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA: 415,
    ErrorCode.RATE_LIMITED: 429,
}
NOT_READY = 503  # a code, never a status


class RpcError(GatewayError):
    """A request that breaks the protocol. `rpc_code` and `data` are for JSON-RPC, `status` for modern callers."""

    def __init__(self, rpc_code: int, message: str, *, status: int = 400, data: JsonObject | None = None) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.rpc_code = rpc_code
        self.status = status
        self.data = data


class McpStream(Struct, frozen=True):
    """The stream of one late answer."""

    progress_token: bytes | None = None  # the caller's, encoded
    first_event_id: Callable[[], bytes] | None = None  # makes the id that the caller can resume from

    @property
    def headers(self) -> Headers:
        return EVENT_STREAM

    def first(self) -> bytes:
        """An event without data, whose id is all there is to it (2025-11-25, Resumability and Redelivery)."""
        return b"" if self.first_event_id is None else b"id: %b\ndata: \n\n" % self.first_event_id()

    def beat(self, progress: Progress) -> bytes:
        """A progress notification to callers that asked for progress, else a comment."""
        if self.progress_token is None:
            return COMMENT
        params = {"progressToken": Raw(self.progress_token), "progress": progress.done}
        params |= {name: detail for name in ("total", "message") if (detail := getattr(progress, name)) is not None}
        return event(b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % encode(params))

    def last(self, reply: WireReply) -> bytes:
        return event(reply.body) if reply.body else b""  # of a request that was cancelled


class McpEncoder(Struct, frozen=True, kw_only=True):
    """Answers one request."""

    wire_version: str
    id: Json = None  # None: it could not be read
    is_call: bool = True  # refusals that a model can act on are results
    name: str = "mcp"
    stream: McpStream | None = None
    is_exact: bool = False  # input schemas are listed as they are validated
    protection: Protection | None = None  # for callers who lack scopes
    prompt: UrlPrompt | None = None  # for callers whose users open URLs

    @property
    def revision(self) -> str:
        return self.wire_version

    @property
    def is_modern(self) -> bool:
        return self.wire_version == MODERN

    def respond(self, result: JsonObject, headers: Headers = ()) -> WireReply:
        """A response with a result, completed as the revision demands."""
        if self.is_modern:
            meta = {**result.get("_meta", {}), SERVER_MEMBER: SERVER}
            result = {"resultType": "complete", **result, "_meta": meta}
        return WireReply(
            status=200, headers=(JSON_TYPE, NO_STORE, *headers), body=envelope(self.id, b"result", encode(result))
        )

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        if result.failure is not None:
            return self._failed(result, result.failure, call_id)
        value, blocks, is_modern = result.value, result.blocks, self.wire_version == MODERN
        text = b"" if result.structured == "none" else encode(value)  # once: the answer is put together as bytes
        if blocks is not None:
            content = encode(blocks)
        elif value is None:
            content = b"[]"
        else:
            content = b'[{"type":"text","text":%b}]' % (text if text[:1] == b'"' else encode(text.decode()))
        structured = _structured(text, result.structured, is_modern=is_modern)
        before, end = MODERN_PARTS if is_modern else LEGACY_PARTS
        if result.meta:
            end = b",%b%b" % (encode(result.meta)[1:-1], end)
        parts = START, encode(self.id), before, content, structured, MIDDLE, encode(call_id), end
        return WireReply(status=200, headers=HEADERS, body=b"".join(parts))

    def _failed(self, result: ToolResult, failure: ToolFailure, call_id: str) -> WireReply:
        meta = {**(result.meta or {}), CALL_ID_MEMBER: call_id, ERROR_MEMBER: _failure_object(failure)}
        content: Json = result.blocks
        if content is None:
            texts = [failure.message, *_places_to_authorize(failure.extras.get("missing_requirements"))]
            if failure.prompt_hint is not None:
                texts.append(failure.prompt_hint)
            content = [*map(_text, texts), *failure.extras.get("content", ())]
        code = (CODE, failure.public_code.encode("ascii"))
        answer = {"content": content, "isError": True, "_meta": meta}
        if result.structured is not None:
            text = encode(result.value)
            if self.is_modern or text[:1] == b"{":
                answer["structuredContent"] = Raw(text)
        return self.respond(answer, (code,))

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        reply = self.encode_result(result, call_id)
        if self.id is not None:
            return reply
        return WireReply(status=202, headers=reply.headers, body=reply.body)  # it is asked for at a path of its own

    def encode_error(self, error: GatewayError) -> WireReply:
        if self.is_call and error.code in READABLE:
            return self._asking(error) or self._readable(error)
        headers: Headers = (JSON_TYPE, NO_STORE, (CODE, error.code.encode("ascii")), *error.headers)
        headers += retry_after(error.retry_after_s)
        if isinstance(error, InsufficientScopeError) and self.protection is not None:
            headers += self.protection.insufficient_scope(error.scopes)
        rpc_code, status, data = self._codes(error)
        content: JsonObject = {"code": rpc_code, "message": error.message}
        if data is not None:
            content["data"] = data
        return WireReply(status=status, headers=headers, body=envelope(self.id, b"error", encode(content)))

    def _codes(self, error: GatewayError) -> tuple[int, int, JsonObject | None]:
        """The code of JSON-RPC, the HTTP status and `data`. An error of JSON-RPC is a 200 to legacy callers."""
        if isinstance(error, RpcError):
            return error.rpc_code, error.status if self.is_modern or self.id is None else 200, error.data
        if error.code in STATUSES:
            data = {"reason": error.reason} if isinstance(error, DeniedError) else None
            return STATUSES[error.code], STATUSES[error.code], data
        if isinstance(error, NotJsonError):
            return PARSE, 400, None
        if error.code in (ErrorCode.NOT_READY, ErrorCode.BACKEND_UNAVAILABLE):
            return NOT_READY, 200, None
        rpc_code = RPC_CODES.get(error.code, INVALID)
        status = {NO_METHOD: 404, INTERNAL: 200}.get(rpc_code, 400)
        return rpc_code, status if self.is_modern or self.id is None else 200, None

    def _asking(self, error: GatewayError) -> WireReply | None:
        """A refusal as a question to the user of a caller that asks its user; None if there is none to ask."""
        prompt = self.prompt
        challenges = () if prompt is None else prompt.challenges_of(error)
        if prompt is None or not challenges:
            return None
        headers: Headers = ((CODE, error.code.encode("ascii")), *error.headers)
        if prompt.is_modern:
            requests = input_requests(error.message, challenges)
            state = prompt.state(error.message, challenges)
            asking = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
            return self.respond(asking, headers)
        content = {
            "code": ELICITATION_REQUIRED,
            "message": error.message,
            "data": {"elicitations": elicitations(error.message, challenges)},
        }
        body = envelope(self.id, b"error", encode(content))
        return WireReply(status=200, headers=(JSON_TYPE, NO_STORE, *headers), body=body)

    def _readable(self, error: GatewayError) -> WireReply:
        """A refusal of a call as a result that a model can read."""
        lines = [error.message]
        if error.parameters is not None:
            lines += [f"- {name}: {wrong}" for name, wrong in error.parameters.items()]
        lines += _places_to_authorize(error.missing)
        lines += [f"It needs the secret {secret['id']}." for secret in (error.missing or {}).get("secrets", ())]
        headers = ((CODE, error.code.encode("ascii")), *error.headers, *retry_after(error.retry_after_s))
        details: JsonObject = {"code": error.code, "message": error.message, "can_retry": error.code in CAN_RETRY}
        if error.retry_after_s is not None:
            details["retry_after_ms"] = max(1, round(error.retry_after_s)) * 1000
        details |= {
            member: detail
            for member, detail in (
                ("developer_message", error.developer_message),
                ("parameter_errors", None if error.parameters is None else dict(error.parameters)),
                ("missing_requirements", None if error.missing is None else dict(error.missing)),
            )
            if detail is not None
        }
        content = [_text("\n".join(lines))]
        return self.respond({"content": content, "isError": True, "_meta": {ERROR_MEMBER: details}}, headers)

    def encode_batch(self, replies: Sequence[WireReply]) -> WireReply:
        """The responses as an array; nothing if no message of the batch had one (2025-03-26, Batching)."""
        bodies = [reply.body for reply in replies if reply.body]
        if not bodies:
            return WireReply(status=202)
        return WireReply(status=200, headers=(JSON_TYPE, NO_STORE), body=b"[%b]" % b",".join(bodies))

    # Lists.

    @property
    def list_form(self) -> str:
        era = "modern" if self.is_modern else "legacy"
        return f"mcp {era} exact" if self.is_exact else f"mcp {era}"

    definition_form = list_form

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        return encode(mcp_tools.tool_object(tool, exact=self.is_exact, is_modern=self.is_modern))

    def join(self, tools: Sequence[bytes]) -> JoinedList:
        """All of a response behind its id."""
        joined = b",".join(tools)
        if self.is_modern:
            form = b',"result":{"resultType":"complete","tools":[%b],"ttlMs":%d,"cacheScope":"private","_meta":{%b}}}'
            return JoinedList(body=form % (joined, mcp_tools.LIST_TTL_MS, SERVER_META))
        return JoinedList(body=b',"result":{"tools":[%b]}}' % joined)

    def encode_list(self, joined: JoinedList, head: Head) -> WireReply:
        body = b'{"jsonrpc":"2.0","id":%b%b' % (encode(self.id), joined.body)
        return WireReply(status=200, headers=HEADERS, body=body)


def _structured(text: bytes, how: str | None, *, is_modern: bool) -> bytes:
    """The member for a value with that text. Legacy callers take objects only (2025-11-25, Structured Content)."""
    if how == "none":
        return b""
    if how == "wrapped":
        return b',"structuredContent":{"result":%b}' % text
    if text[:1] == b"{" or (how == "value" and is_modern):
        return b',"structuredContent":%b' % text
    return b""


def _places_to_authorize(missing: Json) -> list[str]:
    """Where the user can authorize a call, in sentences for a model; from its `missing_requirements`, if it has any."""
    challenges = missing.get("authorization") if isinstance(missing, Mapping) else None
    return [
        f"The user can authorize it at {challenge['url']}"
        for challenge in (challenges if isinstance(challenges, list | tuple) else ())
        if isinstance(challenge, Mapping) and isinstance(challenge.get("url"), str)
    ]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _failure_object(failure: ToolFailure) -> Mapping[str, Json]:
    """What programs are told of a failure; models do not see it."""
    details = {"developer_message": failure.developer_message, "retry_after_ms": failure.retry_after_ms}
    extras = {name: detail for name, detail in failure.extras.items() if name != "content"}
    members = {"code": failure.public_code, "message": failure.message, "can_retry": failure.can_retry}
    return {**extras, **members, **{member: detail for member, detail in details.items() if detail is not None}}
