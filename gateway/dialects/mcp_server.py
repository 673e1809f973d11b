"""MCP towards tool servers: requests in the revision that was agreed on, and what the answers to calls mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw, Struct

from gateway import __version__, jsontext
from gateway.dialects.fields import context_object
from gateway.dialects.mcp_wire import (
    CAPABILITIES_MEMBER,
    CLIENT_MEMBER,
    INVALID,
    LEGACY,
    METHOD,
    MISSING_CAPABILITY,
    MODERN,
    NAME,
    NAMED_BY,
    NO_METHOD,
    PARAMS,
    PARSE,
    SESSION,
    VERSION,
    VERSION_MEMBER,
    header_value,
)
from gateway.dialects.replies import BrokenReplyError
from gateway.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.jsontext import encode
from gateway.model import Invocation, Json, JsonObject, ToolFailure, ToolResult
from gateway.wire import Headers, WireRequest

JSON_TYPE = (b"content-type", b"application/json")
ACCEPT = (b"accept", b"application/json, text/event-stream")
CLIENT = {"name": "toolgate", "version": __version__}
CAPABILITIES: JsonObject = {"elicitation": {"url": {}}}  # what calls have; lists are asked for with the same
CALL_ID_MEMBER, CONTEXT_MEMBER, ERROR_MEMBER = "toolgate/call_id", "toolgate/context", "toolgate/error"
ELICITATION_REQUIRED = -32042  # revision 2025-11-25 alone
TRACE = (b"traceparent", b"tracestate")  # unprefixed by exception (2026-07-28, `_meta`)
MAX_MESSAGE_BYTES = 4096
NO_TEXT = "The tool failed without saying why."
UNKNOWN_TOOL = re.compile(r"unknown tool|tool\b.{0,300}\bnot found|no such tool", re.IGNORECASE | re.DOTALL)


Mirrored = Sequence[tuple[tuple[str, ...], str]]  # arguments that headers repeat: path, name of the header


class Agreed(Struct, frozen=True):
    """The revision that a server speaks with us, and its id of our session, if it has given one."""

    version: str
    session: bytes | None = None

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN


# Requests. `path` is below the URL of the server, which names the endpoint: empty, or a slash.


def request(agreed: Agreed | None, id_: int | None, method: str, params: JsonObject, more: Headers = ()) -> WireRequest:
    """A request, or a notification without `id_`. `agreed` None: nothing has been yet (`initialize`)."""
    headers: Headers = (JSON_TYPE, ACCEPT)
    if agreed is not None and agreed.is_modern:
        about: JsonObject = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: CAPABILITIES, CLIENT_MEMBER: CLIENT}
        params = {**params, "_meta": {**params.get("_meta", {}), **about}}
        headers = (*headers, (VERSION, MODERN.encode()), (METHOD, method.encode()), *more)
        if method in NAMED_BY:
            headers = (*headers, (NAME, header_value(params[NAMED_BY[method]])))
    elif agreed is not None:
        headers = (*headers, (VERSION, agreed.version.encode()))
        if agreed.session is not None:
            headers = (*headers, (SESSION, agreed.session))
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    if id_ is not None:
        message["id"] = id_
    if params or (agreed is not None and agreed.is_modern):
        message["params"] = params
    return WireRequest(method=b"POST", path="", headers=headers, body=encode(message))


def initialize(id_: int, version: str = LEGACY[0]) -> WireRequest:
    """The handshake of legacy revisions."""
    offered = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
    return request(None, id_, "initialize", offered)


def call(agreed: Agreed, id_: int, invocation: Invocation, mirrored: Mirrored) -> WireRequest:
    """A call of a tool."""
    meta: JsonObject = {CALL_ID_MEMBER: invocation.call_id}
    if context := context_object(invocation.context):
        meta[CONTEXT_MEMBER] = context
    meta |= {
        name.decode(): value.decode() for name, value in invocation.headers if name in (b"traceparent", b"tracestate")
    }
    params = {"name": invocation.tool.remote_id, "arguments": invocation.arguments, "_meta": meta}
    return request(agreed, id_, "tools/call", params, _mirrored_headers(invocation.arguments, mirrored))


def answer(agreed: Agreed, id_: Json, member: str, content: JsonObject) -> WireRequest:
    """Our `result` or `error` to a request of the server's."""
    message = {"jsonrpc": "2.0", "id": id_, member: content}
    plain = request(agreed, None, "", {})
    return WireRequest(method=b"POST", path="", headers=plain.headers, body=encode(message))


def end(agreed: Agreed) -> WireRequest:
    """Ends a session."""
    return WireRequest(method=b"DELETE", path="", headers=request(agreed, None, "", {}).headers)


def mirrored_arguments(schema: JsonObject) -> Mirrored:
    """The properties with `x-mcp-header`, by path, and the name of each header. Raises ValueError for bad ones."""
    found: list[tuple[tuple[str, ...], str]] = []
    _find_mirrored(schema, (), found)
    names = [name.lower() for _, name in found]
    if len(names) != len(set(names)):
        raise ValueError("two of its arguments have one x-mcp-header")
    return found


HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
MIRRORED_TYPES = ("integer", "string", "boolean")


def _find_mirrored(schema: Json, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> None:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(inner, dict):
            continue
        if "x-mcp-header" in inner:
            header = inner["x-mcp-header"]
            if not isinstance(header, str) or HEADER_TOKEN.fullmatch(header) is None:
                raise ValueError("an x-mcp-header is no name of a header")
            if inner.get("type") not in MIRRORED_TYPES:
                raise ValueError("an x-mcp-header stands at an argument that is no integer, string or boolean")
            found.append(((*path, name), header))
        _find_mirrored(inner, (*path, name), found)


def _mirrored_headers(arguments: Any, mirrored: Mirrored) -> Headers:
    headers: Headers = ()
    if not mirrored:
        return headers
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


# Answers.


class RpcFailure(Exception):  # noqa: N818 - the protocol calls it an error; ours are refusals
    """An error that a server answered with."""

    def __init__(self, code: int, message: str, data: Json) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


def result_of(message: Json) -> JsonObject:
    """The result in a response. Raises RpcFailure, BrokenReplyError."""
    if not isinstance(message, dict):
        raise BrokenReplyError("not a JSON object")
    error = message.get("error")
    if isinstance(error, dict):
        code, text = error.get("code"), error.get("message")
        raise RpcFailure(code if isinstance(code, int) else 0, text if isinstance(text, str) else "", error.get("data"))
    result = message.get("result")
    if not isinstance(result, dict):
        raise BrokenReplyError("a response without a result")
    return result


def tool_result(result: JsonObject, invocation: Invocation, *, json_text: bool, trust_meta: bool) -> ToolResult:
    """What the result of a call means. Raises BrokenReplyError, and GatewayError for a tool that was not run."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise _input_required(result)
    if kind != "complete":
        raise BrokenReplyError("a resultType that is not known")
    content, meta = result.get("content", []), result.get("_meta")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise BrokenReplyError("content is no list of blocks")
    meta = meta if isinstance(meta, dict) else {}
    if result.get("isError") is True:
        return _failed(content, meta.get(ERROR_MEMBER) if trust_meta else None, invocation)
    if "structuredContent" not in result:
        return ToolResult(value=_value(content, json_text=json_text), blocks=content, structured="none")
    value, fastmcp = result["structuredContent"], meta.get("fastmcp")
    is_marked = isinstance(fastmcp, dict) and fastmcp.get("wrap_result") is True
    if is_marked and isinstance(value, dict) and value.keys() == {"result"}:
        return ToolResult(value=value["result"], blocks=content, structured="wrapped")
    return ToolResult(value=value, blocks=content, structured="value")


def _value(content: list[JsonObject], *, json_text: bool) -> Json:
    """The value of a result without structured content."""
    if not content:
        return None
    text = content[0].get("text")
    if len(content) > 1 or content[0].get("type") != "text" or not isinstance(text, str):
        return {"content": content}
    if json_text and text.lstrip()[:1] in ("{", "["):
        try:
            return jsontext.decode(text.encode())
        except (jsontext.JsonError, UnicodeEncodeError):
            return text
    return text


def _failed(content: list[JsonObject], details: Json, invocation: Invocation) -> ToolResult:
    texts = [block["text"] for block in content if block.get("type") == "text" and isinstance(block.get("text"), str)]
    others = [block for block in content if block.get("type") != "text"]
    message = _cut("\n".join(texts)) or NO_TEXT
    extras = {"content": others} if others else {}
    if isinstance(details, dict):
        return ToolResult(failure=_trusted(details, message, extras), blocks=content)
    failure = ToolFailure(message=message, can_retry=invocation.idempotent, extras=extras)
    return ToolResult(failure=failure, blocks=content)


def _trusted(details: JsonObject, message: str, extras: Mapping[str, Json]) -> ToolFailure:
    """A failure as another Toolgate says it."""
    said, wait_ms, developer = details.get("message"), details.get("retry_after_ms"), details.get("developer_message")
    return ToolFailure(
        message=said if isinstance(said, str) and said else message,
        developer_message=developer if isinstance(developer, str) else None,
        can_retry=details.get("can_retry") is True,
        retry_after_ms=wait_ms if isinstance(wait_ms, int) and not isinstance(wait_ms, bool) and wait_ms >= 0 else None,
        extras=extras,
    )


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")


def failed_call(failure: RpcFailure, invocation: Invocation) -> ToolResult:
    """What an error in place of a result means. Raises GatewayError for a tool that provably was not run."""
    match failure.code:
        case code if code == PARAMS and UNKNOWN_TOOL.search(failure.message):
            raise GatewayError(ErrorCode.TOOL_NOT_FOUND, f"There is no tool {invocation.tool.tool!r}.")
        case code if code == PARAMS:
            properties = invocation.tool.input_schema.get("properties", {})
            named = next((name for name in properties if re.search(rf"\b{re.escape(name)}\b", failure.message)), None)
            wrong = {} if named is None else {named: "is not accepted by the tool server"}
            raise GatewayError(
                ErrorCode.INVALID_ARGUMENTS, _cut(failure.message) or "The arguments are invalid.", parameters=wrong
            )
        case code if code in (NO_METHOD, MISSING_CAPABILITY):
            raise GatewayError(
                ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=f"it answers {failure.code} to a call"
            )
        case code if code == ELICITATION_REQUIRED:
            raise _challenged(_elicitations(failure.data))
        case code if code in (PARSE, INVALID):
            raise BrokenReplyError(f"error {failure.code}")
    message = _cut(failure.message) or NO_TEXT
    return ToolResult(failure=ToolFailure(message=message, can_retry=invocation.idempotent))


def _unusable(detail: str) -> GatewayError:
    """The refusal of a call to a server that we cannot use; there is no use in trying again soon."""
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail)


# What the user has to do first.


def _elicitations(data: Json) -> list[JsonObject]:
    found: Any = data.get("elicitations") if isinstance(data, dict) else None
    return [
        {"id": str(each.get("elicitationId", number)), "url": each["url"]}
        for number, each in enumerate(found if isinstance(found, list) else [], 1)
        if isinstance(each, dict) and each.get("mode") == "url" and isinstance(each.get("url"), str)
    ]


def _input_required(result: JsonObject) -> GatewayError:
    """The refusal of a call whose server wants something first: URLs to open, or what we did not say we can do."""
    requests: Any = result.get("inputRequests")
    challenges = []
    for key, asked in requests.items() if isinstance(requests, dict) else ():
        params: Any = asked.get("params") if isinstance(asked, dict) else None
        is_url = isinstance(params, dict) and params.get("mode") == "url" and isinstance(params.get("url"), str)
        if not is_url or asked.get("method") != "elicitation/create":
            method = asked.get("method") if isinstance(asked, dict) else None
            return GatewayError(
                ErrorCode.BACKEND_UNAVAILABLE,
                UNAVAILABLE,
                detail=f"it asks for {str(method)[:64]}, which we do not offer",
            )
        challenges.append({"id": key, "url": params["url"]})
    return _challenged(challenges)


def _challenged(challenges: list[JsonObject]) -> GatewayError:
    if not challenges:
        return _unusable("it asks for input without saying which")
    message = "The user has to authorize this call first."
    return GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing={"authorization": challenges})
