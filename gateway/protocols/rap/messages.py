"""The callback protocol: a tool server takes a call at once and posts its outcome to a URL of ours later.

Reactive Agent Protocol: Tool Invocation, Tool Result and the other messages of Transport, Tool Cancellation, Thread
Closure. It has no version and no flag for failure.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gateway.core import jsontext
from gateway.core.errors import ErrorCode
from gateway.core.model import CallKey, Decode, Invocation, Json, JsonObject, ToolFailure, ToolResult, public_id
from gateway.core.wire import Headers, WireRequest
from gateway.protocols.common.fields import JSON_TYPE, NO_REASON, post

INVOCATION_HEADERS: Headers = (JSON_TYPE,)  # the acknowledgement has no body to ask a type of
MAX_DEPTH = jsontext.MAX_DEPTH + 8  # a value may come wrapped in content items
MAX_SEARCHED = 64 * 1024  # characters an operator's pattern looks at
MAX_SEARCHED_HERE = 1024  # bytes of a message; an ordinary pattern, `.*error.*failed`, takes time by their square
FAILED = "Error: "  # Tool Result, Error Results: there is no flag, only this prefix
SECRET_CHARACTERS = 32  # of a run: they are for callback URLs alone, and nothing else may show them


def invocation_id(key: CallKey, run: str) -> str:
    """The id of a run at the tool server, which takes no second invocation under one id.

    A tool that must not run twice gets the id of the call. Runs of other tools have a name behind their secret, and so
    an id each: a call that is sent again has another callback URL, and has to be taken.
    """
    call_id = public_id(key)
    return f"{call_id}-{run[SECRET_CHARACTERS:]}" if len(run) > SECRET_CHARACTERS else call_id


def encode_invocation(invocation: Invocation, callback_url: str) -> bytes:
    """Tool Invocation, Request. `call_id`, for ids of model providers, is not ours to fill."""
    body: JsonObject = {
        "operation": invocation.tool.remote_id,
        "arguments": invocation.arguments,
        "id": invocation_id(invocation.key, invocation.run),
        "call_id": None,
        "callback_url": callback_url,
        "group_id": invocation.group,
        "user_id": invocation.context.user_id,
    }
    if invocation.ancestors:  # omitted for a thread that has none
        body["thread_ancestors"] = invocation.ancestors
    return jsontext.encode(body)


def cancel_notice(id_: str, group: str) -> WireRequest:
    """Tool Cancellation."""
    return post("/cancel_tool_call", jsontext.encode({"thread_id": group, "tool_call_id": id_}))


def close_notice(group: str) -> WireRequest:
    """Thread Closure."""
    return post("/close_thread", jsontext.encode({"thread_id": group}))


def encode_choice(id_: str, selected: int) -> bytes:
    """User Choice, Response."""
    return jsontext.encode({"id": id_, "selected": selected})


class _TextItem(Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class _ImageItem(Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    data: str
    media_type: str


class _WireMessage(Struct, frozen=True, tag_field="type"):
    group_id: str


class _WireResult(_WireMessage, frozen=True, tag="tool_result"):
    id: str
    text: str | None = None
    content: list[_TextItem | _ImageItem] | None = None
    subscription: bool | None = None

    def __post_init__(self) -> None:
        if self.text is None and not self.content:  # an empty array counts as absent
            raise ValueError("Object has neither `text` nor `content`")


class ConsentMessage(_WireMessage, frozen=True, tag="oauth"):
    """The user must consent at a URL first; the outcome comes later."""

    id: str
    auth_url: str


class Choice(_WireMessage, frozen=True, tag="user_choice"):
    """The user must choose first, where `default` stands for a user who does not."""

    id: str
    prompt: str
    choices: Annotated[list[str], Meta(min_length=1)]
    response_url: str
    default: Annotated[int, Meta(ge=0)] = 0  # the page requires it, the reference implementation does not

    def __post_init__(self) -> None:
        if self.default >= len(self.choices):
            raise ValueError("`default` is not an index of `choices`")


class Event(_WireMessage, frozen=True, tag="subscription_event"):
    """News of a subscription."""

    tool_call_id: str
    text: str


class ViewMessage(_WireMessage, frozen=True, tag="view_update"):
    """Something to show beside the conversation; it ends nothing."""

    view_type: str
    content: JsonObject


class Refused(Struct, frozen=True, tag_field="type", tag="refused"):
    """Not a message of this call, refused with `code`. It has no effect: what is true may still come."""

    reason: str
    code: ErrorCode = ErrorCode.INVALID_REQUEST


class ResultMessage(Struct, frozen=True):
    """The outcome of the call; with `subscription` the call has opened one, and this confirms it."""

    result: ToolResult
    subscription: bool


Other = ConsentMessage | Choice | Event | ViewMessage | Refused
Callback = ResultMessage | Other

FOREIGN = Refused("it is about another call", ErrorCode.NOT_FOUND)
UNKNOWN = Refused("its type is not known")
_MESSAGES: Mapping[str, type[_WireResult | ConsentMessage | Choice | Event | ViewMessage]] = {
    "tool_result": _WireResult,
    "oauth": ConsentMessage,
    "user_choice": Choice,
    "subscription_event": Event,
    "view_update": ViewMessage,
}


def may_take_long(body: bytes, failure_patterns: Sequence[re.Pattern[str]] = ()) -> bool:
    """Whether reading a message could hold up the event loop, be it for the JSON inside its text, or for a pattern.

    Quotes apart, that JSON is there as it is, unless its brackets and commas are written as escapes. Halves of
    characters, in either, are put right in another process as well.
    """
    if failure_patterns and len(body) > MAX_SEARCHED_HERE:
        return True
    if len(body) <= jsontext.ALWAYS_HERE_BYTES:
        return False
    return b"\\u00" in body or jsontext.is_wide(body) or jsontext.may_have_halves(body)


def is_message(body: bytes) -> bool:
    """Whether a body is a message of some call, as far as can be told without knowing that call."""
    try:
        document = jsontext.decode_halves(body.removeprefix(BOM_UTF8), MAX_DEPTH)
        kind = document.get("type") if isinstance(document, dict) else None
        if not isinstance(kind, str) or kind not in _MESSAGES:
            return False
        msgspec.convert(document, _MESSAGES[kind])
    except (jsontext.JsonError, msgspec.ValidationError):
        return False
    return True


def decode_callback(
    body: bytes, own_id: str, own_group: str, *, decode: Decode, failure_patterns: Sequence[re.Pattern[str]]
) -> Callback:
    """Reads a message that was posted to the callback URL of one run, whose ids are `own_id` and `own_group`.

    `decode` says which texts are read as JSON. The URL names the call, so ids that are absent or null are a flaw of the
    message; ids that differ are of another call (Tool Result, Security).
    """
    if not body:
        return Refused("it is empty")
    try:
        document = jsontext.decode_halves(body.removeprefix(BOM_UTF8), MAX_DEPTH)
    except jsontext.JsonError as exc:
        return Refused(f"it is not JSON: {exc}")
    if not isinstance(document, dict):
        return Refused("it is not a JSON object")
    kind = document.get("type")
    if isinstance(kind, str) and kind not in _MESSAGES:
        return UNKNOWN
    message_id = document.get("tool_call_id" if kind == "subscription_event" else "id")
    if message_id not in (None, own_id) or document.get("group_id") not in (None, own_group):
        return FOREIGN
    if not isinstance(kind, str):
        return Refused("it has no type")
    try:
        message = msgspec.convert(document, _MESSAGES[kind])
    except msgspec.ValidationError as exc:
        return Refused(_without_values(exc))
    if isinstance(message, _WireResult):
        return ResultMessage(_read_result(message, decode, failure_patterns), message.subscription is True)
    return message


def _without_values(exc: msgspec.ValidationError) -> str:
    """What is wrong and where; the library quotes tags it does not know."""
    wrong, at, where = str(exc).partition(" - at ")
    return f"{'Unknown type' if wrong.startswith('Invalid value') else wrong}{at}{where}"


def _read_result(message: _WireResult, decode: Decode, failure_patterns: Sequence[re.Pattern[str]]) -> ToolResult:
    """The value of a result, of its `content` before its `text`; or the failure in its text."""
    items = message.content
    text = "\n".join([item.text for item in items if isinstance(item, _TextItem)]) if items else message.text or ""
    if text.startswith(FAILED):
        return _failed(text.removeprefix(FAILED))
    if failure_patterns and any(pattern.match(text, 0, MAX_SEARCHED) for pattern in failure_patterns):
        return _failed(text)
    if items and not all(isinstance(item, _TextItem) for item in items):
        return ToolResult(value=msgspec.to_builtins(items))
    return ToolResult(value=_value(text, decode))


def _failed(text: str) -> ToolResult:
    return ToolResult(failure=ToolFailure(message=text or NO_REASON))


def _value(text: str, decode: Decode) -> Json:
    """A text, or the JSON in it; plain text is always allowed (Tool Result, `text`).

    `auto` leaves bare scalars alone: `007` or `true` from a tool that writes prose is no number and no boolean.
    """
    if decode == "never" or (decode == "auto" and not text.lstrip().startswith(("{", "["))):
        return text
    try:
        return jsontext.decode_halves(text.encode())
    except jsontext.JsonError:
        return text
