"""What can be read off a call before it is known in which dialect it is."""

from __future__ import annotations

from gateway import jsontext
from gateway.errors import ErrorCode, GatewayError
from gateway.model import Json, JsonObject
from gateway.wire import Head, Headers

JSON_TYPE = b"application/json"
CHARSETS = (b"utf-8", b"utf8", b"us-ascii")


def check_media(head: Head) -> None:
    """Raises UNSUPPORTED_MEDIA for a call whose body is not plain JSON."""
    media = head.headers.get(b"content-type", b"")
    if media != JSON_TYPE and not _is_json(media):
        raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's content type must be application/json.")
    if b"content-encoding" in head.headers and head.headers[b"content-encoding"].lower() != b"identity":
        raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's body must not be compressed.")


def _is_json(media: bytes) -> bool:
    kind, *parameters = media.lower().split(b";")
    charsets = [item.strip().removeprefix(b"charset=").strip(b'"') for item in parameters if b"charset=" in item]
    return kind.strip() == JSON_TYPE and all(charset in CHARSETS for charset in charsets)


def read_object(body: bytes) -> JsonObject:
    """The JSON object a call's body is. Raises INVALID_REQUEST."""
    try:
        document = jsontext.decode(body)
    except jsontext.JsonError as exc:
        raise GatewayError(ErrorCode.INVALID_REQUEST, f"The body is not valid JSON: {exc}.") from exc
    if not isinstance(document, dict):
        raise GatewayError(ErrorCode.INVALID_REQUEST, "The body must be a JSON object.")
    return document


def read_optional(body: bytes) -> Json:
    """A GET body: what cannot be read counts as none."""
    try:
        return jsontext.decode(body) if body else None
    except jsontext.JsonError:
        return None


def forwarded(head: Head, allowed: tuple[bytes, ...]) -> Headers:
    """The caller's headers that a route passes on; one that is repeated, line by line (RFC 9110, section 5.3).

    What `Connection` names is for this connection and goes no further (section 7.6.1).
    """
    if b"connection" in head.headers:
        lines = head.lines or ((b"connection", head.headers[b"connection"]),)
        listed = b",".join([value for name, value in lines if name == b"connection"]).lower().split(b",")
        kept_here = {name.strip(b" \t") for name in listed}
        allowed = tuple(name for name in allowed if name not in kept_here)
    if head.lines:
        return tuple((name, value) for name in allowed for line, value in head.lines if line == name)
    return tuple((name, head.headers[name]) for name in allowed if name in head.headers)
