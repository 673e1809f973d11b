"""What the responses of MCP servers to calls mean: values, failures, refusals, and what the user has to do first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import UNAVAILABLE, ErrorCode, GatewayError, unavailable
from gateway.core.model import Invocation, Json, JsonObject, ToolFailure, ToolResult
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.mcp.servers import extras as mcp_members
from gateway.protocols.mcp.wire import (
    ELICITATION_REQUIRED,
    ERROR_MEMBER,
    HEADER_MISMATCH,
    INVALID,
    MISSING_CAPABILITY,
    NO_METHOD,
    PARAMS,
    PARSE,
    SERVER_MEMBER,
    UNSUPPORTED_VERSION,
)

MAX_MESSAGE_BYTES = 4096
MAX_SENTENCE = 512  # characters in which a server says that it has no such tool; each "tool" in them costs 300 steps
MAYBE_NULL = ("content", "structuredContent", "resultType")
NO_TEXT = "The tool failed without saying why."
UNKNOWN_TOOL = re.compile(r"unknown tool|tool\b.{0,300}\bnot found|no such tool", re.IGNORECASE | re.DOTALL)
WORDS = re.compile(r"\w+")
NAMES = re.compile(r"[^\s'\"`,;()\[\]{}<>]+")  # names with other characters than letters, such as `$filter`


class RpcFailure(Exception):  # noqa: N818 - the protocol calls it an error; ours are refusals
    """An error that a server answered with. Of its message no more is kept than callers get."""

    def __init__(self, code: int, message: str, data: Json) -> None:
        message = _cut(message)
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


def server_title(about: JsonObject) -> str:
    """What a server calls itself, in its answer to discover or initialize; empty if it does not say."""
    meta = about.get("_meta")
    info = about.get("serverInfo") or (meta.get(SERVER_MEMBER) if isinstance(meta, dict) else None)
    names: Sequence[Any] = (info.get("title"), info.get("name")) if isinstance(info, dict) else ()
    return next((name for name in names if isinstance(name, str) and name), "")


def announces_changes(about: JsonObject) -> bool:
    """Whether a server says, in its answer to discover or initialize, that it announces changes of its list."""
    capabilities: Any = about.get("capabilities")
    tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
    return isinstance(tools, dict) and tools.get("listChanged") is True


def without_nulls(result: JsonObject) -> JsonObject:
    """A result of a revision with sessions, without members that its server wrote out though they are absent.

    There structured content is an object, so that null is none; since 2026-07-28 it may be any value.
    """
    return {key: value for key, value in result.items() if value is not None or key not in MAYBE_NULL}


def tool_result(result: JsonObject, invocation: Invocation, *, json_text: bool, trust_meta: bool) -> ToolResult:
    """What the result of a call means. Raises BrokenReplyError, and GatewayError for a tool that was not run."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise input_required(result)
    if kind != "complete":
        raise BrokenReplyError("a resultType that is not known")
    content, meta = result.get("content", []), result.get("_meta")
    if not isinstance(content, list) or [block for block in content if not isinstance(block, dict)]:
        raise BrokenReplyError("content is no list of blocks")
    meta = meta if isinstance(meta, dict) else {}
    passed = mcp_members.passed_on(meta, trust_meta=trust_meta) or None if meta else None
    if result.get("isError") is True:
        failed = _failed(content, meta.get(ERROR_MEMBER) if trust_meta else None, invocation)
        if "structuredContent" in result:
            return replace(failed, value=result["structuredContent"], structured="value", meta=passed)
        return replace(failed, meta=passed)
    if "structuredContent" not in result:
        value = _value(content, json_text=json_text)
        return ToolResult(value=value, blocks=content, structured="none", meta=passed)
    value, fastmcp = result["structuredContent"], meta.get("fastmcp")
    is_marked = isinstance(fastmcp, dict) and fastmcp.get("wrap_result") is True
    if is_marked and isinstance(value, dict) and value.keys() == {"result"}:
        return ToolResult(value=value["result"], blocks=content, structured="wrapped", meta=passed)
    return ToolResult(value=value, blocks=content, structured="value", meta=passed)


def _value(content: list[JsonObject], *, json_text: bool) -> Json:
    """The value of a result without structured content."""
    if not content:
        return None
    text = content[0].get("text")
    if len(content) > 1 or content[0].get("type") != "text" or not isinstance(text, str):
        return {"content": content}
    if json_text and text.lstrip()[:1] in ("{", "["):
        try:
            encoded = text.encode()
            return text if jsontext.is_wide(encoded) else jsontext.decode_answer(encoded)
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
    words, wait_ms, developer = details.get("message"), details.get("retry_after_ms"), details.get("developer_message")
    return ToolFailure(
        message=_cut(words) if isinstance(words, str) and words else message,
        developer_message=developer if isinstance(developer, str) else None,
        can_retry=details.get("can_retry") is True,
        retry_after_ms=wait_ms if isinstance(wait_ms, int) and not isinstance(wait_ms, bool) and wait_ms >= 0 else None,
        extras=extras,
    )


def _cut(text: str) -> str:
    return text[:MAX_MESSAGE_BYTES].encode("utf-8", "replace")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")


def failed_call(failure: RpcFailure, invocation: Invocation) -> ToolResult:
    """What an error in place of a result means. Raises GatewayError for a tool that provably was not run."""
    try:
        return _failed_call(failure, invocation)
    except GatewayError as refusal:
        refusal.tool_code = str(failure.code)
        raise


def _failed_call(failure: RpcFailure, invocation: Invocation) -> ToolResult:
    match failure.code:
        case code if code == PARAMS and _is_about_unknown_tool(failure):
            raise GatewayError(ErrorCode.TOOL_NOT_FOUND, f"There is no tool {invocation.tool.tool!r}.")
        case code if code == PARAMS:
            named = _argument_in(failure.message, invocation)
            wrong = {} if named is None else {named: "is not accepted by the tool server"}
            raise GatewayError(
                ErrorCode.INVALID_ARGUMENTS, failure.message or "The arguments are invalid.", parameters=wrong
            )
        case code if code in (NO_METHOD, MISSING_CAPABILITY, UNSUPPORTED_VERSION):
            raise _unusable(f"it answers {code} to a call")
        case code if code == HEADER_MISMATCH:  # the schema that says which arguments headers repeat has changed
            raise unavailable(f"it answers {code} to a call", retry_after_s=1)
        case code if code == ELICITATION_REQUIRED:
            raise _challenged(_elicitations(failure.data))
        case code if code in (PARSE, INVALID):
            raise BrokenReplyError(f"error {failure.code}", failure.message)
    message = failure.message or NO_TEXT
    failed = ToolFailure(message=message, can_retry=invocation.idempotent)
    return ToolResult(failure=failed, tool_code=str(failure.code))


def with_words_of(document: Json, ended: ToolResult) -> ToolResult:
    """A failure that an HTTP status means, with the message of the error in its body, if that is one of JSON-RPC."""
    try:
        result_of(document)
    except RpcFailure as failed:
        if failed.message and ended.failure is not None:
            failure = replace(ended.failure, message=failed.message)
            return replace(ended, failure=failure, tool_code=str(failed.code))
    except BrokenReplyError:
        pass
    return ended


def shows_change(failure: RpcFailure) -> bool:
    """Whether an error shows that the list of tools is not what it was."""
    return failure.code == HEADER_MISMATCH or (failure.code == PARAMS and _is_about_unknown_tool(failure))


def _is_about_unknown_tool(failure: RpcFailure) -> bool:
    return UNKNOWN_TOOL.search(failure.message, 0, MAX_SENTENCE) is not None


def _argument_in(message: str, invocation: Invocation) -> str | None:
    """The first argument of a tool that a message names; its words are taken once, however many arguments there are."""
    properties = invocation.tool.input_schema.get("properties")
    if not isinstance(properties, dict):
        return None
    words = {*WORDS.findall(message), *(name.strip(".:") for name in NAMES.findall(message))}
    return next((name for name in properties if name in words), None)


def with_urls(ended: ToolResult, urls: Sequence[JsonObject]) -> ToolResult:
    """A failure of a tool that had asked to have URLs opened while it ran, which it was refused."""
    failure = ended.failure
    if failure is None or not urls:
        return ended
    missing = {"missing_requirements": {"authorization": list(urls)}}
    return replace(ended, failure=replace(failure, extras={**failure.extras, **missing}))


def _unusable(detail: str) -> GatewayError:
    """The refusal of a call to a server that we cannot use; there is no use in trying again soon."""
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail)


# What the user has to do first.


def url_to_open(params: Any, default_id: str) -> JsonObject | None:
    """The URL that an elicitation has for the user (`mode: url`); None if it is another."""
    url = _url_in(params)
    return None if url is None else {"id": str(params.get("elicitationId", default_id)), "url": url}


def _url_in(params: Any) -> str | None:
    url = params.get("url") if isinstance(params, dict) and params.get("mode") == "url" else None
    return url if isinstance(url, str) else None


def _elicitations(data: Json) -> list[JsonObject]:
    entries: Any = data.get("elicitations") if isinstance(data, dict) else None
    links = (url_to_open(entry, str(n)) for n, entry in enumerate(entries if isinstance(entries, list) else [], 1))
    return [link for link in links if link is not None]


def input_required(result: JsonObject) -> GatewayError:
    """The refusal of a call whose server wants something first: URLs to open, or what we did not say we can do."""
    requests: Any = result.get("inputRequests")
    challenges = []
    for key, request in requests.items() if isinstance(requests, dict) else ():
        method, params = (request.get("method"), request.get("params")) if isinstance(request, dict) else (None, None)
        url = _url_in(params)
        if url is None or method != "elicitation/create":
            return _unusable(f"it asks for {str(method)[:64]}, which we do not offer")
        challenges.append({"id": key, "url": url})
    return _challenged(challenges)


def answers_to(result: JsonObject) -> JsonObject:
    """The params of a call that comes again after `input_required`: the user opens all URLs that were asked for."""
    requests: Any = result.get("inputRequests")
    answers = {key: {"action": "accept"} for key in requests} if isinstance(requests, dict) else {}
    state = result.get("requestState")
    return {"inputResponses": answers} | ({"requestState": state} if isinstance(state, str) else {})


def _challenged(challenges: list[JsonObject]) -> GatewayError:
    if not challenges:
        return _unusable("it asks for input without saying which")
    message = "The user has to authorize this call first."
    return GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing={"authorization": challenges})
