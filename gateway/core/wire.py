"""HTTP messages as plain data: heads, requests and replies, without sockets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

Headers = tuple[tuple[bytes, bytes], ...]
is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch  # names of headers, methods (RFC 9110, 5.6.2)
SERVED = "toolgate.served"  # the extension of the scope: a `ports.ServerRequest`


class Body(Protocol):
    """The body of a caller's request, which may still be on its way. Both raise PAYLOAD_TOO_LARGE."""

    def now(self, holder: str = "") -> bytes | None:
        """The whole body if it has arrived, as most have; None if it has to be read.

        `holder`: the principal for whom it counts in memory from here on; by default it counts for its address.
        """
        ...

    async def read(self) -> bytes:
        """Waits for the whole body, after `now` had none."""
        ...


class Head(Struct, frozen=True, kw_only=True):
    """The head of a caller's request. Header names are lower case; headers that matter to us are never repeated."""

    method: str
    path: str  # without the dialect prefix (`/tools/call`), and with the word that a segment in braces stands for
    headers: Mapping[bytes, bytes]
    dialect: str | None = None  # the one that the path names
    lines: Headers = ()  # all headers as they came, if one of them is repeated


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request to a tool server."""

    method: bytes
    path: str  # below the backend's base URL; starts with a slash
    headers: Headers = ()
    body: bytes = b""


class Answer(Protocol):
    """An answer of a tool server, by any HTTP client. Header names are lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def body(self) -> bytes: ...

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        ...


class WireReply(Struct, frozen=True, kw_only=True):
    """An answer, from a tool server or to a caller. Header names are lower case."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Events(Protocol):
    """What one caller is sent, piece by piece, for as long as it wants to hear it."""

    async def next(self) -> bytes | None:
        """Waits for the next piece; None after the last one."""
        ...

    def close(self) -> None:
        """Ends it, whether it is over or not: its caller has left."""
        ...


class StreamReply(WireReply, frozen=True, kw_only=True):
    """An answer whose body is sent in pieces as they come."""

    events: Events


class JoinedList(Struct, frozen=True, kw_only=True):
    """An encoded list of tools. Surfaces that neither compress nor revalidate leave `gzipped` and `etag` empty."""

    body: bytes
    gzipped: bytes | None = None
    etag: bytes = b""
