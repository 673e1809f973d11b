"""Server options, addresses, and fixed limits."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

MAX_HEADERS = 100  # browsers and proxies send under 40; each costs the application a comparison per look-up
MAX_TARGET_BYTES = 8192  # what RFC 9112 section 3 asks every recipient to support at the least
MAX_PIPELINED = 16  # requests read ahead of one that still runs; each holds its head and body in memory
MAX_UNREAD_BYTES = 256 * 1024  # of a body that is not wanted, read so that its sender still sees the answer
LINGER_S = 2.0  # how long a refused caller may take to read the refusal; nginx waits 5 s, a LAN needs milliseconds
MIN_PROGRESS_BYTES = 64 * 1024  # a reader must take this much per stall_timeout_s, or it is only holding memory
MANY_CONNECTIONS = 10_000  # where the configuration sets no limit: some 200 MB while all of them wait
ADMIN_CONNECTIONS = 256  # scrapers and probes: a handful each; counted apart so that callers cannot shut them out
ADMIN_ALWAYS = frozenset({"/livez"})  # has places of its own: an orchestrator restarts who does not answer there
RESERVED_CONNECTIONS = 200  # for it; more than are accepted in a row, so that a probe among them is read before it goes
SPARE_CONNECTIONS = 256  # so many beyond the limit get a 503; those beyond these are just closed
UNCOUNTED_BYTES = 4 * 1024  # of a body: no more than a connection costs anyway
READ_AHEAD_BYTES = 64 * 1024  # of a body that the application has not taken yet
COUNTED_AHEAD_BYTES = 16 * 1024  # so much more of a body may arrive before it is counted again
UNREAD_BYTES = 16 * 1024  # of an answer, in the process and not in the kernel; from here on it is counted
PRESSED_S = 2.0  # a reader who takes less than MIN_PROGRESS_BYTES in this time loses its answer when there is no room
BODY_MEMORY_BYTES = 256 * 1024 * 1024  # for a server whose application sets no limit
BACKLOG = 2048  # connections in the queue of the kernel; a burst of reconnecting callers fits
SWEEP_S = 1.0  # between two looks at deadlines: 10,000 connections cost about 10 ms of it
SWEEP_BATCH = 500  # connections looked at in a row: half a millisecond


class ServerError(Exception):
    """The server cannot start; the message is one sentence for the operator."""


class ListenError(ServerError):
    """It cannot listen where it should. `by_host`: at no port of that host."""

    def __init__(self, host: str, port: int, reason: str, *, by_host: bool = False) -> None:
        super().__init__(f"Cannot listen on {host}:{port}: {reason}.")
        self.host = host
        self.port = port
        self.by_host = by_host


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where to listen, and limits. Times are kept to within one sweep."""

    host: str | Sequence[str]  # one or several
    port: int  # 0: the system chooses
    admin_host: str | Sequence[str]
    admin_port: int
    max_head_bytes: int
    max_connections: int
    head_timeout_s: float  # from the first byte of a request, or the acceptance of a connection, to the end of its head
    body_timeout_s: float  # from there to the end of the body
    idle_timeout_s: float  # between two requests
    shutdown_grace_s: float  # for the answers that are due once it is to stop
    stall_timeout_s: float = 60.0  # while an answer is not being read
    drain_delay_s: float = 0.0  # how long calls are still accepted once it is to stop
    tls: ssl.SSLContext | None = None  # for callers

    @property
    def sweep_s(self) -> float:
        """From one sweep to the next."""
        shortest = min(self.head_timeout_s, self.body_timeout_s, self.idle_timeout_s, self.stall_timeout_s)
        return min(SWEEP_S, shortest / 4)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the server really listens, as (host, port)."""

    public: tuple[str, int]
    admin: tuple[str, int]
