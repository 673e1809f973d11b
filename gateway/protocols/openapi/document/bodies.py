"""Request bodies: JSON, lines of it, forms, multipart, text, bytes (OpenAPI 3.2, Media Type and Encoding Objects)."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Raw

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.plan import BodyKind, BodyPlan, DeepArrays, Field, Parameter
from gateway.protocols.openapi.document.serialise import (
    CONTAINERS,
    DELIMITERS,
    Encode,
    UnsendableError,
    deep_pairs,
    encoder,
    query_text,
    scalar,
    without,
)

MAX_PARTS = 1024  # values of a body longer than what is ever read here: some long texts are read fast
MAX_ESCAPES = 16 * 1024  # characters of a form that are encoded one by one: 5 ms
PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~ "
BOUNDARY_DIGITS = 24

_is_media_type = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:; ?[ -~]*)?", re.ASCII).fullmatch
# As browsers write names in quotes (HTML, multipart/form-data encoding algorithm).
_QUOTED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})

Body = tuple[str, bytes]  # its Content-Type, and itself


def encode_body(plan: BodyPlan, value: Json) -> Body:
    """Encodes the argument `body`; JSON of very many values (`Raw`) goes on as it is. Raises UnsendableError."""
    if type(value) is Raw and (plan.fixed or plan.hidden or plan.kind != "json"):
        value = narrow(value)
    if plan.fixed or plan.hidden:
        value = with_fixed(plan, value)
    return _ENCODERS[plan.kind](plan, value)


def narrow(text: Raw) -> Json:
    """Reads a JSON text. Raises UnsendableError for so many values that reading them would hold up other calls."""
    document = bytes(text)
    if len(document) > jsontext.NEVER_HERE_BYTES:
        is_wide = document[:1] != b'"' and sum(map(document.count, (b",", b"[", b"{"))) > MAX_PARTS
    else:
        is_wide = jsontext.is_wide(document)
    if is_wide:
        raise UnsendableError("holds too many values to be sent here")
    return jsontext.decode(document)


def _encode_json(plan: BodyPlan, value: Json) -> Body:
    return plan.media_type, bytes(value) if type(value) is Raw else jsontext.encode(value)


def _encode_lines(plan: BodyPlan, value: Json) -> Body:
    if type(value) is not list:
        raise UnsendableError("is no array")
    return plan.media_type, b"".join(jsontext.encode(item) + b"\n" for item in value)


def _encode_text(plan: BodyPlan, value: Json) -> Body:
    charset = media.charset_of(plan.media_type) or "utf-8"
    if not media.KNOWN_CHARSET.fullmatch(charset):
        raise UnsendableError("has a charset that is not known here")
    try:
        return plan.media_type, scalar(value).encode(charset)
    except (UnicodeEncodeError, LookupError) as exc:
        raise UnsendableError("holds a character that its charset lacks") from exc


def _encode_bytes(plan: BodyPlan, value: Json) -> Body:
    return plan.media_type, _from_base64(value)


def _from_base64(value: Json) -> bytes:
    if type(value) is not str:
        raise UnsendableError("is no base64 text")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as exc:
        raise UnsendableError("is not valid base64") from exc


def _encode_form(plan: BodyPlan, value: Json) -> Body:
    has_many = len(jsontext.encode(value).translate(None, PLAIN)) > MAX_ESCAPES
    encode = _all_encoded if has_many else None
    return plan.media_type, form_text(plan.fields, value, encode, plan.deep_arrays).encode("ascii")


def _with_plus(text: str) -> str:
    return _but_blanks(text).replace(" ", "+")


def _all_encoded(text: str) -> str:
    """Encodes every byte, which means the same: a hundred times as fast where there is much to encode."""
    return f"%{text.encode().hex('%').upper()}" if text else ""


def form_text(
    fields: Mapping[str, Field], value: Json, encode: Encode | None = None, deep_arrays: DeepArrays = "repeat"
) -> str:
    """An object as `name=value` pairs; nested values are JSON texts. Raises UnsendableError.

    `encode` takes the place of what encodes names and values, whatever the style of their field.
    """
    pairs: list[str] = []
    encode_plain = encode or _with_plus
    for name, inner in _members(value):
        field = fields.get(name, _PLAIN)
        if field.style is not None:
            pairs += filter(None, (query_text(_as_parameter(name, field, deep_arrays), inner, encode),))
            continue
        for item in _items(inner, field):
            text = _json_text(item) if _is_json(item, field) else scalar(item)
            pairs.append(f"{encode_plain(name)}={encode_plain(text)}")
    return "&".join(pairs)


def _members(value: Json) -> list[tuple[str, Json]]:
    if type(value) is not dict:
        raise UnsendableError("is no object")
    return [(name, inner) for name, inner in value.items() if inner is not None]


def _items(value: Json, field: Field) -> list[Json]:
    """An array item by item, unless it is declared to be one JSON text; others as they are."""
    return value if type(value) is list and "json" not in field.content_type else [value]


def _is_json(value: Json, field: Field) -> bool:
    return type(value) in CONTAINERS or "json" in field.content_type


def _json_text(value: Json) -> str:
    return jsontext.encode(value).decode()


def _as_parameter(name: str, field: Field, deep_arrays: DeepArrays) -> Parameter:
    assert field.style is not None
    return Parameter(
        argument=name,
        name=name,
        where="query",
        style=field.style,
        explode=field.explode,
        allow_reserved=field.allow_reserved,
        deep_arrays=deep_arrays,
    )


def _encode_multipart(plan: BodyPlan, value: Json) -> Body:
    """The parts of all members (RFC 7578)."""
    parts = [
        _part(part, item, field)
        for name, inner in _members(value)
        for field in (plan.fields.get(name, _PLAIN),)
        for part, item in _parts(name, inner, field, plan.deep_arrays)
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    # No part holds its own digest.
    boundary = digest.hexdigest()[:BOUNDARY_DIGITS]
    lines = [b"--%b\r\n%b\r\n" % (boundary.encode(), part) for part in parts]
    return f"{plan.media_type}; boundary={boundary}", b"".join((*lines, b"--%b--\r\n" % boundary.encode()))


def _parts(name: str, value: Json, field: Field, deep_arrays: DeepArrays) -> list[tuple[str, Json]]:
    """The names and values of a member's parts: one for each item of an array, unless its style is another."""
    if field.style == "deepObject":
        return list(deep_pairs(name, value, deep_arrays))
    if field.style is not None and type(value) is list:
        delimiter = DELIMITERS.get(field.style, ",")[0]
        return [(name, delimiter.join(without(delimiter, scalar(item)) for item in value))] if value else []
    return [(name, item) for item in _items(value, field)]


def _part(name: str, value: Json, field: Field) -> bytes:
    """The head and the content of a part."""
    disposition = f'form-data; name="{_quoted(name)}"'
    content_type = _declared_type(field)
    if field.is_binary:
        file = value if type(value) is dict else {"base64": value}
        content = _from_base64(file.get("base64"))
        disposition += f'; filename="{_quoted(file.get("filename") or name)}"'
        content_type = _given_type(file) or content_type or "application/octet-stream"
    elif _is_json(value, field):
        content = jsontext.encode(value)
        content_type = content_type or "application/json"
    else:
        content = scalar(value).encode()
        content_type = content_type or "text/plain; charset=utf-8"
    lines = {"Content-Disposition": disposition, "Content-Type": content_type, **field.headers}
    return "".join(f"{line}: {text}\r\n" for line, text in lines.items()).encode() + b"\r\n" + content


def _declared_type(field: Field) -> str:
    """The first of the types that a part may have, unless it leaves something open."""
    types = (text.strip() for text in field.content_type.split(","))
    return next((text for text in types if "*" not in text), "")


def _given_type(file: JsonObject) -> str:
    content_type = file.get("content_type")
    if content_type is None:
        return ""
    if type(content_type) is not str or not _is_media_type(content_type):
        raise UnsendableError("has a content_type that is no media type")
    return content_type


def _quoted(text: Json) -> str:
    if type(text) is not str:
        raise UnsendableError("has a filename that is no text")
    quoted = text.translate(_QUOTED)
    if not quoted.isprintable():
        raise UnsendableError("has a name with a character that it may not have")
    return quoted


_PLAIN = Field()
_but_blanks = encoder(" ")
_ENCODERS: dict[BodyKind, Callable[[BodyPlan, Json], Body]] = {
    "json": _encode_json,
    "lines": _encode_lines,
    "form": _encode_form,
    "multipart": _encode_multipart,
    "text": _encode_text,
    "bytes": _encode_bytes,
}


FORMS = ("form", "multipart")
GUARDED = "has a member that is, or is taken for, one that callers do not give"

_between = re.compile(r"[\[\].\x00]+").split  # names of members in the name of a field
_BLANKS = str.maketrans(". ", "__")  # as PHP has them in the names of fields


def with_fixed(plan: BodyPlan, value: Json) -> Json:
    """The value of a body with the operator's values in it. Raises UnsendableError for a member that is guarded."""
    for pointer in (*plan.hidden, *plan.fixed):
        tokens = jsontext.split_pointer(pointer)
        if plan.kind in FORMS and type(value) is dict:
            _check_fields(value, tokens, plan.fields)
        _check_members(value, tokens, is_fixed=pointer in plan.fixed)
    for pointer, fixed in plan.fixed.items():
        value = _with_fixed(value, jsontext.split_pointer(pointer), fixed)
    return value


def _with_fixed(value: Json, tokens: Sequence[str], fixed: Json) -> Json:
    """The value with another at a JSON Pointer, whose missing objects are made; what is given stays as it is."""
    if not tokens:
        return fixed
    token, *rest = tokens
    if isinstance(value, list):
        if not token.isdecimal() or int(token) >= len(value):
            raise UnsendableError("lacks the item whose value is fixed")
        return [_with_fixed(item, rest, fixed) if at == int(token) else item for at, item in enumerate(value)]
    if value is not None and not isinstance(value, dict):
        raise UnsendableError("is no object where a member's value is fixed")
    members = value or {}
    return {**members, token: _with_fixed(members.get(token), rest, fixed)}


def _check_members(value: Json, tokens: Sequence[str], *, is_fixed: bool) -> None:
    """Refuses members on the way to a guarded one that differ from it, or from those around it, in case alone."""
    for at, token in enumerate(tokens):
        if isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
            continue
        if not isinstance(value, dict):
            return
        folded = token.casefold()
        if any(name != token and name.casefold() == folded for name in value):
            raise UnsendableError(GUARDED)
        if token not in value:
            return
        if at == len(tokens) - 1 and not is_fixed:
            raise UnsendableError(GUARDED)
        value = value[token]


def _check_fields(members: Mapping[str, Json], tokens: Sequence[str], fields: Mapping[str, Field]) -> None:
    """Refuses fields of a form that frameworks would put where a guarded member is."""
    guarded = tuple(part for token in tokens for part in _member_path(token))
    for name, inner in _fields(members, fields, tokens[0]):
        if _reaches(_member_path(name), inner, guarded) or _member_path(name.translate(_BLANKS)) == guarded:
            raise UnsendableError(GUARDED)


def _fields(members: Mapping[str, Json], fields: Mapping[str, Field], but: str) -> Iterator[tuple[str, Json]]:
    """The fields that members become, one of which may become several; `but` is the member that is itself meant."""
    for name, inner in members.items():
        field = fields.get(name)
        if field is not None and field.style == "form" and field.explode and type(inner) is dict:
            yield from inner.items()
        elif name != but:
            yield name, inner


def _member_path(name: str) -> tuple[str, ...]:
    """The names of members one inside the other that a field means: `a[B].c` has `a`, `b` and `c`."""
    return tuple(part.strip().casefold() for part in _between(name) if part.strip())


def _reaches(path: Sequence[str], inner: Json, guarded: Sequence[str]) -> bool:
    """Whether a field with that path, or something in it, would be the guarded member, or a part of it."""
    if len(path) >= len(guarded):
        return tuple(path[: len(guarded)]) == tuple(guarded)
    if tuple(guarded[: len(path)]) != tuple(path) or not isinstance(inner, dict):
        return False
    return any(_reaches((*path, *_member_path(name)), value, guarded) for name, value in inner.items())
