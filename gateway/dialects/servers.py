"""What the dialects share towards tool servers: the request object, and the HTTP request it goes in."""

from __future__ import annotations

from gateway.dialects.fields import JSON_TYPE
from gateway.model import CallContext, Invocation, JsonObject
from gateway.wire import Headers, WireRequest

ACCEPT = (b"accept", b"application/json")
CALL_HEADERS = (JSON_TYPE, ACCEPT)


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
    """`context` of a call, empty if nothing is lent."""
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
