"""Requests to MCP servers, in the revision that was agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Raw, Struct

from gateway import __version__, jsontext
from gateway.dialects.fields import context_object
from gateway.dialects.mcp_wire import (
    CALL_ID_MEMBER,
    CAPABILITIES_MEMBER,
    CLIENT_MEMBER,
    CONTEXT_MEMBER,
    LEGACY,
    METHOD,
    MODERN,
    NAME,
    NAMED_BY,
    SESSION,
    TASKS,
    VERSION,
    VERSION_MEMBER,
    header_value,
)
from gateway.jsontext import encode
from gateway.model import Invocation, Json, JsonObject
from gateway.wire import Headers, WireRequest, is_token

JSON_TYPE = (b"content-type", b"application/json")
ACCEPT = (b"accept", b"application/json, text/event-stream")
CLIENT = {"name": "toolgate", "version": __version__}
CAPABILITIES: JsonObject = {"elicitation": {"url": {}}}  # what calls have; lists are asked for with the same
MODERN_CAPABILITIES: JsonObject = {**CAPABILITIES, "extensions": {TASKS: {}}}
ABOUT: JsonObject = {
    VERSION_MEMBER: MODERN,
    CAPABILITIES_MEMBER: Raw(encode(MODERN_CAPABILITIES)),
    CLIENT_MEMBER: Raw(encode(CLIENT)),
}
TRACE = (b"traceparent", b"tracestate")  # unprefixed by exception (2026-07-28, `_meta`)


Mirrored = Sequence[tuple[tuple[str, ...], str]]  # arguments that headers repeat: path, name of the header


class Agreed(Struct, frozen=True):
    """The revision that a server speaks with us, and its id of our session, if it has given one.

    `cookies` came with that, such as one by which a load balancer knows which server has the session.
    """

    version: str
    session: bytes | None = None
    cookies: bytes = b""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN


# Requests. Their path is that of the server's URL.


def request(agreed: Agreed | None, id_: int | None, method: str, params: JsonObject) -> WireRequest:
    """A request, or a notification without `id_`. `agreed` None: nothing has been yet (`initialize`)."""
    headers: Headers = (JSON_TYPE, ACCEPT)
    if agreed is not None and agreed.is_modern:
        params = {**params, "_meta": {**params.get("_meta", {}), **ABOUT}}
        headers = _modern_headers(method, params.get(NAMED_BY.get(method, "")))
    elif agreed is not None:
        headers = (*headers, *_session_headers(agreed))
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    if id_ is not None:
        message["id"] = id_
    if params:
        message["params"] = params
    return WireRequest(method=b"POST", path="", headers=headers, body=encode(message))


@lru_cache(maxsize=1024)  # a few tools in use
def _modern_headers(method: str, name: str | None) -> Headers:
    headers: Headers = (JSON_TYPE, ACCEPT, (VERSION, MODERN.encode()), (METHOD, method.encode()))
    return headers if name is None else (*headers, (NAME, header_value(name)))


def _session_headers(agreed: Agreed) -> Headers:
    headers: Headers = ((VERSION, agreed.version.encode()),)
    if agreed.session is not None:
        headers = (*headers, (SESSION, agreed.session))
    return (*headers, (b"cookie", agreed.cookies)) if agreed.cookies else headers


def initialize(id_: int, version: str = LEGACY[0]) -> WireRequest:
    """The handshake of legacy revisions."""
    offered = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
    return request(None, id_, "initialize", offered)


def listen(agreed: Agreed, id_: int) -> WireRequest:
    """Asks for a stream on which the server says that its list of tools has changed."""
    if agreed.is_modern:
        return request(agreed, id_, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return WireRequest(method=b"GET", path="", headers=((b"accept", b"text/event-stream"), *_session_headers(agreed)))


def call(
    agreed: Agreed, id_: int, invocation: Invocation, mirrored: Mirrored, answers: JsonObject
) -> tuple[WireRequest, Headers]:
    """A call of a tool, with `answers` to what the server asked before, and the headers that only this call has."""
    meta: JsonObject = {CALL_ID_MEMBER: invocation.call_id}
    if context := context_object(invocation.context):
        meta[CONTEXT_MEMBER] = context
    for name, value in invocation.headers:
        if name in TRACE:
            meta[name.decode()] = value.decode("latin-1")
    if invocation.report is not None:
        meta["progressToken"] = id_
    tool = invocation.tool.remote_id
    more = invocation.headers
    if agreed.is_modern:
        meta |= ABOUT
        headers = _modern_headers("tools/call", tool)
        if mirrored:
            more += _mirrored_headers(invocation.arguments, mirrored)
    else:
        headers = (JSON_TYPE, ACCEPT)
        more += _session_headers(agreed)
    body = encode(
        {
            "jsonrpc": "2.0",
            "id": id_,
            "method": "tools/call",
            "params": {"name": tool, "arguments": invocation.arguments, **answers, "_meta": meta},
        }
    )
    return WireRequest(method=b"POST", path="", headers=headers, body=body), more


def answer(agreed: Agreed, id_: Json, member: str, content: JsonObject) -> WireRequest:
    """Our `result` or `error` to a request of the server's; modern servers have none."""
    message = {"jsonrpc": "2.0", "id": id_, member: content}
    headers = (JSON_TYPE, ACCEPT, *_session_headers(agreed))
    return WireRequest(method=b"POST", path="", headers=headers, body=encode(message))


def resume(agreed: Agreed, last_id: bytes) -> WireRequest:
    """Asks for what followed on a stream that broke off (2025-11-25, Resumability and Redelivery)."""
    headers = ((b"accept", b"text/event-stream"), *_session_headers(agreed), (b"last-event-id", last_id))
    return WireRequest(method=b"GET", path="", headers=headers)


def cancel(agreed: Agreed, id_: int) -> WireRequest:
    """Tells a legacy server that a request is not waited for any more; a modern one sees its stream closed."""
    params: JsonObject = {"requestId": id_, "reason": "The gateway no longer waits for it."}
    return request(agreed, None, "notifications/cancelled", params)


def end(agreed: Agreed) -> WireRequest:
    """Ends a session."""
    return WireRequest(method=b"DELETE", path="", headers=_session_headers(agreed))


def mirrored_arguments(schema: JsonObject) -> Mirrored:
    """The properties with `x-mcp-header`, by path, and the name of each header. Raises ValueError for bad ones."""
    found: list[tuple[tuple[str, ...], str]] = []
    _find_mirrored(schema, (), found)
    names = [name.lower() for _, name in found]
    if len(names) != len(set(names)):
        raise ValueError("two of its arguments have one x-mcp-header")
    return found


MIRRORED_TYPES = ("integer", "string", "boolean")
VALUES = ("const", "default", "enum", "examples")  # keywords that hold no schemas
BY_NAME = ("$defs", "definitions", "dependentSchemas", "patternProperties")  # hold schemas by names of any kind


def _find_mirrored(schema: Json, path: tuple[str, ...] | None, found: list[tuple[tuple[str, ...], str]]) -> None:
    """Looks through a schema; `path` None: what is below is no property that can be reached from the root."""
    if isinstance(schema, list):
        for inner in schema:
            _find_mirrored(inner, None, found)
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        found.append((path or (), _mirrored_name(schema, path)))
    for keyword, inner in schema.items():
        if keyword in VALUES:
            continue
        if keyword == "properties" and isinstance(inner, dict):
            for name, property_schema in inner.items():
                _find_mirrored(property_schema, None if path is None else (*path, name), found)
        elif keyword in BY_NAME and isinstance(inner, dict):
            _find_mirrored(list(inner.values()), None, found)
        else:
            _find_mirrored(inner, None, found)


def _mirrored_name(schema: JsonObject, path: tuple[str, ...] | None) -> str:
    if not path:
        raise ValueError("an x-mcp-header stands where no property of the arguments is")
    header = schema["x-mcp-header"]
    if not isinstance(header, str) or not is_token(header):
        raise ValueError("an x-mcp-header is no name of a header")
    if schema.get("type") not in MIRRORED_TYPES:
        raise ValueError("an x-mcp-header stands at an argument that is no integer, string or boolean")
    return header


def _mirrored_headers(arguments: Any, mirrored: Mirrored) -> Headers:
    headers: Headers = ()
    if isinstance(arguments, Raw):
        arguments = jsontext.decode(bytes(arguments))
    for path, name in mirrored:
        value = arguments
        for member in path:
            value = value.get(member) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else encode(value).decode()
            headers = (*headers, (b"mcp-param-" + name.lower().encode(), header_value(text)))
    return headers
