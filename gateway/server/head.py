"""Checks of a request's head beyond those of the parser, without sockets.

llhttp already refuses bad characters, bare CR and LF, folded lines and every contradictory Content-Length.
RFC 9112 (HTTP/1.1): section 3.2 on targets and Host, section 6 on framing, section 11.2 on request smuggling.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from http import HTTPStatus

from gateway.errors import CODE, ErrorCode, ServerCode
from gateway.server.options import MAX_HEADERS

Headers = list[tuple[bytes, bytes]]

PHRASES = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINE = {status: f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}

# RFC 3986 section 3.2.2, as far as names are registered: no percent signs, no delimiters; then a port.
HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
MAX_HOST_BYTES = 255 + len(":65535")  # RFC 1035 section 2.3.4
HASH = ord("#")  # a number, because bytes look for bytes by way of an exception, ten times as long
ABSOLUTE = re.compile(rb"https?://([^/?]+)([^#]*)", re.IGNORECASE)


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A request this server does not take."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


CODES = {
    408: ServerCode.REQUEST_TIMEOUT,
    413: ErrorCode.PAYLOAD_TOO_LARGE,
    414: ServerCode.HEAD_TOO_LARGE,
    429: ErrorCode.RATE_LIMITED,
    431: ServerCode.HEAD_TOO_LARGE,
    500: ErrorCode.INTERNAL,
    503: ServerCode.GATEWAY_UNAVAILABLE,
}


def code_of(status: int) -> str:
    """The `Toolgate-Code` of a status."""
    return CODES.get(status, ErrorCode.INVALID_REQUEST)


def refusal(status: int, message: str) -> bytes:
    """Encodes a whole answer that ends the connection."""
    code = code_of(status)
    body = json.dumps({"message": message, "code": code}).encode()
    return (
        STATUS_LINE[status]
        + b"%b: %b\r\n" % (CODE, code.encode())
        + b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        # A caller refused for what all callers do at once should not come back at once.
        + (b"retry-after: 1\r\n" if status in (429, 503) else b"")
        + b"connection: close\r\n\r\n"
        + body
    )


def check_fields(headers: Headers, version: str) -> dict[bytes, bytes]:
    """Returns the headers by lower-case name, the last of each.

    Raises:
        Refused: there are too many, or Host or the framing could be understood in two ways.
    """
    if len(headers) > MAX_HEADERS:
        raise Refused(431, f"A request may have at most {MAX_HEADERS} headers.")
    fields = dict(headers)
    if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
        raise Refused(400, "The Host header is repeated.")
    if version not in ("1.1", "1.0"):
        raise Refused(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    host = fields.get(b"host")
    if host is None:
        if version == "1.1":
            raise Refused(400, "The Host header is missing.")
    elif len(host) > MAX_HOST_BYTES or not is_host(host):
        raise Refused(400, "The Host header is not a host.")
    coding = fields.get(b"transfer-encoding")
    # RFC 9112 section 6.1: HTTP/1.0 has no codings, so a hop before us may have framed this message differently.
    if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
        raise Refused(400, "The only transfer coding taken is chunked, over HTTP/1.1.")
    return fields


@lru_cache(maxsize=1024)  # a deployment has a few names
def is_host(value: bytes) -> bool:
    """Whether a Host header names a host."""
    return HOST.fullmatch(value) is not None


def split_target(target: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Splits a request target into path and query.

    The absolute form is taken if it names the host the Host header names: RFC 9112 section 3.2.2 lets the target
    win where they differ, and a hop before us that chose by the header would have let another host through.

    Raises:
        Refused: it is neither a path nor such a URL.
    """
    if not target.startswith(b"/"):
        absolute = ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise Refused(400, "The request target must be a path.")
        if host is None or absolute[1].lower() != host.lower():
            raise Refused(400, "The request target and the Host header name different hosts.")
        target = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
    path, _, query = target.partition(b"?")
    if HASH in target:
        raise Refused(400, "The request target holds a fragment.")
    return path, query


def head_size(target: bytes, headers: Headers) -> int:
    """Counts the bytes of a head, without its method and version."""
    return len(target) + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)
