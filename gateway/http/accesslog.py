"""One log line per request, written when it is answered.

It has the template of the route, never the path, which may be a credential; never an argument, value, token or secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from gateway.logs.lines import Lines
from gateway.logs.output import clock, printable, stamp

MAX_PRINCIPAL = 256  # characters; an issuer's subjects may be of any length
ALIKE = 1024  # cached encodings; with principals of 8 KB each, which no issuer has, 8 MB
HEAD, NAME = b'{"level":"info","logger":"gateway.access","message":"request","time":"', b'","request_id":"'
# The members that many lines have in common, in the order of a line.
SHARED = (
    "operation", "route", "status", "dialect", "principal", "tool", "version", "backend", "outcome", "reason",
)  # fmt: skip
_shared = attrgetter(*SHARED)
_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, gc=False):
    """The line of one request; the thread that writes it encodes it, so that no call waits for that.

    Made from positional arguments: keywords would cost as much again. `time` is in seconds since 1970, `tool_s` was
    spent waiting for a tool server, sizes are bytes of bodies. `request_id` needs no escapes (`tracing`). `route` is
    the template of the path, `outcome` a word of `Request`, `reason` why a credential was refused, the limit that
    refused the request, or the code of another refusal. `client` is the caller's address (`clientip`).
    """

    time: float
    request_id: bytes
    operation: str
    route: str
    status: int
    duration_s: float
    bytes_in: int
    bytes_out: int
    dialect: str | None = None
    principal: str = ""
    tool: str = ""
    version: str = ""
    backend: str = ""
    outcome: str = ""
    tool_s: float = 0.0
    reason: str = ""
    client: str = ""

    def __bytes__(self) -> bytes:
        tool_ms = int(self.tool_s * 1e6) / 1e3 if self.tool_s else None
        took_ms = int(self.duration_s * 1e6) / 1e3
        figures = _encode(Figures(took_ms, self.bytes_in, self.bytes_out, tool_ms, self.client))
        head = (HEAD, stamp(self.time), NAME, self.request_id, b'",')
        return b"".join((*head, _words(*_shared(self)), b",", figures[1:], b"\n"))


class Figures(Struct, omit_defaults=True, gc=False):
    """The members that differ from line to line: callers have more addresses than principals."""

    duration_ms: float
    bytes_in: int
    bytes_out: int
    tool_ms: float | None = None
    client: str = ""


@lru_cache(maxsize=ALIKE)  # a line costs two thirds of what it does without: 2 % of a whole call
def _words(*values: Any) -> bytes:
    """Encodes the shared members of a line without braces; empty ones are left out."""
    members = dict(zip(SHARED, values, strict=True))
    members["principal"] = _bounded(members["principal"])
    return _encode({name: value for name, value in members.items() if value not in ("", None)})[1:-1]


def _bounded(principal: str) -> str:
    if principal.isascii() and len(principal) <= MAX_PRINCIPAL:
        return principal
    return principal[:MAX_PRINCIPAL].encode(errors="backslashreplace").decode()


class TextLine(Struct, gc=False):
    """The same line for people."""

    line: AccessLine

    def __bytes__(self) -> bytes:
        line = self.line
        members: dict[str, str | None] = {
            "tool": f"{line.tool}@{line.version}" if line.tool else "",
            "backend": line.backend,
            "outcome": line.outcome,
            "reason": line.reason,
            "dialect": line.dialect,
            "principal": _bounded(line.principal),
            "client": line.client,
            "request_id": line.request_id.decode("ascii"),
        }
        extras = ", ".join(f"{key}={value}" for key, value in members.items() if value)
        text = f"{line.route} {line.status} in {int(line.duration_s * 1e6) / 1e3:g} ms ({extras})"
        return f"{clock(line.time)} INFO    {line.operation} {printable(text)}\n".encode()


class AccessLog:
    """Where the lines go: `put` takes each, without waiting; None where they are not logged."""

    put: Callable[[AccessLine], None] | None

    def __init__(self, lines: Lines | None, form: str = "json") -> None:
        self.write_to(lines, form)

    def write_to(self, lines: Lines | None, form: str) -> None:
        """Writes to `lines` from now on, as `json` or `text`; None, as when only warnings are logged: nowhere."""
        if lines is None:
            self.put = None
        elif form == "text":
            self.put = lambda line: lines.put_request(TextLine(line))
        else:
            self.put = lines.put_request
