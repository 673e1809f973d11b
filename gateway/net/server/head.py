"""Checks of a request's head beyond those of the parser, without sockets.

llhttp already refuses bad characters, bare CR and LF, folded lines and every contradictory Content-Length.
RFC 9112 (HTTP/1.1): section 3.2 on targets and Host, section 6 on framing, section 11.2 on request smuggling.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.net.server.options import MAX_HEADERS
from gateway.net.server.refusals import RefusedRequest, ServerRefusal

Headers = list[tuple[bytes, bytes]]

# RFC 3986 section 3.2.2, as far as names are registered: no percent signs, no delimiters; then a port.
HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
MAX_HOST_BYTES = 255 + len(":65535")  # RFC 1035 section 2.3.4
HASH = ord("#")  # a number, because bytes look for bytes by way of an exception, ten times as long
ABSOLUTE = re.compile(rb"https?://([^/?]+)([^#]*)", re.IGNORECASE)


def check_fields(headers: Headers, version: str) -> dict[bytes, bytes]:
    """Returns the headers by lower-case name, the last of each.

    Raises:
        RefusedRequest: there are too many, or Host or the framing could be understood in two ways.
    """
    if len(headers) > MAX_HEADERS:
        raise RefusedRequest(ServerRefusal.MANY_HEADERS)
    fields = dict(headers)
    if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
        raise RefusedRequest(ServerRefusal.REPEATED_HOST)
    if version not in ("1.1", "1.0"):
        raise RefusedRequest(ServerRefusal.VERSION)
    host = fields.get(b"host")
    if host is None:
        if version == "1.1":
            raise RefusedRequest(ServerRefusal.NO_HOST)
    elif len(host) > MAX_HOST_BYTES or not is_host(host):
        raise RefusedRequest(ServerRefusal.BAD_HOST)
    coding = fields.get(b"transfer-encoding")
    # RFC 9112 section 6.1: HTTP/1.0 has no codings, so a hop before us may have framed this message differently.
    if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
        raise RefusedRequest(ServerRefusal.FRAMING)
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
        RefusedRequest: it is neither a path nor such a URL.
    """
    if not target.startswith(b"/"):
        absolute = ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise RefusedRequest(ServerRefusal.TARGET)
        if host is None or absolute[1].lower() != host.lower():
            raise RefusedRequest(ServerRefusal.OTHER_HOST)
        target = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
    path, _, query = target.partition(b"?")
    if HASH in target:
        raise RefusedRequest(ServerRefusal.FRAGMENT)
    return path, query


def head_size(target: bytes, headers: Headers) -> int:
    """Counts the bytes of a head, without its method and version."""
    return len(target) + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)
