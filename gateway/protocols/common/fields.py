"""What the dialects share: call requests in and out, results and refusals out."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from msgspec import Raw

from gateway.core.errors import CODE, DeniedError, ErrorCode, FixedError, GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import CallContext, Invocation, Json, JsonObject, ToolCall, ToolFailure, ToolRef, ToolResult
from gateway.core.tool_names import full_version
from gateway.core.wire import Headers, WireReply, WireRequest

JSON_TYPE = (b"content-type", b"application/json")
ACCEPT = (b"accept", b"application/json")
CALL_HEADERS = (JSON_TYPE, ACCEPT)
NO_STORE = (b"cache-control", b"no-store")
CHARSETS = (b"utf-8", b"utf8", b"us-ascii")

REQUEST_MEMBERS = frozenset({"call_id", "trace_id", "tool_id", "input", "context"})
NO_REASON = "The tool failed and did not say why."
MAX_CALL_ID = 256  # characters
MAX_ANCESTORS = 64  # a conversation that deep is a loop
MAX_TRACE_ID = 1024  # characters; a W3C traceparent has 55
MAX_TOOL_ID = 256  # characters; a name has at most 64, a version needs a dozen

# OTC and OXP 1.0, ToolId. Matched whole: the published pattern ends in `$`, which lets a newline through.
TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]+(?:\.[0-9]+\.[0-9]+)?))?")


def invalid(message: str) -> GatewayError:
    """INVALID_REQUEST."""
    return GatewayError(ErrorCode.INVALID_REQUEST, message)


def object_(value: Json, what: str) -> JsonObject:
    """Checks that a member is an object."""
    if not isinstance(value, dict):
        raise invalid(f"{what} must be a JSON object.")
    return value


def string(value: Json) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def duration(value: Json) -> float | None:
    """The value if it can be a duration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < math.inf else None


def _text(value: Json, what: str) -> str:
    if not isinstance(value, str):
        raise invalid(f"{what} must be a string.")
    return value


@lru_cache(maxsize=4096)  # bounded in entries, and each key in length
def _split_tool_id(wire_id: str) -> ToolRef | None:
    match = TOOL_ID.fullmatch(wire_id)
    if match is None:
        return None
    tool, version = match.groups()
    return ToolRef(tool=tool, version=version and full_version(version))


def tool_ref(wire_id: Json) -> ToolRef:
    """Splits `Toolkit.Tool[@x|@x.y.z]`; `@1` means exactly `1.0.0` (OTC and OXP 1.0, Tool Version Resolution)."""
    ref = _split_tool_id(wire_id) if len(_text(wire_id, "tool_id")) <= MAX_TOOL_ID else None
    if ref is None:
        raise invalid("The tool_id is not of the form Toolkit.Tool, Toolkit.Tool@x or Toolkit.Tool@x.y.z.")
    return ref


def are_arguments(value: Json) -> bool:
    """Whether a value is an object, read or as text."""
    return isinstance(value, dict) or (isinstance(value, Raw) and bytes(value).startswith(b"{"))


def call_of(request: JsonObject, ref: ToolRef, *, arguments: str = "input") -> ToolCall:
    """Builds the call from a request object whose tool id has been read; `arguments` names the member they are in."""
    value = request.get(arguments, {})
    if not are_arguments(value):
        raise invalid(f"{arguments} must be a JSON object.")
    return ToolCall(
        ref=ref,
        arguments=value,
        call_id=_call_id(request["call_id"]) if "call_id" in request else None,
        context=_read_context(object_(request["context"], "context")) if "context" in request else _EMPTY_CONTEXT,
        trace_id=_trace_id(request["trace_id"]) if "trace_id" in request else None,
    )


def _call_id(value: Json) -> str:
    call_id = _text(value, "call_id")
    if not (0 < len(call_id) <= MAX_CALL_ID and call_id.isascii() and call_id.isprintable()):
        raise invalid(f"call_id must have 1 to {MAX_CALL_ID} printable ASCII characters.")
    return call_id


def _trace_id(value: Json) -> str:
    if len(_text(value, "trace_id")) > MAX_TRACE_ID:
        raise invalid(f"trace_id must have at most {MAX_TRACE_ID} characters.")
    return str(value)


def reject_unknown_members(request: JsonObject, members: frozenset[str] = REQUEST_MEMBERS) -> JsonObject:
    """Checks that a request has no member but these (CallToolRequest is a closed object)."""
    if not request.keys() <= members:
        unknown = min(request.keys() - members)
        hint = "; did you mean 'input'?" if unknown == "inputs" else "."
        raise invalid(f"{unknown[:64]!r} is not a member of a tool call{hint}")
    return request


_EMPTY_CONTEXT = CallContext()


def _read_context(context: JsonObject) -> CallContext:
    """Reads `context`, also what the tool does not declare; an empty user id counts as absent."""
    return CallContext(
        tokens=_pairs(context.get("authorization", []), "context.authorization", "token"),
        secrets=_pairs(context.get("secrets", []), "context.secrets", "value"),
        user_id=_optional_text(context, "user_id") or None,
        user_info=context.get("user_info"),
        group=_optional_text(context, "group_id"),
        ancestors=_ancestors(context),
    )


def _optional_text(context: JsonObject, member: str) -> str | None:
    value = context.get(member)
    return None if value is None else _text(value, f"context.{member}")


def _ancestors(context: JsonObject) -> tuple[str, ...]:
    """The threads a conversation grew from, root first (RAP, tool invocation: thread_ancestors)."""
    names = context.get("thread_ancestors")
    if names is None:
        return ()
    if not isinstance(names, list) or len(names) > MAX_ANCESTORS:
        raise invalid(f"context.thread_ancestors must be an array of at most {MAX_ANCESTORS}.")
    return tuple(_text(name, "context.thread_ancestors") for name in names)


def _pairs(entries: Json, what: str, value: str) -> dict[str, str]:
    if not isinstance(entries, list):
        raise invalid(f"{what} must be an array.")
    pairs = {}
    for entry in entries:
        item = object_(entry, f"Each entry of {what}")
        pairs[_text(item.get("id"), f"{what}: id")] = _text(item.get(value), f"{what}: {value}")
    return pairs


# The HTTP status of a refusal on a call or a list. INTERNAL is no 5xx: real callers send those again by themselves.
STATUSES = dict.fromkeys(ErrorCode, 400) | {
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA: 415,
    ErrorCode.INVALID_ARGUMENTS: 422,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.NOT_READY: 503,  # never a call's
}
CODES = {code: (CODE, code.encode("ascii")) for code in ErrorCode}
Members = tuple[tuple[str, str], ...]


def error_reply(error: GatewayError, first: Members = (), headers: Headers = ()) -> WireReply:
    """A refusal as ServerErrorResponse or ValidationErrorResponse, after the members the dialect puts first."""
    if isinstance(error, FixedError):
        return _fixed(error.code, error.message, error.retry_after_s, error.headers, first, headers)
    details = {
        "reason": error.reason if isinstance(error, DeniedError) else None,
        "developer_message": error.developer_message,
        "parameter_errors": None if error.parameters is None else dict(error.parameters),
        "missing_requirements": None if error.missing is None else dict(error.missing),
    }
    body: JsonObject = dict(first) | {"message": error.message, "code": error.code}
    body |= {member: detail for member, detail in details.items() if detail is not None}
    return _reply(error.code, error.retry_after_s, (*headers, *error.headers), body)


# There are few such sentences, versions and times to wait. A cached answer costs a fifth of an encoded one.
@lru_cache(maxsize=256)
def _fixed(
    code: ErrorCode, message: str, retry_after_s: float | None, own: Headers, first: Members, headers: Headers
) -> WireReply:
    return _reply(code, retry_after_s, (*headers, *own), dict(first) | {"message": message, "code": code})


def _reply(code: ErrorCode, retry_after_s: float | None, headers: Headers, body: JsonObject) -> WireReply:
    headers = (JSON_TYPE, NO_STORE, CODES[code], *headers, *retry_after(retry_after_s))
    return WireReply(status=STATUSES[code], headers=headers, body=encode(body))


def retry_after(seconds: float | None) -> Headers:
    """The header that says when a refused request may come again; none if that is not known."""
    return () if seconds is None else ((b"retry-after", b"%d" % max(1, round(seconds))),)


def is_json(media: bytes) -> bool:
    """Whether a content type is JSON in UTF-8."""
    kind, *parameters = media.lower().split(b";")
    charsets = [item.strip().removeprefix(b"charset=").strip(b'"') for item in parameters if b"charset=" in item]
    return kind.strip() == JSON_TYPE[1] and all(charset in CHARSETS for charset in charsets)


def result_object(result: ToolResult, call_id: str) -> JsonObject:
    """CallToolResponse of OTC and OXP 1.0: exactly one of `value` (null included) and `error`."""
    body: JsonObject = {"call_id": call_id, "success": result.failure is None}
    if result.duration_ms is not None:
        body["duration"] = result.duration_ms
    if result.failure is None:
        body["value"] = result.value
    else:
        body["error"] = _failure_object(result.failure)
    return body


def _failure_object(failure: ToolFailure) -> JsonObject:
    """ToolError of OTC and OXP 1.0, which is open; `can_retry` is always there."""
    details = {
        "developer_message": failure.developer_message,
        "additional_prompt_content": failure.prompt_hint,
        "retry_after_ms": failure.retry_after_ms,
    }
    members = {"message": failure.message, "code": failure.public_code, "can_retry": failure.can_retry}
    return {**failure.extras, **members, **{member: detail for member, detail in details.items() if detail is not None}}


def ok(body: bytes, failure: ToolFailure | None, headers: Headers = ()) -> WireReply:
    """A call's 200."""
    if failure is not None:
        headers = (*headers, (CODE, failure.public_code.encode("ascii")))
    return WireReply(status=200, headers=(JSON_TYPE, NO_STORE, *headers), body=body)


def post(path: str, body: bytes, headers: Headers = CALL_HEADERS) -> WireRequest:
    """A call's request."""
    return WireRequest(method=b"POST", path=path, headers=headers, body=body)


def get(path: str, headers: Headers = ()) -> WireRequest:
    """A list's request."""
    return WireRequest(method=b"GET", path=path, headers=(ACCEPT, *headers))


def request_object(invocation: Invocation) -> JsonObject:
    """CallToolRequest of every form (OTC and OXP 1.0)."""
    request: JsonObject = {
        "call_id": invocation.call_id,
        "tool_id": invocation.tool.remote_id,
        "input": invocation.arguments,
    }
    if invocation.trace_id is not None:
        request["trace_id"] = invocation.trace_id
    context = context_object(invocation.context)
    if context:
        request["context"] = context
    return request


def context_object(context: CallContext) -> JsonObject:
    """`context` of a call; empty if nothing is lent."""
    body: JsonObject = {}
    if context.tokens:
        body["authorization"] = [{"id": key, "token": token} for key, token in context.tokens.items()]
    if context.secrets:
        body["secrets"] = [{"id": key, "value": value} for key, value in context.secrets.items()]
    if context.user_id is not None:
        body["user_id"] = context.user_id
        if context.user_info is not None:
            body["user_info"] = context.user_info
    return body
