"""One line per request, when it is answered: who asked for what, and how it ended.

Never a path, which may be a credential, but the template of its route; never an argument, a value, a token or a secret.
"""

from __future__ import annotations

import time
from functools import lru_cache

import msgspec
from msgspec import Struct

from gateway.logs.lines import Lines
from gateway.logs.output import clock, printable, stamp_ms

MAX_PRINCIPAL = 256  # characters; what an issuer calls somebody may be of any length
ALIKE = 1024  # kinds of lines whose words are known; with principals of 8 KB each, which no issuer has, 8 MB
HEAD, NAME = b'{"level":"info","logger":"gateway.access","message":"request","time":"', b'","request_id":"'
_encode = msgspec.json.Encoder().encode
_now = time.time


class AccessLine(Struct, gc=False):
    """What is written of a request; it becomes JSON in the thread that writes it, where no call waits for that.

    `time` is seconds since 1970. `tool_s` went by waiting for a tool server. Sizes are bytes of bodies. `request_id`
    needs no escapes (`tracing`). `route` is the template of the path, `outcome` a word of `Request`, `reason` why a
    caller was not known, the limit that refused him, or the code of another refusal.
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

    def __bytes__(self) -> bytes:
        words = _words(
            self.operation, self.route, self.status, self.dialect, self.principal,
            self.tool, self.version, self.backend, self.outcome, self.reason,
        )  # fmt: skip
        tool_ms = int(self.tool_s * 1e6) / 1e3 if self.tool_s else None
        figures = _encode(Figures(int(self.duration_s * 1e6) / 1e3, self.bytes_in, self.bytes_out, tool_ms))
        begin = _begin(int(self.time * 1000))
        return b"".join((begin, self.request_id, b'",', words, b",", figures[1:], b"\n"))


@lru_cache(maxsize=8)  # as `stamp_ms` itself
def _begin(milliseconds: int) -> bytes:
    return HEAD + stamp_ms(milliseconds) + NAME


class Figures(Struct, omit_defaults=True, gc=False):
    """What no two lines have in common."""

    duration_ms: float
    bytes_in: int
    bytes_out: int
    tool_ms: float | None = None


@lru_cache(maxsize=ALIKE)  # a line costs two thirds of what it does without: 2 % of a whole call
def _words(
    operation: str,
    route: str,
    status: int,
    dialect: str | None,
    principal: str,
    tool: str,
    version: str,
    backend: str,
    outcome: str,
    reason: str,
) -> bytes:
    """The members that many lines share, without braces; those that have nothing to say are left out."""
    members = {
        "operation": operation,
        "route": route,
        "status": status,
        "dialect": dialect,
        "principal": _bounded(principal),
        "tool": tool,
        "version": version,
        "backend": backend,
        "outcome": outcome,
        "reason": reason,
    }
    return _encode({name: value for name, value in members.items() if value not in ("", None)})[1:-1]


def _bounded(principal: str) -> str:
    if principal.isascii() and len(principal) <= MAX_PRINCIPAL:
        return principal
    return principal[:MAX_PRINCIPAL].encode(errors="backslashreplace").decode()


class TextLine(AccessLine):
    """The same for people, with what they look for first."""

    def __bytes__(self) -> bytes:
        told: dict[str, str | None] = {
            "tool": f"{self.tool}@{self.version}" if self.tool else "",
            "backend": self.backend,
            "outcome": self.outcome,
            "reason": self.reason,
            "dialect": self.dialect,
            "principal": _bounded(self.principal),
            "request_id": self.request_id.decode("ascii"),
        }
        extras = ", ".join(f"{key}={value}" for key, value in told.items() if value)
        text = f"{self.route} {self.status} in {int(self.duration_s * 1e6) / 1e3:g} ms ({extras})"
        return f"{clock(self.time)} INFO    {self.operation} {printable(text)}\n".encode()


class AccessLog:
    """Writes them; with `lines` None, as when only warnings are wanted, it does nothing."""

    def __init__(self, lines: Lines | None, form: str = "json") -> None:
        self.write_to(lines, form)

    def write_to(self, lines: Lines | None, form: str) -> None:
        """Writes them there from here on."""
        self._put = None if lines is None else lines.put_request
        self._line = TextLine if form == "text" else AccessLine

    def write(
        self,
        request_id: bytes,
        operation: str,
        route: str,
        status: int,
        duration_s: float,
        bytes_in: int,
        bytes_out: int,
        dialect: str | None = None,
        principal: str = "",
        tool: str = "",
        version: str = "",
        backend: str = "",
        outcome: str = "",
        tool_s: float = 0.0,
        reason: str = "",
    ) -> None:
        """Notes an answered request. Never waits. Give positions, not names: names cost as much again."""
        if self._put is not None:
            self._put(
                self._line(
                    _now(), request_id, operation, route, status, duration_s, bytes_in, bytes_out,
                    dialect, principal, tool, version, backend, outcome, tool_s, reason,
                )
            )  # fmt: skip
