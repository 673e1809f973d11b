"""Errors of exchanges, and the one bit that decides whether a request may be sent again."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What failed."""

    INVALID = "invalid"  # the request itself cannot be put on the wire
    NO_TOKEN = "no token"  # nobody has issued the one that the request needs  # noqa: S105 - not one
    BUSY = "busy"  # all connections are taken and the queue for them is full
    CONNECT = "connect"  # DNS, refused, unreachable
    TLS = "tls"  # handshake or certificate
    TIMEOUT = "timeout"  # in any phase; `sent` tells before or after the request left
    CLOSED = "closed"  # the server hung up, or the pool was closed
    PROTOCOL = "protocol"  # what came back is not HTTP/1.1
    TOO_LARGE = "too_large"  # the reply passes a limit of ours


class TransportError(Exception):
    """An exchange without a complete reply. The message quotes nothing of request or reply."""

    def __init__(self, kind: Kind, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.kind = kind
        # Any byte of the request may have reached the server; False proves that none did, so it may be sent elsewhere.
        self.sent = sent

    def __repr__(self) -> str:
        return f"TransportError({self.kind}, {str(self)!r}, sent={self.sent})"
