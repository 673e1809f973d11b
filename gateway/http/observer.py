"""What is counted and written down of a request once it is answered: everything at once, in one call."""

from __future__ import annotations

from time import time as now

from starlette.types import Scope

from gateway.errors import GatewayError, UnauthenticatedError
from gateway.http.accesslog import AccessLine, AccessLog
from gateway.metrics import Metrics
from gateway.ports import Target
from gateway.ratelimit import RateLimited
from gateway.request import Request
from gateway.server_extension import SERVED, ServerRequest

LEFT = 499  # in place of a status: the caller has closed the connection before there was an answer, as nginx writes it
OTHER = "other"  # the operation of a request that is for none of ours
NOWHERE = "-"  # the route of a request to no path of ours
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

    def called(self, request: Request, status: int, duration_s: float, bytes_out: int) -> None:
        """A call is answered, or its caller has left."""
        reason = "" if request.refused is None else self._refused(request.refused)
        spoken, tool, tool_s = request.dialect, request.tool, request.tool_s
        dialect = request.head.prefix if spoken is None else spoken.name
        self._count(dialect, "call", status, duration_s, tool_s)
        target = NO_TARGET if tool is None else tool.target
        if tool is not None and request.counts:
            self._count_call(target.backend, target.tool, request.outcome, 0.0 if request.joined else tool_s)
        if (put := self._access.put) is not None:
            put(AccessLine(
                now(), request.trace.request_id, "call", request.head.path, status, duration_s, request.bytes_in,
                bytes_out, dialect, request.principal, target.tool, target.version, target.backend, request.outcome,
                tool_s, reason, request.ip,
            ))  # fmt: skip

    def answered(
        self, request: Request, operation: str, route: str, status: int, duration_s: float, bytes_out: int
    ) -> None:
        """Any other request is answered: a list, a poll, a callback. `route` is a template, never a path."""
        reason = "" if request.refused is None else self._refused(request.refused)
        dialect = request.head.prefix if request.dialect is None else request.dialect.name
        self._count(dialect, operation, status, duration_s)
        outcome = "ok" if 0 < status < 400 else "refused"
        if (put := self._access.put) is not None:
            put(AccessLine(
                now(), request.trace.request_id, operation, route, status, duration_s, request.bytes_in, bytes_out,
                dialect, request.principal, "", "", request.backend, outcome, 0.0, reason, request.ip,
            ))  # fmt: skip

    def called_back(self, request: Request, status: int, duration_s: float, bytes_out: int) -> None:
        """A tool server's callback is answered."""
        self.metrics.callback(request.backend or None, status)
        self.answered(request, "callback", "/callbacks/{token}", status, duration_s, bytes_out)

    def _refused(self, error: GatewayError) -> str:
        """The fixed word for why; what has a metric of its own is counted by it."""
        if isinstance(error, UnauthenticatedError):
            self._count_stranger(error.reason)
            return error.reason
        if isinstance(error, RateLimited):
            self._count_limited(error.reason)
            return error.reason
        return error.code

    def turned_away(
        self,
        status: int,
        reason: str,
        client: str = "",
        operation: str = OTHER,
        route: str = NOWHERE,
        dialect: str | None = None,
        request_id: bytes = b"",
    ) -> None:
        """A request got no further than the listener, or what stands behind it. `reason` is one of a few sentences.

        With status 0 there was none yet: who called did not get through the handshake of TLS. `client` is the caller's
        address, that of the peer where no head was read.
        """
        self.metrics.turned_away(dialect, operation, status)
        outcome = "ok" if 0 < status < 400 else "refused"
        if (put := self._access.put) is not None:
            put(AccessLine(
                now(), request_id, operation, route, status, 0.0, 0, 0, dialect, "", "", "", "", outcome, 0.0, reason,
                client,
            ))  # fmt: skip

    def probed(self, operation: str, status: int, duration_s: float) -> None:
        """A request that programs repeat all day, such as for health: counted, not written down."""
        self._count(None, operation, status, duration_s)


def told(scope: Scope, status: int) -> int:
    """What the caller was told: this, unless nothing was said and the server has answered in our place."""
    served: ServerRequest | None = scope.get("extensions", {}).get(SERVED)
    if status != LEFT or served is None or served.answered is None:
        return status
    return served.answered
