"""Client requests to MCP servers, in the revision that was agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Raw, Struct

from gateway import __version__
from gateway.core import jsontext
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Json, JsonObject
from gateway.core.wire import Headers, WireRequest, is_token
from gateway.protocols.common.fields import context_object
from gateway.protocols.mcp.wire import (
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


HeaderArguments = Sequence[tuple[tuple[str, ...], str]]  # arguments that headers repeat: path, name of the header


class NegotiatedSession(Struct, frozen=True):
    """What a handshake with a server has come to."""

    version: str  # the revision that is spoken; empty before the handshake
    id: bytes | None = None  # of the session, if the server has given it one
    cookies: bytes = b""  # came with the id, such as one by which a load balancer knows which server has the session

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def is_legacy(self) -> bool:
        """Whether a revision with sessions is spoken."""
        return self.version in LEGACY


BEFORE_HANDSHAKE = NegotiatedSession("")


# Requests. Their path is that of the server's URL.


def request(session: NegotiatedSession, id_: int | None, method: str, params: JsonObject) -> WireRequest:
    """A request, or a notification without `id_`."""
    headers: Headers = (JSON_TYPE, ACCEPT, *_session_headers(session))
    if session.is_modern:
        params = {**params, "_meta": {**params.get("_meta", {}), **ABOUT}}
        headers = _modern_headers(method, params.get(NAMED_BY.get(method, "")))
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


def _session_headers(session: NegotiatedSession) -> Headers:
    headers: Headers = ((VERSION, session.version.encode()),) if session.version else ()
    if session.id is not None:
        headers = (*headers, (SESSION, session.id))
    return (*headers, (b"cookie", session.cookies)) if session.cookies else headers


def initialize(id_: int, version: str = LEGACY[0]) -> WireRequest:
    """The handshake of legacy revisions."""
    offered = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
    return request(BEFORE_HANDSHAKE, id_, "initialize", offered)


def listen(session: NegotiatedSession, id_: int) -> WireRequest:
    """Asks for a stream on which the server says that its list of tools has changed."""
    if session.is_modern:
        return request(session, id_, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return WireRequest(method=b"GET", path="", headers=((b"accept", b"text/event-stream"), *_session_headers(session)))


def call(
    session: NegotiatedSession, id_: int, invocation: Invocation, header_arguments: HeaderArguments, answers: JsonObject
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
    if session.is_modern:
        meta |= ABOUT
        headers = _modern_headers("tools/call", tool)
        if header_arguments:
            more += _argument_headers(invocation.arguments, header_arguments)
    else:
        headers = (JSON_TYPE, ACCEPT)
        more += _session_headers(session)
    body = encode(
        {
            "jsonrpc": "2.0",
            "id": id_,
            "method": "tools/call",
            "params": {"name": tool, "arguments": invocation.arguments, **answers, "_meta": meta},
        }
    )
    return WireRequest(method=b"POST", path="", headers=headers, body=body), more


def answer(session: NegotiatedSession, id_: Json, member: str, content: JsonObject) -> WireRequest:
    """Our `result` or `error` to a request of the server's; modern servers have none."""
    message = {"jsonrpc": "2.0", "id": id_, member: content}
    headers = (JSON_TYPE, ACCEPT, *_session_headers(session))
    return WireRequest(method=b"POST", path="", headers=headers, body=encode(message))


def resume(session: NegotiatedSession, last_id: bytes) -> WireRequest:
    """Asks for what followed on a stream that broke off (2025-11-25, Resumability and Redelivery)."""
    headers = ((b"accept", b"text/event-stream"), *_session_headers(session), (b"last-event-id", last_id))
    return WireRequest(method=b"GET", path="", headers=headers)


def cancel(session: NegotiatedSession, id_: int) -> WireRequest:
    """Tells a legacy server that a request is not waited for any more; a modern one sees its stream closed."""
    params: JsonObject = {"requestId": id_, "reason": "The gateway no longer waits for it."}
    return request(session, None, "notifications/cancelled", params)


def end(session: NegotiatedSession) -> WireRequest:
    """Ends a session."""
    return WireRequest(method=b"DELETE", path="", headers=_session_headers(session))


def header_arguments_of(schema: JsonObject) -> HeaderArguments:
    """The properties with `x-mcp-header`, by path, and the name of each header. Raises ValueError for bad ones."""
    arguments: list[tuple[tuple[str, ...], str]] = []
    _collect_header_arguments(schema, (), arguments)
    names = [name.lower() for _, name in arguments]
    if len(names) != len(set(names)):
        raise ValueError("two of its arguments have one x-mcp-header")
    return arguments


HEADER_TYPES = ("integer", "string", "boolean")
VALUES = ("const", "default", "enum", "examples")  # keywords that hold no schemas
BY_NAME = ("$defs", "definitions", "dependentSchemas", "patternProperties")  # hold schemas by names of any kind


def _collect_header_arguments(
    schema: Json, path: tuple[str, ...] | None, arguments: list[tuple[tuple[str, ...], str]]
) -> None:
    """Looks through a schema; `path` None: what is below is no property that can be reached from the root."""
    if isinstance(schema, list):
        for inner in schema:
            _collect_header_arguments(inner, None, arguments)
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        arguments.append((path or (), _header_name(schema, path)))
    for keyword, inner in schema.items():
        if keyword in VALUES:
            continue
        if keyword == "properties" and isinstance(inner, dict):
            for name, property_schema in inner.items():
                _collect_header_arguments(property_schema, None if path is None else (*path, name), arguments)
        elif keyword in BY_NAME and isinstance(inner, dict):
            _collect_header_arguments(list(inner.values()), None, arguments)
        else:
            _collect_header_arguments(inner, None, arguments)


def _header_name(schema: JsonObject, path: tuple[str, ...] | None) -> str:
    if not path:
        raise ValueError("an x-mcp-header stands where no property of the arguments is")
    header = schema["x-mcp-header"]
    if not isinstance(header, str) or not is_token(header):
        raise ValueError("an x-mcp-header is no name of a header")
    if schema.get("type") not in HEADER_TYPES:
        raise ValueError("an x-mcp-header stands at an argument that is no integer, string or boolean")
    return header


def _argument_headers(arguments: Any, header_arguments: HeaderArguments) -> Headers:
    headers: Headers = ()
    if isinstance(arguments, Raw):
        arguments = jsontext.decode(bytes(arguments))
    for path, name in header_arguments:
        value = arguments
        for member in path:
            value = value.get(member) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else encode(value).decode()
            headers = (*headers, (b"mcp-param-" + name.lower().encode(), header_value(text)))
    return headers
