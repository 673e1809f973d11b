"""Why the server refuses requests by itself, before an application sees them, and how it says so."""

from __future__ import annotations

import json
from enum import Enum
from http import HTTPStatus

from gateway.core.errors import CODE, ErrorCode, ServerCode
from gateway.core.tracing import REQUEST_ID
from gateway.net.server.options import MAX_HEADERS

PHRASES = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINE = {status: f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}


CODES = {
    408: ServerCode.REQUEST_TIMEOUT,
    413: ErrorCode.PAYLOAD_TOO_LARGE,
    414: ServerCode.HEAD_TOO_LARGE,
    429: ErrorCode.RATE_LIMITED,
    431: ServerCode.HEAD_TOO_LARGE,
    500: ErrorCode.INTERNAL,
    503: ServerCode.GATEWAY_UNAVAILABLE,
}


class ServerRefusal(Enum):
    """One cause: its word for the log (`reason`), its status, and the sentence for the caller."""

    NOT_HTTP = "not_http", 400, "The request is not valid HTTP/1.1."
    VERSION = "http_version", 505, "Only HTTP/1.1 and HTTP/1.0 are spoken here."
    NO_HOST = "host", 400, "The Host header is missing."
    REPEATED_HOST = "host", 400, "The Host header is repeated."
    BAD_HOST = "host", 400, "The Host header is not a host."
    OTHER_HOST = "host", 400, "The request target and the Host header name different hosts."
    TARGET = "target", 400, "The request target must be a path."
    FRAGMENT = "target", 400, "The request target holds a fragment."
    FRAMING = "framing", 400, "The only transfer coding that is accepted is chunked, over HTTP/1.1."
    CONNECT = "method", 501, "This server is not a proxy."
    EXTRA_REQUEST = "extra_request", 400, "This connection takes no more requests."
    LONG_TARGET = "long_target", 414, "The request target is too long."
    LARGE_HEAD = "large_head", 431, "The head of the request is too large."
    MANY_HEADERS = "large_head", 431, f"A request may have at most {MAX_HEADERS} headers."
    LARGE_FRAMING = "large_framing", 431, "The framing of the body is too large."
    SLOW_HEAD = "slow_head", 408, "The head of the request took too long."
    SLOW_BODY = "slow_body", 408, "The body of the request took too long."
    UNWANTED_BODY = "unwanted_body", 413, "The body was not wanted."
    CALLER_MEMORY = "caller_memory", 429, "Your requests take too much memory."
    BODY_MEMORY = "memory", 503, "There is no memory left for bodies."
    ANSWER_MEMORY = "memory", 503, "There is no memory left for answers."
    CONNECTIONS = "max_connections", 503, "Too many connections."
    PIPELINED = "pipelined", 503, "Too many requests at once on one connection."
    DRAINING = "draining", 503, "The gateway is stopping."
    FAILED = "internal", 500, "The gateway failed to answer."

    def __init__(self, reason: str, status: int, message: str) -> None:
        self.reason = reason
        self.status = status
        self.message = message

    @property
    def code(self) -> str:
        """The `Toolgate-Code`."""
        return CODES.get(self.status, ErrorCode.INVALID_REQUEST)


class RefusedRequest(Exception):  # noqa: N818 - an answer, not a fault
    """A request this server does not take."""

    def __init__(self, why: ServerRefusal) -> None:
        super().__init__(why.message)
        self.why = why


def answer(why: ServerRefusal, request_id: bytes) -> bytes:
    """Encodes a whole answer that ends the connection; an empty id is left out."""
    body = json.dumps({"message": why.message, "code": why.code}).encode()
    return (
        STATUS_LINE[why.status]
        + b"%b: %b\r\n" % (CODE, why.code.encode())
        + (b"%b: %b\r\n" % (REQUEST_ID, request_id) if request_id else b"")
        + b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        # A caller refused for what all callers do at once should not come back at once.
        + (b"retry-after: 1\r\n" if why.status in (429, 503) else b"")
        + b"connection: close\r\n\r\n"
        + body
    )
