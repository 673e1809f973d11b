"""The public ASGI application: heads and bodies in, replies out, each request noted once.

Endpoints of surfaces are found in a dictionary in front of Starlette, which serves everything else: its request and
response objects cost 20 us, a third of a whole call.
"""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.core.errors import CODE, ErrorCode, GatewayError, OtherOriginError, ServerCode
from gateway.core.ports import Operation, ServerRequest
from gateway.core.surfaces import Surface
from gateway.core.tracing import Trace
from gateway.core.wire import SERVED, Body, Head, Headers, StreamReply, WireReply
from gateway.http.accesslog import LEFT, Observer, answered_status
from gateway.http.body import ArrivingBody, CallerLeft, too_large
from gateway.http.origins import ALLOW_ORIGIN, AllowedHosts, Cors, OtherHostError
from gateway.http.routes import (
    CALLBACK,
    CALLBACKS,
    CALLS,
    HEALTH,
    READING,
    REQUEST,
    find_route,
    operation_of,
    prefix_of,
)
from gateway.http.streaming import LateStream, LateTimer, as_accepted
from gateway.pipeline.request import Request, read_repeats
from gateway.pipeline.responses import cancelled_reply, refusal

STRICT = frozenset({401, 403, 413, 415, 429})
BODILESS = (204, 304)
FAILED = 500
NOTHING: Mapping[str, None] = {}
WORD = re.compile(r"[A-Za-z0-9_]{1,256}")  # as long as a tool id may be

# Results may hold images in base64. Twice what is read from tool servers by default (`max_response`): a result is JSON
# in a string here, which may double it. Which backend it is for, and so its own limit, is not known before it is read.
MAX_CALLBACK_BYTES = 16 * 1024 * 1024
NOT_ACCEPTED = "This callback is not accepted."
# Of refused callbacks, what their tool server gets: status, code and message.
CALLBACK_REFUSALS: Mapping[ErrorCode, tuple[int, ErrorCode | ServerCode, str]] = {
    ErrorCode.INVALID_REQUEST: (400, ErrorCode.INVALID_REQUEST, NOT_ACCEPTED),
    ErrorCode.NOT_FOUND: (404, ErrorCode.NOT_FOUND, NOT_ACCEPTED),
    ErrorCode.RESULT_EXPIRED: (410, ErrorCode.NOT_FOUND, "The call of this callback is over."),
    ErrorCode.PAYLOAD_TOO_LARGE: (
        413,
        ErrorCode.PAYLOAD_TOO_LARGE,
        f"A callback must not be larger than {MAX_CALLBACK_BYTES} bytes.",
    ),
    ErrorCode.UNSUPPORTED_MEDIA: (415, ErrorCode.UNSUPPORTED_MEDIA, "A callback must not be compressed."),
    ErrorCode.BACKEND_UNAVAILABLE: (503, ServerCode.GATEWAY_UNAVAILABLE, NOT_ACCEPTED),
}
JSON = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
ACCEPT_PLAIN = ((b"accept-encoding", b"identity"),)  # beside 415: what would be taken (RFC 9110, 12.5.3)

Answer = Callable[[Request, Body], Awaitable[WireReply]]
Callback = Callable[[Request, str, str | None, Body], Awaitable[ErrorCode | None]]


class Refuse(Protocol):
    """Answers a request whose head is refused (`Pipeline.refuse`)."""

    def __call__(self, request: Request, error: GatewayError, *, follows_oauth: bool) -> Awaitable[WireReply]: ...


class _EdgeRoute(Struct, frozen=True, kw_only=True):
    """What answers a request; most of it is that of the endpoint (`Endpoint`)."""

    surface: Surface
    answer: Answer
    path: str  # as logs show it
    surface_path: str = ""  # as the surface sees it
    dialect: str | None = None
    counts_as: Operation = "call"
    operation: str | None = None  # None: it counts as what it is opened as
    methods: tuple[str, ...] | None = None  # None: its head is not checked
    max_bytes: int = 0  # of a body
    needs_document: bool = True
    is_strict: bool = False  # statuses are those of `strictly`
    late_timer: LateTimer | None = None
    more_methods: tuple[str, ...] = ()
    follows_oauth: bool = False


class Edge:
    """Answers requests to the endpoints of surfaces and callbacks, and passes everything else on."""

    def __init__(
        self,
        surfaces: Sequence[Surface],  # the first speaks for paths that are none's
        *,
        answer: Answer,  # the pipeline's, as the next
        refuse: Refuse,
        callback: Callback,
        rest: ASGIApp,  # answers everything else
        ip_of: Callable[[Scope], str],  # the caller's address
        observer: Observer,
        identify: Callable[[Mapping[bytes, bytes]], Trace],  # the trace of a request by its headers
        max_body_bytes: int,
        strict: bool,  # statuses of surfaces are those of `strictly`
        running: set[Request],  # requests to endpoints are in it while they are answered
        hosts: AllowedHosts | None = None,
        # From which origins pages may call: others may have names of their own lead here (DNS rebinding).
        allows_page: Callable[[bytes], bool] = lambda origin: True,
        cors: Cors | None = None,
    ) -> None:
        self._default = surfaces[0]
        self._refuse = refuse
        self._callback = callback
        self._rest = rest
        self._ip_of = ip_of
        self._observer = observer
        self._identify = identify
        self._running = running
        self._hosts = hosts
        self._allows_page = allows_page
        self._cors = cors
        self._is_guarded = hosts is not None or cors is not None
        routes = {
            path: _EdgeRoute(
                surface=surface,
                answer=answer,
                path=endpoint.route,
                surface_path=endpoint.route,
                dialect=endpoint.dialect,
                counts_as=endpoint.operation,
                methods=endpoint.methods,
                max_bytes=max_body_bytes if endpoint.max_body_bytes is None else endpoint.max_body_bytes,
                needs_document=endpoint.needs_document,
                is_strict=strict and not endpoint.follows_oauth,
                late_timer=None if endpoint.stream_after_s is None else LateTimer(endpoint.stream_after_s),
                more_methods=endpoint.more_methods,
                follows_oauth=endpoint.follows_oauth,
            )
            for surface in surfaces
            for path, endpoint in surface.endpoints.items()
        }
        self._routes = {path: route for path, route in routes.items() if not path.endswith("}")}
        # Those whose last segment is any word, by what stands before it.
        self._families = {path.rpartition("/")[0]: route for path, route in routes.items() if path.endswith("}")}

    async def __call__(  # noqa: C901 - flat, because every call takes this way
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None or self._is_guarded:
            route = self._special(scope) or route or self._of_family(scope)
            if route is None:
                await self._pass_on(scope, receive, send)
                return
        started = perf_counter()
        served: ServerRequest | None = scope.get("extensions", NOTHING).get(SERVED)
        headers = dict(scope["headers"]) if served is None else served.fields
        observe, fixed_operation, path = self._observer.answered, route.operation, route.path
        head = Head(
            method=scope["method"], path=route.surface_path or scope["path"], headers=headers, dialect=route.dialect
        )
        trace = self._identify(headers)
        request = Request(
            head, route.surface, self._ip_of(scope), trace, route.counts_as, route.needs_document, served, started
        )
        running = self._running
        running.add(request)
        status, size = LEFT, 0
        late = None if route.late_timer is None else LateStream(request, send, route.late_timer, self._complete)
        try:
            try:
                _check_head(request, scope, route, self._allows_page)
            except GatewayError as error:
                reply = await self._refuse(request, error, follows_oauth=route.follows_oauth)
            else:
                try:
                    reply = await route.answer(request, ArrivingBody(served, receive, route.max_bytes))
                except CancelledError:
                    if not request.is_cancelled:
                        raise
                    reply = cancelled_reply(request)
            if late is not None:
                if isinstance(reply, StreamReply):
                    status = reply.status
                    del self, route  # they lead to all tools, which would outlive the next reload with this stream
                    await late.carry(reply, receive if served is None else None)
                    return
                if await late.end(reply):
                    status = 200
                    return
                reply = as_accepted(reply, request)
            status, size = strictly(reply.status) if route.is_strict else reply.status, len(reply.body)
            fields = (*reply.headers, trace.sent[0], *request.extra)
            if self._cors is not None:
                fields = self._cors.with_origin(fields, headers.get(b"origin"))
            is_own = getattr(send, "__self__", None) is served  # else of middleware, which wants to see messages
            if not is_own or served is None or status in BODILESS or not served.answer(status, fields, reply.body):
                await _send(status, fields, reply.body, send)
        except (CallerLeft, CancelledError) as left:
            status = answered_status(scope, request, status)
            if isinstance(left, CancelledError):
                raise
        except Exception:
            status = FAILED  # what the server says in our place
            raise
        finally:  # callers who leave early are noted, too
            running.discard(request)
            if late is not None:
                late.close()
                size = size or late.size
            taken_s = perf_counter() - started
            observe(request, fixed_operation or request.operation, path, status, taken_s, size)
            for part, part_status in request.parts:
                observe(part, part.operation, path, part_status, taken_s, 0)

    def _complete(self, request: Request, headers: Headers) -> Headers:
        """The headers of an answer with those that every answer has."""
        fields = (*headers, request.trace.sent[0], *request.extra)
        return fields if self._cors is None else self._cors.with_origin(fields, request.head.headers.get(b"origin"))

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has `rest` answer."""
        if scope["type"] != "http":
            return await self._rest(scope, receive, send)
        started, headers = perf_counter(), dict(scope["headers"])
        method, path, trace = scope["method"], scope["path"], self._identify(headers)
        head = Head(method=method, path=path, headers=headers, dialect=prefix_of(path))  # the path with its prefix
        request = scope[REQUEST] = Request(head, self._default, self._ip_of(scope), trace=trace)
        status, size = LEFT, 0

        async def watch(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                fields = (*message.get("headers", ()), trace.sent[0])
                if self._cors is not None and all(name != ALLOW_ORIGIN for name, _ in fields):
                    fields = self._cors.with_origin(fields, headers.get(b"origin"))
                message = {**message, "headers": fields}
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            return await self._rest(scope, receive, watch)
        finally:
            status, duration_s = answered_status(scope, request, status), perf_counter() - started
            public = find_route(head.path)
            operation, path = operation_of(head.method, public)
            # A refusal is worth a line, and so is a caller who left.
            if public is not None and public.is_polled and method in READING and not 400 <= status < 500:
                self._observer.probed(operation, status, duration_s)
            else:
                self._observer.answered(request, operation, path, status, duration_s, size)

    def _special(self, scope: Scope) -> _EdgeRoute | None:
        """The route of a request that is refused for its host, of a browser's question, or of a callback."""
        if scope["type"] != "http":
            return None
        method, path = scope["method"], scope["path"]
        if self._is_guarded:
            headers = dict(scope["headers"])
            if self._hosts is not None and not self._hosts.allows(headers.get(b"host", b"")):
                public = find_route(path)
                # Probes of a cluster call a pod by its address, and get one word.
                if public is None or public.path != HEALTH:
                    return self._fixed(scope, _refuse_host)
            preflight = None if self._cors is None else self._cors.preflight(method, headers)
            if preflight is not None:
                return self._fixed(scope, partial(_preflight, preflight), "preflight")
        if method == "DELETE" and path.startswith(CALLS):
            origin = dict(scope["headers"]).get(b"origin")
            if origin is not None and not self._allows_page(origin):
                return self._fixed(scope, _refuse_origin)
        if path.startswith(CALLBACKS) and method == "POST":
            return _EdgeRoute(  # made anew: one that is kept would lead back here, and outlive the next reload
                surface=self._default,
                answer=self._receive,
                path=CALLBACK.path,
                operation=CALLBACK.operation,
                max_bytes=MAX_CALLBACK_BYTES,
            )
        return None

    def _of_family(self, scope: Scope) -> _EdgeRoute | None:
        """The route of a path that ends in any word."""
        if scope["type"] != "http":
            return None
        path: str = scope["path"].removesuffix("/")
        before, _, word = path.rpartition("/")
        route = self._families.get(before)
        return None if route is None or WORD.fullmatch(word) is None else replace(route, surface_path=path)

    def _fixed(self, scope: Scope, answer: Answer, operation: str | None = None) -> _EdgeRoute:
        """A route that gives the same answer at every path."""
        method, path = scope["method"], scope["path"]
        route = self._routes.get(path) or self._of_family(scope)
        if route is None:
            counted_as, template = operation_of(method, find_route(path))
            surface, dialect = self._default, prefix_of(path)
        else:
            counted_as, template = route.counts_as, route.path
            surface, dialect = route.surface, route.dialect
        return _EdgeRoute(
            surface=surface, answer=answer, path=template, dialect=dialect, operation=operation or counted_as
        )

    async def _receive(self, request: Request, arriving: Body) -> WireReply:
        """Takes a callback, which is answered with its status alone (RAP, Transport: the body is ignored)."""
        token, media = request.head.path[len(CALLBACKS) :], request.head.headers.get(b"content-type")
        why = await self._callback(request, token, None if media is None else media.decode("latin-1"), arriving)
        if why is None:
            return WireReply(status=200, headers=JSON, body=b"{}")
        status, request.reason, message = CALLBACK_REFUSALS[why]
        code = request.reason.encode()
        headers = (*JSON, (CODE, code), *(ACCEPT_PLAIN if status == 415 else ()))
        body = b'{"message":"%b","code":"%b"}' % (message.encode(), code)
        return WireReply(status=status, headers=headers, body=body)


async def _refuse_host(request: Request, _: Body) -> WireReply:
    return refusal(OtherHostError(), request)


async def _refuse_origin(request: Request, _: Body) -> WireReply:
    return refusal(OtherOriginError(), request)


async def _preflight(reply: WireReply, request: Request, _: Body) -> WireReply:
    return reply


def strictly(status: int) -> int:
    """The status that the pages on calling a tool have instead, which know no 401, 403, 413, 415 and 429."""
    return 400 if status in STRICT else status


async def _send(status: int, fields: Headers, body: bytes, send: Send) -> None:
    if status != 304:
        fields = (*fields, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _check_head(request: Request, scope: Scope, route: _EdgeRoute, allows_page: Callable[[bytes], bool]) -> None:
    """Checks method, headers and announced size, and has the surface check the rest.

    Raises METHOD_NOT_ALLOWED, FORBIDDEN for a page of another origin, INVALID_REQUEST for a repeated header,
    PAYLOAD_TOO_LARGE, or what the surface raises.
    """
    head, methods, max_bytes = request.head, route.methods, route.max_bytes
    if methods is None:
        return
    if head.method in route.more_methods:
        request.needs_document = False
    elif head.method not in methods:
        allow = ((b"allow", ", ".join(methods).encode()),)
        raise GatewayError(ErrorCode.METHOD_NOT_ALLOWED, f"{head.path} answers {methods[0]} only.", headers=allow)
    if b"origin" in head.headers and route.counts_as == "call" and not allows_page(head.headers[b"origin"]):
        raise OtherOriginError
    if len(head.headers) != len(scope["headers"]):
        head = request.head = read_repeats(head, scope)
    announced = head.headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced[:20]) > max_bytes:
        raise too_large(max_bytes)
    request.surface.check_head(head)
