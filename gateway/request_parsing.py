"""What is read of a request whatever its surface: its document, and the headers that go on to a tool server."""

from __future__ import annotations

from gateway import jsontext
from gateway.errors import ErrorCode, GatewayError
from gateway.model import Json
from gateway.wire import Head, Headers


class NotJsonError(GatewayError):
    """A body that is not JSON; surfaces that tell this from JSON of the wrong shape go by the class."""

    def __init__(self, reason: object) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"The body is not valid JSON: {reason}.")


def read_document(body: bytes, *, is_needed: bool) -> Json:
    """The JSON value that a body is; None for one that cannot be read and is not needed. Raises NotJsonError."""
    try:
        return jsontext.decode(body) if body or is_needed else None
    except jsontext.JsonError as exc:
        if is_needed:
            raise NotJsonError(exc) from exc
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
