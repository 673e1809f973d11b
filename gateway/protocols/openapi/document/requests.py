"""The request of a call, made of its plan and its arguments (OpenAPI 3.0 to 3.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Arguments, Json
from gateway.core.wire import WireRequest
from gateway.protocols.openapi.document.bodies import Body, encode_body, form_text, narrow
from gateway.protocols.openapi.document.plan import METHOD_FIELD, BodyPlan, CallPlan, Parameter, Where
from gateway.protocols.openapi.document.serialise import (
    UnsendableError,
    check_segment,
    content,
    cookie_text,
    encoded,
    header_text,
    is_plain_segment,
    path_text,
    query_names,
    query_text,
    read_template,
)

BODY = "body"  # the argument
# Of the path, the query and what arguments add to the headers: servers take 8 to 16 KiB.
MAX_HEAD_BYTES = 16 * 1024
TOO_LONG = "is too long to be sent in a path, a query or a header"

_FIRST = re.compile(r"[\[.\x00]")
_members = msgspec.json.Decoder(dict[str, Raw]).decode

Header = tuple[bytes, bytes]


def request_of(plan: CallPlan, arguments: Arguments, call_id: str) -> WireRequest:
    """Makes the request of a call. Raises INVALID_ARGUMENTS for values that have no form where they have to go."""
    values: Mapping[str, Json] = arguments if isinstance(arguments, dict) else _members(arguments)
    wrong: dict[str, str] = {}
    texts = _parameter_texts(plan, values, wrong)
    body = _body(plan.body, values, wrong) if plan.body is not None else None
    target = "" if wrong else _path(plan, texts.path, wrong)
    if query := [plan.query, *texts.query] if plan.query else texts.query:
        target = f"{target}?{'&'.join(query)}"
    headers = [_header("accept", plan.accept), *texts.headers]
    if texts.cookies:
        headers.append(_header("cookie", "; ".join(texts.cookies)))
    if len(target) + sum([len(text) for _, text in headers]) > MAX_HEAD_BYTES:
        wrong.setdefault(_longest(plan, values), TOO_LONG)
    if wrong:
        raise GatewayError(ErrorCode.INVALID_ARGUMENTS, "Some input parameters are invalid.", parameters=wrong)
    if plan.key_header:
        headers.append(_header(plan.key_header, f'"{call_id}"' if plan.key_quoted else call_id))
    if body is not None:
        headers.append(_header("content-type", body[0]))
    return WireRequest(
        method=_method(plan.method), path=target, headers=tuple(headers), body=b"" if body is None else body[1]
    )


class _ParameterTexts(NamedTuple):
    """The texts of parameters, by where they go; those in the path by name."""

    path: dict[str, str]
    query: list[str]
    headers: list[Header]
    cookies: list[str]


def _parameter_texts(plan: CallPlan, values: Mapping[str, Json], wrong: dict[str, str]) -> _ParameterTexts:
    """Writes all parameters; `wrong` takes the arguments that cannot be sent."""
    in_path: dict[str, str] = {}
    query: list[str] = []
    headers: list[Header] = []
    cookies: list[str] = []
    for parameter in plan.parameters:
        value, where = parameter.fixed, parameter.where
        if value is UNSET:
            value = values.get(parameter.argument)
        try:
            text = None if value is None else _text(plan, parameter, value)
        except UnsendableError as exc:
            wrong[parameter.argument] = str(exc)
            continue
        if text is None:
            if parameter.required or where == "path":
                wrong[parameter.argument] = "is required" if value is None else "is empty"
        elif where == "query" or where == "querystring":
            query.append(text)
        elif where == "path":
            in_path[parameter.name] = text
        elif where == "header":
            headers.append(_header(parameter.name, text))
        else:
            cookies.append(text)
    return _ParameterTexts(in_path, query, headers, cookies)


def _text(plan: CallPlan, parameter: Parameter, value: Json) -> str | None:
    """A value as it stands on the wire; None if there is nothing to send. Raises UnsendableError."""
    kind = type(value)
    if kind is str:
        if len(value) > MAX_HEAD_BYTES:
            raise UnsendableError(TOO_LONG)
    elif kind is Raw:
        inner = narrow(value)
        return None if inner is None else _text(plan, parameter, inner)
    elif kind is dict or kind is list:
        if len(jsontext.encode(value)) > 4 * MAX_HEAD_BYTES:  # which has more punctuation than any style
            raise UnsendableError(TOO_LONG)
        if kind is dict:
            _check_names(plan, parameter, value)
    text = _TEXTS[parameter.where](parameter, value)
    if text is not None and len(text) > MAX_HEAD_BYTES:
        raise UnsendableError(TOO_LONG)
    return text


def _check_names(plan: CallPlan, parameter: Parameter, members: Mapping[str, Json]) -> None:
    """Refuses an object whose members would stand for other parameters, or for what no caller may send."""
    where = parameter.where
    is_exploded = parameter.explode and not parameter.media_type and parameter.style in ("form", "cookie")
    if not (_is_form(parameter) if where == "querystring" else is_exploded):
        return
    others = (other.name for other in plan.parameters if other.where == where and other is not parameter)
    reserved = {name.casefold() for name in (*others, *plan.access.key_names, *query_names(plan.query), METHOD_FIELD)}
    # In brackets, and behind dots, stand members, whose parent some servers would replace.
    if any(_FIRST.split(name, 1)[0].strip().casefold() in reserved for name in members):
        raise UnsendableError("has a member with the name of another parameter")


def _is_form(parameter: Parameter) -> bool:
    return "form" in parameter.media_type


def _querystring(parameter: Parameter, value: Json) -> str | None:
    """A whole query (OpenAPI 3.2, `in: querystring`)."""
    if _is_form(parameter):
        return form_text({}, value, encoded) or None
    return encoded(content(parameter, value))


_TEXTS: dict[Where, Callable[[Parameter, Json], str | None]] = {
    "path": path_text,
    "query": query_text,
    "querystring": _querystring,
    "header": header_text,
    "cookie": cookie_text,
}


def _path(plan: CallPlan, texts: Mapping[str, str], wrong: dict[str, str]) -> str:
    """The path below the backend's URL; `wrong` takes the arguments that would lead elsewhere."""
    frame, segments = read_template(plan.path)
    filled: list[str] = []
    for segment in segments:
        text = segment.frame % tuple([texts[name] for name in segment.names])
        filled.append(text)
        if is_plain_segment(text):
            continue
        inside = [
            parameter for parameter in plan.parameters if parameter.where == "path" and parameter.name in segment.names
        ]
        try:
            check_segment(text, may_hold_slash=any(parameter.encoded_slashes for parameter in inside))
        except UnsendableError as exc:
            wrong.update({parameter.argument: str(exc) for parameter in inside})
    return frame % tuple(filled)


def _body(plan: BodyPlan, values: Mapping[str, Json], wrong: dict[str, str]) -> Body | None:
    """The body, if there is one; `wrong` says why it cannot be sent."""
    value = values.get(plan.argument, UNSET)
    if value is UNSET and plan.fixed:
        value = {}
    is_null = value is None or (type(value) is Raw and bytes(value) == b"null")
    if value is UNSET or (is_null and plan.kind != "json"):
        if plan.required:
            wrong[plan.argument] = "is required"
        return None
    try:
        return encode_body(plan, value)
    except UnsendableError as exc:
        wrong[plan.argument] = str(exc)
        return None


def _longest(plan: CallPlan, values: Mapping[str, Json]) -> str:
    """The argument outside the body that takes the most room."""
    sizes = {parameter.argument: len(str(values.get(parameter.argument, ""))) for parameter in plan.parameters}
    return max(sizes, key=sizes.__getitem__, default=BODY)


@lru_cache(64)  # there are fewer
def _method(name: str) -> bytes:
    return name.encode("ascii")


@lru_cache(4096)  # the names of a few documents
def _field_name(name: str) -> bytes:
    return name.lower().encode("ascii", "replace")  # which is no name, and is refused where it would be sent


def _header(name: str, text: str) -> Header:
    return _field_name(name), text.encode("ascii", "replace")
