"""Counts and logs a request once it is answered, in one call."""

from __future__ import annotations

from time import time as now

from starlette.types import Scope

from gateway.errors import FixedError, GatewayError, UnauthenticatedError
from gateway.http.accesslog import AccessLine, AccessLog
from gateway.http.routes import NOWHERE, OTHER
from gateway.metrics import Metrics
from gateway.ports import ServerRequest, Target
from gateway.ratelimit import RateLimited
from gateway.request import Request
from gateway.wire import SERVED

LEFT = 499  # in place of a status: the caller has closed the connection before there was an answer, as nginx writes it
NO_TARGET = Target("", "", "", "")  # of a call that came to no tool


class Observer:
    """Notes requests and whatever else is worth counting. Nothing here waits, raises or looks at a body."""

    def __init__(self, metrics: Metrics, access: AccessLog) -> None:
        self.metrics = metrics
        self._count = metrics.request
        self._count_call = metrics.tool_call
        self._count_stranger = metrics.auth_failure
        self._count_limited = metrics.rate_limited
        self._access = access

    def answered(
        self, request: Request, operation: str, route: str, status: int, duration_s: float, bytes_out: int
    ) -> None:
        """A request is answered, or its caller has left. `route` is a template, never a path."""
        reason = "" if request.refused is None else self._refused(request.refused)
        dialect = request.dialect
        if operation == "call":
            tool, tool_s, outcome = request.tool, request.tool_s, request.outcome
            self._count(dialect, operation, status, duration_s, tool_s)
            target = NO_TARGET if tool is None else tool.target
            backend = target.backend
            if tool is not None and request.counts:
                self._count_call(backend, target.tool, outcome, 0.0 if request.joined else tool_s)
        else:
            tool_s, outcome = 0.0, "ok" if 0 < status < 400 else "refused"
            self._count(dialect, operation, status, duration_s)
            target, backend = NO_TARGET, request.backend
            if operation == "callback":
                self.metrics.callback(backend or None, status)
        if (put := self._access.put) is not None:
            put(AccessLine(
                now(), request.trace.request_id, operation, route, status, duration_s, request.bytes_in, bytes_out,
                dialect, request.principal, target.tool, target.version, backend, outcome, tool_s, reason, request.ip,
            ))  # fmt: skip

    def _refused(self, error: GatewayError) -> str:
        """The fixed word for why; what has a metric of its own is counted by it."""
        if isinstance(error, UnauthenticatedError):
            self._count_stranger(error.reason)
        elif isinstance(error, RateLimited):
            self._count_limited(error.reason)
        return error.reason if isinstance(error, FixedError) else error.code

    def turned_away(self, status: int, reason: str, client: str = "", operation: str = OTHER) -> None:
        """A request got no further than the listener. `reason` is one of a few sentences, `client` the peer's address.

        With status 0 there was none yet: the handshake of TLS failed.
        """
        self.metrics.turned_away(None, operation, status)
        if (put := self._access.put) is not None:
            line = AccessLine(now(), b"", operation, NOWHERE, status, 0.0, 0, 0, reason=reason, client=client)
            line.outcome = "ok" if 0 < status < 400 else "refused"
            put(line)

    def probed(self, operation: str, status: int, duration_s: float) -> None:
        """A request that programs repeat all day, such as for health: counted, not written down."""
        self._count(None, operation, status, duration_s)


def answered_status(scope: Scope, status: int) -> int:
    """The status that the caller got: this, unless nothing was sent and the server has answered in our place."""
    served: ServerRequest | None = scope.get("extensions", {}).get(SERVED)
    if status != LEFT or served is None or served.answered is None:
        return status
    return served.answered
