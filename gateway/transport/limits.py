"""The bounds of a pool, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one pool, towards one origin, may hold and how long it may wait."""

    # What a common `ulimit -n` of 1024 leaves room for, with callers' connections beside it.
    connections: int = 256
    # Some four rounds of the pool; a caller who waits longer than that meets its own timeout first.
    waiters: int = 1024
    # Status line and header fields; behind them, what framing (chunk sizes and extensions, trailers) there is beyond
    # what a body allows (`FRAMING_PER_BYTE`). Servers limit themselves to 8 to 32 KiB.
    head_bytes: int = 64 * KIB
    # Below the shortest keep-alive timeouts in use (uvicorn and Node.js: 5 s), so that it is we who close an idle
    # connection and not a server at the very moment we write.
    idle_s: float = 4.0
    # DNS, TCP and TLS together: room for one lost SYN (sent again after 1 s).
    connect_timeout_s: float = 2.0
    # What a streamed reply may keep unread before its connection is no longer read: a few packets ahead of the reader.
    stream_bytes: int = 64 * KIB
