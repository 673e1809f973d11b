"""Where a redirect leads, if it may be followed: a path of the same server, below the path that it has for us."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from gateway.backends.server import path_and_query
from gateway.openapi.paths import check
from gateway.openapi.serialise import UnsendableError
from gateway.transport import Origin, Reply

MOVED = frozenset((301, 302, 303, 307, 308))  # 300 offers a choice, 304 is none, 305 names a proxy (RFC 9110, 15.4)
MAX_HOPS = 3
MAX_LOCATION = 8192  # bytes


def redirected(reply: Reply, origin: Origin, target: bytes, base_path: str = "") -> bytes | None:
    """The path and query to ask for in place of `target`; None if the reply is no redirect, or leads elsewhere."""
    location = reply.header(b"location")
    if reply.status not in MOVED or location is None or len(location) > MAX_LOCATION:
        return None
    try:
        url = urljoin(f"{origin}{target.decode('ascii')}", location.decode("ascii"))
        if Origin.parse(url) != origin:
            return None
        return path_and_query(url) if _is_below(base_path, urlsplit(url).path) else None
    except ValueError:  # also UnicodeError
        return None


def _is_below(base_path: str, path: str) -> bool:
    """Whether a path stays below another one, however servers read its segments: as they do those of arguments."""
    if path != base_path and not path.startswith(base_path + "/"):
        return False
    try:
        for segment in filter(None, path[len(base_path) :].split("/")):
            check(segment, may_hold_slash=True)
    except UnsendableError:
        return False
    return True
