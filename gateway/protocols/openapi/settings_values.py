"""Kinds of values in the settings of HTTP APIs: methods, patterns and keys of operations, arguments, documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote

from gateway.configfile.cursor import Cursor
from gateway.configfile.json_values import AnyJson
from gateway.configfile.sections import ByName
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import Text
from gateway.configfile.web import HEADER_NAME, ORIGIN, OWN_HEADERS, PATH, QUERY, Url, readable_file
from gateway.core.tool_names import full_version

ALL = "ALL"  # every method but those that double a GET, HEAD and OPTIONS, which have to be named
NEVER = ("TRACE", "CONNECT")
POINTER = re.compile(r"(/([^~/]|~[01])*)+")  # RFC 6901, section 3, but for the empty one

PLACE = re.compile(r"(?P<method>[A-Za-z]+) (?P<path>/.*)")  # of a key of `tools`


def _method(text: str) -> str:
    method = text.upper()
    if method in NEVER:
        raise InvalidValueError("must not be TRACE or CONNECT, which never become tools")
    return method


def _base_path(text: str) -> str:
    """Without its trailing slash: `/` is no path at all."""
    path = text.rstrip("/")
    if any(segment in ("", ".", "..") for segment in unquote(path).split("/")[1:]):
        raise InvalidValueError("must be a path without '//', '.' and '..'")
    return path


def _document(value: str, cursor: Cursor) -> str:
    """A URL, or the path of a file, which starts where the configuration lies."""
    if re.match("[A-Za-z][A-Za-z0-9+.-]+:", value) is None:
        return readable_file(value, cursor)
    if re.fullmatch(ORIGIN + PATH + QUERY, value) is None:
        raise InvalidValueError("must be the path of a file, or an https URL without user and fragment")
    return value


def _select(text: str) -> str:
    from gateway.protocols.openapi.document.selection import SelectionError, compiled

    try:
        compiled(text)
    except SelectionError as exc:
        hint = "; a '~' in a name is written as ~0, and a '/' as ~1" if text.startswith("/") else ""
        raise InvalidValueError(f"cannot be used: {exc}{hint}") from None
    return text


def _condition(text: str) -> str:
    from gateway.protocols.openapi.document.selection import SelectionError, condition

    try:
        condition(text)
    except SelectionError as exc:
        raise InvalidValueError(f"cannot be used: {exc}") from None
    return text


def _shown_header(text: str) -> str:
    if text.lower() in ("set-cookie", "set-cookie2"):
        raise InvalidValueError("must not be shown to callers; it holds a session of the gateway")
    return text.lower()


def _key_header(text: str) -> str:
    if text.lower() in OWN_HEADERS:
        raise InvalidValueError("must not be a header that the gateway sets itself; mostly it is Idempotency-Key")
    return text.lower()


class _ArgumentName(Text):
    """The name of an argument, or where a value stands in the body."""

    def __init__(self) -> None:
        must = "must be the name of an argument, or a JSON Pointer into the body such as /body/assignee"
        super().__init__(r"[^\x00-\x1f\x7f]{1,256}", must)

    def matches(self, text: str) -> bool:
        if text.startswith("/") and not (text.startswith("/body/") and POINTER.fullmatch(text)):
            return False
        return super().matches(text)


class _ToolKey(Text):
    """What an operation is called by, in `tools`."""

    def __init__(self) -> None:
        must = "must be an operationId, or a method in capitals and a path such as GET /users/{id}"
        super().__init__(r"[^\x00-\x1f\x7f]{1,1024}", must)

    def matches(self, text: str) -> bool:
        place = PLACE.fullmatch(text)
        return super().matches(text) and (place is None or place["method"].isupper())


ARGUMENT = _ArgumentName()
ARGUMENT_NAME = Text(r"[^/\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,255}", "must be the name of an argument")
TOOL_KEY = _ToolKey()
Glob = Annotated[str, Text(r"[^\x00-\x1f\x7f]{1,1024}", "must be a pattern; * and ? stand for anything")]
Method = Annotated[str, Text(r"[A-Za-z]{1,32}", "must be a method such as GET", _method, if_missing="GET")]
MethodOrAll = Annotated[
    str, Text(r"[A-Za-z]{1,32}", "must be a method such as GET, or the word all", _method, if_missing="GET")
]
ArgumentName = Annotated[str, ARGUMENT]
NewArgumentName = Annotated[
    str, Text("[A-Za-z0-9_.-]{1,64}", "must be a name that models may write: letters, digits and _.-, at most 64")
]
Document = Annotated[
    str, Url(title="path of a file, or https URL", resolve=_document, if_missing="https://missing.invalid")
]
Arguments = Annotated[Mapping[str, AnyJson], ByName(ARGUMENT)]
BasePath = Annotated[str, Text(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)+", "must be a path such as /v2", _base_path)]
Select = Annotated[str, Text(convert=_select, any_scalar=True, title="JMESPath expression, or JSON Pointer")]
Condition = Annotated[str, Text(convert=_condition, any_scalar=True, title="JMESPath expression")]
ShownHeader = Annotated[str, Text(HEADER_NAME, "must be the name of one header", _shown_header)]
KeyHeader = Annotated[str, Text(HEADER_NAME, "must be the name of one header", _key_header)]
MediaType = Annotated[
    str, Text(r"[!#$&^_.+A-Za-z0-9*-]+/[!#$&^_.+A-Za-z0-9*-]+( *;[ -~]+)?", "must be a media type such as text/csv")
]
ToolName = Annotated[str, Text("[A-Za-z0-9_]{1,64}", "must be letters, digits and _, at most 64")]
Version = Annotated[
    str,
    Text(
        r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}",
        "must be a version such as 1.0.0",
        full_version,
        any_scalar=True,
        if_missing="1.0.0",
    ),
]
Pin = Annotated[str, Text("sha256:[0-9a-f]{64}", "must be sha256: and the 64 hex digits of a SHA-256")]
