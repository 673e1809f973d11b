"""Counts and logs each request once it is answered, in one call.

A line has the template of the route, never the path, which may be a credential. It has no argument, value, token or
secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from time import time as now
from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import Scope

from gateway.core.errors import DeniedError, FixedError, GatewayError, UnauthenticatedError
from gateway.core.ports import ServerRequest, Target
from gateway.core.wire import SERVED
from gateway.http.routes import NOWHERE, OTHER
from gateway.http.troubles import Trouble, trouble_of
from gateway.logs.lines import Lines
from gateway.logs.output import clock, printable, stamp
from gateway.metrics import Metrics
from gateway.pipeline.request import Request
from gateway.ratelimit import RateLimited
from gateway.usage.recorder import CountCall

LEFT = 499  # in place of a status: the caller has closed the connection before there was an answer, as nginx writes it
NO_TARGET = Target("", "", "", "")  # of a call that came to no tool
MAX_WORD = 256  # characters of a principal or of a caller's call id; an issuer's subjects may be of any length
ALIKE = 1024  # cached encodings; with principals of 8 KB each, which no issuer has, 8 MB
HEAD, NAME = b'{"level":"info","logger":"gateway.access","message":"request","time":"', b'","request_id":"'
# The members that many lines have in common, in the order of a line.
SHARED = (
    "operation", "route", "status", "dialect", "revision", "principal", "tool", "version", "backend", "outcome",
    "reason",
)  # fmt: skip
_shared = attrgetter(*SHARED)
_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, gc=False):
    """The line of one request; the thread that writes it encodes it, so that no call waits for that.

    Made from positional arguments: keywords would cost as much again. `time` is in seconds since 1970, `tool_s` was
    spent waiting for a tool server, sizes are bytes of bodies. `request_id` needs no escapes (`tracing`). `route` is
    the template of the path, `outcome` a word of `Request`, `reason` why a credential was refused, the limit that
    refused the request, or the word of another refusal. `client` is the caller's address (`clientip`), `revision` a
    word of `Encoder`. `call_id` and `toolgate_call_id` are as in `Request`. `trouble` is as of `trouble_of`.
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
    revision: str = ""
    call_id: str | None = None
    toolgate_call_id: str = ""
    trouble: Trouble | None = None

    def __bytes__(self) -> bytes:
        tool_ms = int(self.tool_s * 1e6) / 1e3 if self.tool_s else None
        took_ms = int(self.duration_s * 1e6) / 1e3
        call_id = None if self.call_id is None else _bounded(self.call_id)
        figures = _encode(
            Figures(took_ms, self.bytes_in, self.bytes_out, tool_ms, self.client, call_id, self.toolgate_call_id)
        )
        head = (HEAD, stamp(self.time), NAME, self.request_id, b'",')
        if self.trouble:
            figures = b"%b,%b" % (figures[:-1], _encode(self.trouble)[1:])
        return b"".join((*head, _words(*_shared(self)), b",", figures[1:], b"\n"))


class Figures(Struct, omit_defaults=True, gc=False):
    """The members that differ from line to line: calls have ids, and callers more addresses than principals."""

    duration_ms: float
    bytes_in: int
    bytes_out: int
    tool_ms: float | None = None
    client: str = ""
    call_id: str | None = None
    toolgate_call_id: str = ""


@lru_cache(maxsize=ALIKE)  # a line costs two thirds of what it does without: 2 % of a whole call
def _words(*values: Any) -> bytes:
    """Encodes the shared members of a line without braces; empty ones are left out."""
    members = dict(zip(SHARED, values, strict=True))
    members["principal"] = _bounded(members["principal"])
    return _encode({name: value for name, value in members.items() if value not in ("", None)})[1:-1]


def _bounded(word: str) -> str:
    """What a caller or an issuer may have written, cut to MAX_WORD characters, none of which ends a line anywhere."""
    return word[:MAX_WORD] if word.isascii() else printable(word[:MAX_WORD])


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
            "revision": line.revision,
            "principal": _bounded(line.principal),
            "client": line.client,
            "call_id": _bounded(line.call_id or ""),
            "toolgate_call_id": line.toolgate_call_id,
            "request_id": line.request_id.decode("ascii"),
            **{name: str(value) for name, value in (line.trouble or {}).items()},
        }
        extras = ", ".join(f"{key}={value}" for key, value in members.items() if value)
        text = f"{line.route} {line.status} in {int(line.duration_s * 1e6) / 1e3:g} ms ({extras})"
        return f"{clock(line.time)} INFO    {line.operation} {printable(text)}\n".encode()


TakeLine = Callable[[AccessLine], None]


class AccessLog:
    """Where the lines go: `put` takes each, without waiting; None where they are neither logged nor shown."""

    put: TakeLine | None

    def __init__(self, lines: Lines | None, form: str = "json") -> None:
        self._write: TakeLine | None = None
        self._keep: TakeLine | None = None
        self._is_looked_at = False
        self.write_to(lines, form)

    def write_to(self, lines: Lines | None, form: str) -> None:
        """Writes to `lines` from now on, as `json` or `text`; None, as when only warnings are logged: nowhere."""
        if lines is None:
            self._write = None
        elif form == "text":
            self._write = lambda line: lines.put_request(TextLine(line))
        else:
            self._write = lines.put_request
        self._choose()

    def keep(self, keep: TakeLine) -> None:
        """Gives each line that is written to `keep`, too."""
        self._keep = keep
        self._choose()

    def look(self) -> None:
        """Somebody wants to see the lines: from now on they are kept even where they are not written."""
        self._is_looked_at = True
        self._choose()

    def _choose(self) -> None:
        write, keep = self._write, self._keep
        if keep is None or (write is None and not self._is_looked_at):
            self.put = write
        elif write is None:
            self.put = keep
        else:
            self.put = _both(keep, write)


def _both(keep: TakeLine, write: TakeLine) -> TakeLine:
    def put(line: AccessLine) -> None:
        keep(line)
        write(line)

    return put


class Observer:
    """Notes requests and whatever else is worth counting. Nothing here waits, raises or looks at a body.

    `count_call` takes what `Metrics.tool_call` does; another function may count calls elsewhere, too.
    """

    def __init__(self, metrics: Metrics, access: AccessLog, count_call: CountCall) -> None:
        self.metrics = metrics
        self._count = metrics.request
        self.count_call = count_call
        self._count_auth_failure = metrics.auth_failure
        self._count_limited = metrics.rate_limited
        self._access = access

    def answered(
        self, request: Request, operation: str, route: str, status: int, duration_s: float, bytes_out: int
    ) -> None:
        """A request is answered, or its caller has left. `route` is a template, never a path."""
        reason = request.reason if request.refused is None else self._refused(request.refused, request.account)
        account, bytes_in = request.account, 0 if request.is_part else request.bytes_in
        if (encoder := request.encoder) is None:
            dialect, revision = request.head.dialect, ""
        else:
            dialect, revision = encoder.name, encoder.revision
        if operation == "call":
            tool, tool_s, outcome = request.tool, request.tool_s, request.outcome
            self._count(dialect, operation, status, duration_s, tool_s, account, bytes_in, bytes_out)
            target = NO_TARGET if tool is None else tool.target
            backend = target.backend
            if tool is not None and request.counts:
                self.count_call(backend, target.tool, outcome, 0.0 if request.joined else tool_s, account)
        else:
            tool_s, outcome = 0.0, "ok" if 0 < status < 400 else "refused"
            if request.failed is not None:  # a look at a call that has failed
                outcome = request.outcome
            self._count(dialect, operation, status, duration_s, None, account, bytes_in, bytes_out)
            target, backend = NO_TARGET, request.backend
            if operation == "callback":
                self.metrics.callback(backend or None, status)
        if (put := self._access.put) is not None:
            is_usual = request.failed is None and request.refused is None and not request.joined
            put(AccessLine(
                now(), request.trace.request_id, operation, route, status, duration_s, request.bytes_in, bytes_out,
                dialect, request.principal, target.tool, target.version, backend, outcome, tool_s, reason, request.ip,
                revision, request.call_id, request.toolgate_call_id, None if is_usual else trouble_of(request),
            ))  # fmt: skip

    def _refused(self, error: GatewayError, account: str) -> str:
        """The fixed word for why; what has a metric of its own is counted by it."""
        self.metrics.refused(account, error.code)
        if isinstance(error, UnauthenticatedError):
            self._count_auth_failure(error.reason)
        elif isinstance(error, RateLimited):
            self._count_limited(error.reason)
        return error.reason if isinstance(error, FixedError | DeniedError) else error.code

    def turned_away(
        self, status: int, reason: str, *, request_id: bytes = b"", client: str = "", operation: str = OTHER
    ) -> None:
        """A request got no further than the listener. `reason` is one of a few words, `client` the peer's address.

        With status 0 there was none yet: the handshake of TLS failed.
        """
        self.metrics.turned_away(None, operation, status)
        if (put := self._access.put) is not None:
            line = AccessLine(now(), request_id, operation, NOWHERE, status, 0.0, 0, 0, reason=reason, client=client)
            line.outcome = "ok" if 0 < status < 400 else "refused"
            put(line)

    def probed(self, operation: str, status: int, duration_s: float) -> None:
        """A request that programs repeat all day, such as for health: counted, not written down."""
        self._count(None, operation, status, duration_s)


def answered_status(scope: Scope, request: Request, status: int) -> int:
    """The status that the caller got: this, unless nothing was sent and the server has answered in our place."""
    served: ServerRequest | None = scope.get("extensions", {}).get(SERVED)
    if status != LEFT or served is None or served.answered is None:
        return status
    request.reason = served.reason
    return served.answered
