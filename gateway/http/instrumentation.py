"""What is noted of requests outside the route of a call, which notes its own: they go through Starlette."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.dialects import recognise
from gateway.http.observer import LEFT, NOWHERE, OTHER, Observer, told
from gateway.request import Request, head_of
from gateway.tracing import IdSource, identify

REQUEST = "toolgate.request"  # where in the scope the request is
PROBES = {"/health": "health", "/openapi.json": "openapi", "/metrics": "metrics"}
OPERATIONS = {"/tools": "list", "/tools/call": "call", "/call": "call", **PROBES}


class Watched:
    """Names, counts and writes down each request to an application. `ip_of` tells the caller's address."""

    def __init__(self, app: ASGIApp, observer: Observer, chance: IdSource, ip_of: Callable[[Scope], str]) -> None:
        self._app = app
        self._observer = observer
        self._chance = chance
        self._ip_of = ip_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, head = time.perf_counter(), head_of(scope)
        trace = identify(head.headers, self._chance)
        request = scope[REQUEST] = Request(head, self._ip_of(scope), trace=trace)
        status, size = LEFT, 0

        async def watch(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), trace.sent[0]]}
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            return await self._app(scope, receive, watch)
        finally:
            self._note(request, told(scope, status), time.perf_counter() - started, size)

    def _note(self, request: Request, status: int, duration_s: float, size: int) -> None:
        operation, route = route_of(request.head.method, request.head.path)
        if route in PROBES and not 400 <= status < 500:  # a refusal is worth a line, and so is whoever has left
            self._observer.probed(operation, status, duration_s)
        else:
            self._observer.answered(request, operation, route, status, duration_s, size)


def request_of(scope: Mapping[str, Any]) -> Request:
    """The request that is being watched."""
    request = scope[REQUEST]
    assert isinstance(request, Request)
    return request


def route_of(method: str, path: str) -> tuple[str, str]:
    """The operation and the template of the path; `other` and `-` for all that is none, which may hold anything."""
    first = path.removeprefix("/").partition("/")[0]
    if first in recognise.DIALECTS:
        path = path.removeprefix(f"/{first}")
    if path in OPERATIONS:  # of calls and lists only those that `AllowedHosts` or `Cors` answers
        return OPERATIONS[path], path
    if path.startswith("/callbacks/"):
        return "callback", "/callbacks/{token}"
    if path.startswith("/calls/"):
        return "cancel" if method == "DELETE" else "poll", "/calls/{call_id}"
    if path.startswith("/challenges/"):
        return "challenge", "/challenges/{token}"
    return OTHER, NOWHERE
