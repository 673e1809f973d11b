"""Encodes the head of a request, and refuses one that could be read as more than one request (RFC 9112, 3 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gateway.net.client.connection import Headers
from gateway.net.client.errors import Kind, TransportError

# Used with bytes.translate, which deletes them in one C loop: faster than a regular expression.
TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CONTROLS = bytes(set(range(0x20)) - {0x09}) + b"\x7f"  # bytes that no value may have; a tab is allowed
TARGET = bytes(set(range(0x21, 0x7F)) - {0x23})  # a target ends before the `#` of a fragment

# These frame the message or belong to the connection: setting them would allow to smuggle in a second request.
OURS = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"upgrade", b"te", b"expect")
)

PLAIN = b"accept-encoding: identity\r\n"  # without it any coding will do (RFC 9110, section 12.5.3)
MAX_KEPT = 64  # bytes of a target whose head is kept; longer ones hold what a caller wrote, and hardly come twice
NO_BODY = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))  # for these an empty body is not announced


def encode_head(
    method: bytes,
    target: bytes,
    host: bytes,
    headers: Headers,
    more: Sequence[tuple[bytes, bytes]] = (),
    body_bytes: int = 0,
    *,
    own: Headers = (),
    prefix: bytes = b"",
) -> bytes:
    """Joins a request head; `headers` are those that many requests share, `more` are this one's own.

    `own` replace others of their (lower-case) names; `prefix` stands before the target. Raises INVALID, with nothing
    sent, for what does not belong in a head.
    """
    if own:
        names = {name for name, _ in own}
        headers = (*(pair for pair in headers if pair[0].lower() not in names), *own)
        more = [pair for pair in more if pair[0].lower() not in names]
    framing = b"" if not body_bytes and method in NO_BODY else b"content-length: %d\r\n" % body_bytes
    start = _start if len(target) <= MAX_KEPT else _joined
    return b"%b%b%b\r\n" % (start(method, prefix, target, host, headers), _fields(more) if more else b"", framing)


def _joined(method: bytes, prefix: bytes, target: bytes, host: bytes, headers: Headers) -> bytes:
    if target[:1] != b"/" or target.translate(None, TARGET):
        raise _invalid("The request target is not an absolute path of printable ASCII characters.")
    return b"%b %b%b%b" % (method, prefix, target, _rest(method, host, headers))


_start = lru_cache(maxsize=1024)(_joined)  # a few paths of each tool server, times the credentials in use there


@lru_cache(maxsize=1024)  # fewer
def _rest(method: bytes, host: bytes, headers: Headers) -> bytes:
    """Returns what stands behind the target."""
    if not method or method.translate(None, TOKEN):
        raise _invalid("The method is not a token.")
    if not host or host.translate(None, CONTROLS) != host:
        raise _invalid("The host is not a header value.")
    plain = b"" if any(name.lower() == b"accept-encoding" for name, _ in headers) else PLAIN
    return b" HTTP/1.1\r\nhost: %b\r\n%b%b" % (host, plain, _fields(headers))


def _fields(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    lines: list[bytes] = []
    for name, value in headers:
        if value.translate(None, CONTROLS) != value:
            raise _invalid("A header value holds a line break or another control character.")
        lines += (_field_name(name), value, b"\r\n")
    return b"".join(lines)


@lru_cache(maxsize=256)  # all requests have the same few names
def _field_name(name: bytes) -> bytes:
    """Returns the name with the colon and space before its value."""
    if not name or name.translate(None, TOKEN):
        raise _invalid("A header name is not a token.")
    if name.lower() in OURS:
        raise _invalid("A header that the transport sets itself was given.")
    return name + b": "


def _invalid(message: str) -> TransportError:
    return TransportError(Kind.INVALID, message, sent=False)
