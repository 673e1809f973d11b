"""Request bodies: JSON, lines of it, forms, multipart, text, bytes (OpenAPI 3.2, Media Type and Encoding Objects)."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable, Mapping

from msgspec import Raw

from gateway import jsontext
from gateway.model import Json, JsonObject
from gateway.openapi import media
from gateway.openapi.guarded import with_fixed
from gateway.openapi.plan import BodyKind, BodyPlan, DeepArrays, Field, Parameter
from gateway.openapi.serialise import (
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
    given = file.get("content_type")
    if given is None:
        return ""
    if type(given) is not str or not _is_media_type(given):
        raise UnsendableError("has a content_type that is no media type")
    return given


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
