"""Counts and logs each request once it is answered, in one call.

A line has the template of the route, never the path, which may be a credential. It has no argument, value, token or
secret.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from time import time as now

import msgspec
from msgspec import Struct
from starlette.types import Scope

from gateway.core.errors import DeniedError, FixedError, GatewayError, UnauthenticatedError
from gateway.core.ports import ServerRequest, Target
from gateway.core.wire import SERVED
from gateway.http.routes import NOWHERE, OTHER
from gateway.http.troubles import trouble_of
from gateway.logs.lines import Lines
from gateway.logs.output import clock, printable, stamp
from gateway.metrics import Metrics
from gateway.pipeline.request import Request
from gateway.ratelimit import RateLimited
from gateway.usage.recorder import CountCall

LEFT = 499  # in place of a status: the caller has closed the connection before there was an answer, as nginx writes it
NO_TARGET = Target("", "", "", "")  # of a call that came to no tool
MAX_WORD = 256  # characters of a principal or of a caller's call id; an issuer's subjects may be of any length
BEGINNING = b'{"level":"info","logger":"gateway.access","message":"request",'
_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, omit_defaults=True, gc=False):
    """The line of one request, as JSON has it; the thread that writes it encodes it, so that no call waits for that.

    Made from positional arguments: keywords would cost as much again.
    """

    time: str  # RFC 3339
    request_id: str
    operation: str
    route: str  # the template of the path
    status: int  # 0: there was no answer
    duration_ms: float
    bytes_in: int  # of bodies, as the next
    bytes_out: int
    dialect: str | None = None
    revision: str = ""  # a word of `Encoder`
    principal: str = ""  # bounded, as is `call_id`
    tool: str = ""
    version: str = ""
    backend: str = ""
    outcome: str = ""  # a word of `Request`
    reason: str = ""  # why a credential was refused, the limit that refused the request, or another word for why
    tool_ms: float | None = None  # spent waiting for a tool server
    client: str = ""  # the caller's address (`clientip`)
    call_id: str | None = None  # as in `Request`, and the next
    toolgate_call_id: str = ""
    tool_status: int = 0  # these are as of `trouble_of`
    tool_code: str = ""
    code: str = ""
    detail: str = ""
    missing_scopes: str = ""
    replayed: bool = False

    def __bytes__(self) -> bytes:
        return b"%b%b\n" % (BEGINNING, _encode(self)[1:])


class TextLine(AccessLine, omit_defaults=True, gc=False):
    """The line for people."""

    def __bytes__(self) -> bytes:
        tool = {"tool": f"{self.tool}@{self.version}"} if self.tool else {}
        members = tool | {name: value for name in SHOWN if (value := getattr(self, name))}
        extras = ", ".join(f"{name}={value}" for name, value in members.items())
        text = f"{self.route} {self.status} in {self.duration_ms:g} ms ({extras})"
        seconds = datetime.fromisoformat(self.time).timestamp()
        return f"{clock(seconds)} INFO    {self.operation} {printable(text)}\n".encode()


SHOWN = (
    "backend", "outcome", "reason", "dialect", "revision", "principal", "client", "call_id", "toolgate_call_id",
    "request_id", "tool_status", "tool_code", "code", "detail", "missing_scopes", "replayed",
)  # fmt: skip


def bounded(word: str) -> str:
    """What a caller or an issuer may have written, cut to MAX_WORD characters, none of which ends a line anywhere."""
    return word[:MAX_WORD] if word.isascii() else printable(word[:MAX_WORD])


def milliseconds(seconds: float) -> float:
    """A duration as logs have it, with microseconds."""
    return int(seconds * 1e6) / 1e3


TakeLine = Callable[[AccessLine], None]


class AccessLog:
    """Where the lines of requests go, in which form."""

    put: TakeLine | None  # takes each line, without waiting; None where they are neither logged nor shown
    line: type[AccessLine]

    def __init__(self, lines: Lines | None, form: str = "json") -> None:
        self._show: TakeLine | None = None
        self._is_watched = False
        self.write_to(lines, form)

    def write_to(self, lines: Lines | None, form: str) -> None:
        """Writes to `lines` from now on, as `json` or `text`; None, as when only warnings are logged: nowhere."""
        self._write = None if lines is None else lines.put_request
        self.line = TextLine if form == "text" else AccessLine
        self._choose()

    def show(self, show: TakeLine) -> None:
        """Gives each line that is written to `show`, too."""
        self._show = show
        self._choose()

    def watch(self) -> None:
        """Somebody wants to see the lines: from now on they are made even where they are not written."""
        self._is_watched = True
        self._choose()

    def _choose(self) -> None:
        write, show = self._write, self._show
        if show is None or (write is None and not self._is_watched):
            self.put = write
        else:
            self.put = show if write is None else _both(show, write)


def _both(show: TakeLine, write: TakeLine) -> TakeLine:
    def put(line: AccessLine) -> None:
        show(line)
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
        caller, refusal = request.caller, request.refusal
        reason = request.reason if refusal is None else self._refused(refusal, caller.account)
        account, bytes_in = caller.account, 0 if request.is_part else request.bytes_in
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
            if request.failed_result is not None:  # a look at a call that has failed
                outcome = request.outcome
            self._count(dialect, operation, status, duration_s, None, account, bytes_in, bytes_out)
            target, backend = NO_TARGET, request.backend
            if operation == "callback":
                self.metrics.callback(backend or None, status)
        if (put := self._access.put) is not None:
            call_id = request.call_id
            line = self._access.line(
                stamp(now()), request.trace.request_id.decode(), operation, route, status, milliseconds(duration_s),
                request.bytes_in, bytes_out, dialect, revision, bounded(caller.principal), target.tool, target.version,
                backend, outcome, reason, milliseconds(tool_s) if tool_s else None, request.ip,
                call_id and bounded(call_id), request.toolgate_call_id,
            )  # fmt: skip
            if request.failed_result is not None or refusal is not None or request.joined:
                for name, value in trouble_of(request).items():
                    setattr(line, name, value)
            put(line)

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
            outcome = "ok" if 0 < status < 400 else "refused"
            put(self._access.line(
                stamp(now()), request_id.decode(), operation, NOWHERE, status, 0.0, 0, 0,
                outcome=outcome, reason=reason, client=client,
            ))  # fmt: skip

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
