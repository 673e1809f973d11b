"""Where a tool server is, and which answers and broken exchanges count against it or against one of its tools."""

from __future__ import annotations

from urllib.parse import urlsplit

from gateway import __version__
from gateway.admission import Lease
from gateway.transport import Kind, Pool, TransportError

USER_AGENT = (b"user-agent", b"toolgate/" + __version__.encode())

OURS = frozenset((Kind.BUSY, Kind.INVALID))  # kinds of errors that no tool server has to do with
BROKEN_KINDS = frozenset((Kind.PROTOCOL, Kind.TOO_LARGE))  # there was an answer, and nothing can be made of it
NOT_ANSWERED = (502, 503, 504)  # a proxy finds nobody, or the server takes no calls: no tool has run
NEARLY = 0.9  # of the time a tool server is to have; the rest goes by on our side


class Server:
    """One replica of a tool server: its base URL and the connections to it.

    `patience_s` is the shortest time any of its tools has by the configuration.
    """

    __slots__ = ("_base_path", "patience_s", "pool", "url")

    def __init__(self, url: str, pool: Pool, patience_s: float) -> None:
        self.url = url
        self.pool = pool
        self.patience_s = patience_s
        self._base_path = urlsplit(url).path.rstrip("/")

    def target(self, path: str) -> bytes:
        """Where a path of the protocol is."""
        return (self._base_path + path).encode("ascii")

    def is_to_blame(self, exc: TransportError, given_s: float) -> bool:
        """Whether a broken exchange counts against the tool server, which had `given_s`.

        Running out of time does only if that was as long as the configuration gives it: callers choose shorter times
        (`Prefer: wait`) and the queue eats of them, and neither may take a tool server away from everybody else.
        """
        if exc.kind is not Kind.TIMEOUT:
            return exc.kind not in OURS
        needed_s = self.patience_s if exc.sent else min(self.patience_s, self.pool.limits.connect_timeout_s)
        return given_s >= NEARLY * needed_s


def note_status(lease: Lease[Server], status: int) -> None:
    """Tells the breakers what an answer's status says: a 4xx nothing bad, a 5xx who has failed."""
    if status < 500:
        lease.answered = True
    elif status in NOT_ANSWERED:
        lease.failed(f"status {status}")
    else:
        lease.tool_failed(f"status {status}")


def note_broken_off(lease: Lease[Server], exc: TransportError, given_s: float) -> None:
    """Tells the breakers what a broken exchange says, for which there were `given_s`.

    A tool that was sent its call is too slow, or answers nonsense; all else went wrong before there was an answer.
    """
    if not lease.replica.target.is_to_blame(exc, given_s):
        return
    if exc.sent and (exc.kind is Kind.TIMEOUT or exc.kind in BROKEN_KINDS):
        lease.tool_failed(str(exc.kind))
    else:
        lease.failed(str(exc.kind))
