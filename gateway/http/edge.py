"""The public ASGI application: heads and bodies in, replies out.

Calls and lists are answered by a dictionary look-up in front of Starlette, which serves everything else: its request
and response objects cost 20 us, a third of a whole call.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from time import perf_counter

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects import recognise
from gateway.errors import CODE, ErrorCode, GatewayError, ServerCode
from gateway.http.body import ArrivingBody, CallerLeft, too_large
from gateway.http.observer import LEFT, Observer, told
from gateway.ports import Operation
from gateway.request import Request, read_repeats
from gateway.server_extension import ANSWER, SERVED, ServerRequest
from gateway.tracing import IdSource, identify
from gateway.wire import Body, Head, Headers, WireReply

MAX_GET_BODY = 16 * 1024  # OTC allows a body on GET /tools; it holds one short member
METHODS = {"/tools": ("GET", "HEAD"), "/tools/call": ("POST",), "/call": ("POST",)}
STRICT = frozenset({401, 403, 413, 415, 429})

CALLBACKS = "/callbacks/"
# Results may hold images in base64. Twice what is read from tool servers by default (`max_response`): a result is JSON
# in a string here, which may double it. Which backend it is for, and so its own limit, is not known before it is read.
MAX_CALLBACK_BYTES = 16 * 1024 * 1024
LIST = "/tools"
FAILED = 500
TAKEN = b"{}"
NOT_TAKEN = {
    400: ErrorCode.INVALID_REQUEST,
    404: ErrorCode.NOT_FOUND,
    413: ErrorCode.PAYLOAD_TOO_LARGE,
    503: ServerCode.GATEWAY_UNAVAILABLE,
}
JSON = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))

Answer = Callable[[Request, Body], Awaitable[WireReply]]
Refuse = Callable[[Operation, Request, GatewayError], Awaitable[WireReply]]
Callback = Callable[[Request, str, str | None, Body], Awaitable[int]]


class Edge:
    """Routes a request to `call`, `list`, `callback` or the application for everything else.

    `refuse` answers a call or list that its head alone condemns.
    `ip_of` tells the caller's address, `observer` hears of every answer, `chance` makes ids. `strict` turns
    401, 403, 413, 415 and 429 into the 400 that the letter of the call-tool pages asks for.
    """

    def __init__(
        self,
        *,
        call: Answer,
        list_: Answer,
        refuse: Refuse,
        callback: Callback,
        rest: ASGIApp,
        ip_of: Callable[[Scope], str],
        observer: Observer,
        chance: IdSource,
        max_body_bytes: int,
        strict: bool,
    ) -> None:
        self._refuse = refuse
        self._callback = callback
        self._ip_of = ip_of
        self._observer = observer
        self._chance = chance
        self._rest = rest
        self._strict = strict
        answers = {
            "/tools": (list_, MAX_GET_BODY),
            "/tools/call": (call, max_body_bytes),
            "/call": (call, max_body_bytes),
        }
        self._routes = {
            (f"/{prefix}{path}" if prefix else path): (prefix, path, *answers[path])
            for path in METHODS
            for prefix in (None, *recognise.DIALECTS)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None:
            if scope["type"] == "http" and scope["path"].startswith(CALLBACKS) and scope["method"] == "POST":
                return await self._receive(scope, receive, send)
            return await self._rest(scope, receive, send)
        started = perf_counter()
        prefix, path, answer, max_bytes = route
        offered = scope.get("extensions", {})
        served: ServerRequest | None = offered.get(SERVED)
        headers = dict(scope["headers"]) if served is None else served.fields
        head = Head(method=scope["method"], path=path, headers=headers, prefix=prefix)
        request = Request(head, self._ip_of(scope), identify(headers, self._chance))
        status, size = LEFT, 0
        try:
            try:
                _check_head(request, scope, max_bytes)
            except GatewayError as error:
                reply = await self._refuse("list" if path == LIST else "call", request, error)
            else:
                reply = await answer(request, ArrivingBody(served, receive, max_bytes, request))
            status, size = strictly(reply.status) if self._strict else reply.status, len(reply.body)
            fields = (*reply.headers, request.trace.sent[0], *request.extra)
            answer_now = offered.get(ANSWER)
            if answer_now is None or path == LIST or not answer_now(status, fields, reply.body):
                await _send(status, fields, reply.body, send)
        except (CallerLeft, CancelledError) as left:
            status = told(scope, status)
            if isinstance(left, CancelledError):
                raise
        except Exception:
            status = FAILED  # what the server says in our place
            raise
        finally:  # whoever leaves in the middle is noted, too
            took_s = perf_counter() - started
            if path == LIST:
                self._observer.answered(request, "list", path, status, took_s, size)
            else:
                self._observer.called(request, status, took_s, size)

    async def _receive(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A callback is answered with its status alone (RAP, Transport: the body is ignored)."""
        started, path = perf_counter(), scope["path"]
        offered = scope.get("extensions", {})
        served: ServerRequest | None = offered.get(SERVED)
        headers = dict(scope["headers"]) if served is None else served.fields
        trace = identify(headers, self._chance)
        head = Head(method="POST", path=path, headers=headers)
        request = Request(head, self._ip_of(scope), trace)
        media = headers.get(b"content-type")
        status, body = LEFT, b""
        try:
            try:
                arriving = ArrivingBody(served, receive, MAX_CALLBACK_BYTES)
                media_type = None if media is None else media.decode("latin-1")
                status = await self._callback(request, path[len(CALLBACKS) :], media_type, arriving)
            except GatewayError:
                status = 413
            body = TAKEN
            fields: Headers = (*JSON, trace.sent[0])
            if status != 200:
                code = NOT_TAKEN[status].encode()
                body = b'{"message":"This callback is not taken.","code":"%b"}' % code
                fields = (*fields, (CODE, code))
            answer_now = offered.get(ANSWER)
            if answer_now is None or not answer_now(status, fields, body):
                await _send(status, fields, body, send)
        except (CallerLeft, CancelledError) as left:
            status = told(scope, status)
            if isinstance(left, CancelledError):
                raise
        except Exception:
            status = FAILED
            raise
        finally:
            self._observer.called_back(request, status, perf_counter() - started, len(body))


def strictly(status: int) -> int:
    """What the letter of the call-tool pages has instead of a status."""
    return 400 if status in STRICT else status


async def _send(status: int, fields: Headers, body: bytes, send: Send) -> None:
    if status != 304:
        fields = (*fields, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _check_head(request: Request, scope: Scope, max_bytes: int) -> None:
    """Raises METHOD_NOT_ALLOWED, INVALID_REQUEST for a repeated header, PAYLOAD_TOO_LARGE for an announced size."""
    head = request.head
    methods = METHODS[head.path]
    if head.method not in methods:
        allow = ((b"allow", ", ".join(methods).encode()),)
        raise GatewayError(ErrorCode.METHOD_NOT_ALLOWED, f"{head.path} answers {methods[0]} only.", headers=allow)
    if len(head.headers) != len(scope["headers"]):
        request.head = read_repeats(head, scope)
    announced = head.headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced[:20]) > max_bytes:
        raise too_large(max_bytes)
