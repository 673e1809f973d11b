"""The limits of a pool, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a pool, which serves one origin, may hold, and how long it may wait."""

    # What a common `ulimit -n` of 1024 leaves room for, with callers' connections beside it.
    connections: int = 256
    # Four times the connections; a caller behind more than these meets its own timeout first.
    waiters: int = 1024
    # Status line and header fields; after them, framing (chunk sizes, extensions, trailers) beyond what the body allows
    # (`FRAMING_PER_BYTE`). Servers limit their own heads to 8 to 32 KiB.
    head_bytes: int = 64 * KIB
    # Below the shortest keep-alive timeouts in use (uvicorn and Node.js: 5 s), so that the gateway closes an idle
    # connection before the server does so at the moment of a write.
    idle_s: float = 4.0
    # DNS, TCP and TLS together: room for one lost SYN (sent again after 1 s).
    connect_timeout_s: float = 2.0
    # Unread bytes of a streamed reply at which its connection is paused: a few packets ahead of the reader.
    stream_bytes: int = 64 * KIB
