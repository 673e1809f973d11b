"""One line per request, when it is answered: who asked for what, and how it ended.

Never a path, which may be a credential, but the template of its route; never an argument, a value, a token or a secret.
"""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct

from gateway.logs.lines import Lines
from gateway.logs.output import clock, printable, stamp

MAX_PRINCIPAL = 256  # characters; what an issuer calls somebody may be of any length
HEAD = b'{"level":"info","logger":"gateway.access","message":"request",'
_encode = msgspec.json.Encoder().encode
_now = time.time


class AccessLine(Struct, omit_defaults=True, gc=False):
    """What is written of a request; it becomes JSON in the thread that writes it, where it costs no call any time.

    `time` is seconds since 1970 until then. Durations are seconds until then; `tool_ms` went by waiting for a tool
    server. Sizes are bytes of bodies. `route` is the template of the path, `outcome` a word of `Request`, `reason` why
    a caller was not known, or the limit that refused him.
    """

    time: float | str
    request_id: str | bytes
    operation: str
    route: str
    status: int
    duration_ms: float
    bytes_in: int
    bytes_out: int
    dialect: str | None = None
    principal: str = ""
    tool: str = ""
    version: str = ""
    backend: str = ""
    outcome: str = ""
    tool_ms: float | None = None
    reason: str = ""

    def __bytes__(self) -> bytes:
        self.time = stamp(float(self.time))
        self.tidy()
        return HEAD + _encode(self)[1:] + b"\n"

    def tidy(self) -> None:
        """Puts everything as it is to be written, except the time."""
        if isinstance(self.request_id, bytes):
            self.request_id = self.request_id.decode("ascii")
        self.duration_ms = int(self.duration_ms * 1e6) / 1e3
        self.tool_ms = int(self.tool_ms * 1e6) / 1e3 if self.tool_ms else None
        if not self.principal.isascii() or len(self.principal) > MAX_PRINCIPAL:
            self.principal = self.principal[:MAX_PRINCIPAL].encode(errors="backslashreplace").decode()


class TextLine(AccessLine):
    """The same for people, with what they look for first."""

    def __bytes__(self) -> bytes:
        self.tidy()
        told: dict[str, str | None] = {
            "tool": f"{self.tool}@{self.version}" if self.tool else "",
            "backend": self.backend,
            "outcome": self.outcome,
            "reason": self.reason,
            "dialect": self.dialect,
            "principal": self.principal,
            "request_id": str(self.request_id),
        }
        extras = ", ".join(f"{key}={value}" for key, value in told.items() if value)
        text = f"{self.route} {self.status} in {self.duration_ms:g} ms ({extras})"
        return f"{clock(float(self.time))} INFO    {self.operation} {printable(text)}\n".encode()


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
