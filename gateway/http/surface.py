"""The public surface besides calls and lists, and the operators' own listener: plain Starlette."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.dialects import recognise, versions
from gateway.errors import CODE, ErrorCode, GatewayError
from gateway.http.edge import strictly
from gateway.http.instrumentation import request_of
from gateway.metrics import CONTENT_TYPE
from gateway.model import JsonObject
from gateway.request import Request, head_of, read_repeats
from gateway.wire import Headers, WireReply

VERSION_HEADER = {"oxp-version": versions.HEADER_VERSION}
NO_STORE = {"cache-control": "no-store"}
METRICS_REALM = (b"www-authenticate", b'Bearer realm="metrics"')  # RFC 6750, section 3


ChallengeStatus = Callable[[Request, str], Awaitable[str]]
OneCall = Callable[[Request, str], Awaitable[WireReply]]
Scrape = Callable[[], Awaitable[bytes]]


class Health(Protocol):
    """How the gateway is doing: one word for everybody, everything for operators."""

    @property
    def status(self) -> str:
        """`ok`, `starting` or `draining`."""
        ...

    def details(self) -> JsonObject: ...


def _health_answer(health: Health, body: JsonObject) -> Response:
    """OTC and OXP 1.0, Health: 503 when not ready; a body, because one real client reads it unasked."""
    return JSONResponse(body, 200 if health.status == "ok" else 503, VERSION_HEADER | NO_STORE)


def public_app(
    health: Health,
    challenge_status: ChallengeStatus,
    openapi_document: bytes | None,
    *,
    look: OneCall,
    cancel: OneCall,
    metrics: Route | None,
    strict: bool,
) -> Starlette:
    """`/health`, `/calls/{call_id}`, `/challenges/{token}`, `/openapi.json`, and the refusal of every other path.

    To be `Watched`. `challenge_status` raises RATE_LIMITED. `metrics` is what `metrics_for` makes, if they
    are shown here. `strict` as for `Edge`.
    """

    async def show_health(request: HttpRequest) -> Response:
        return _health_answer(health, {"status": health.status})

    async def show_challenge(request: HttpRequest) -> Response:
        asked = request_of(request.scope)
        try:
            status = await challenge_status(asked, request.path_params["token"])
        except GatewayError as error:
            asked.refused = error
            reply = recognise.OXP.encode_error(error, recognise.OXP.canonical)  # as all that is said of challenges
            return _response(reply, asked.extra)
        return JSONResponse({"status": status}, headers=VERSION_HEADER | NO_STORE | dict(_texts(asked.extra)))

    async def show_call(request: HttpRequest) -> Response:
        answer = cancel if request.method == "DELETE" else look
        asked = request_of(request.scope)
        try:
            asked.head = read_repeats(asked.head, request.scope)
        except GatewayError as error:
            return _response(recognise.refusal(error, asked.head))
        reply = await answer(asked, request.path_params["call_id"])
        status = strictly(reply.status) if strict else reply.status
        return _response(WireReply(status=status, headers=reply.headers, body=reply.body), asked.extra)

    async def show_openapi(request: HttpRequest) -> Response:
        return Response(openapi_document, media_type="application/json")

    routes = [Route(f"{prefix}/health", show_health) for prefix in ("", *(f"/{name}" for name in recognise.DIALECTS))]
    routes.append(Route("/challenges/{token:path}", show_challenge))  # whatever it is, it has a status
    # A caller's own call id may hold slashes.
    routes.append(Route("/calls/{call_id:path}", show_call, methods=["GET", "DELETE"]))
    # Callbacks themselves never get here; what comes by another method gets its 405.
    routes.append(Route("/callbacks/{token:path}", show_health, methods=["POST"]))
    if metrics is not None:
        routes.append(metrics)
    if openapi_document is not None:
        routes.append(Route("/openapi.json", show_openapi))
    return _without_redirects(Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _fail}))


def admin_app(health: Health, scrape: Scrape) -> Starlette:
    """`/livez`, the detailed `/health` and `/metrics`; never reachable through the public listener."""

    async def show_alive(request: HttpRequest) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    async def show_details(request: HttpRequest) -> Response:
        return _health_answer(health, health.details())

    async def show_metrics(_request: HttpRequest) -> Response:
        return _metrics_answer(await scrape())

    routes = [Route("/livez", show_alive), Route("/health", show_details), Route("/metrics", show_metrics)]
    return _without_redirects(Starlette(routes=routes))


def metrics_for(token: str, scrape: Scrape) -> Route:
    """`/metrics` for whoever has the token: what all callers do together is not for each of them to see."""
    expected = token.encode()

    async def show_metrics(request: HttpRequest) -> Response:
        scheme, _, given = dict(request.scope["headers"]).get(b"authorization", b"").partition(b" ")
        if not hmac.compare_digest(given, expected) or scheme.lower() != b"bearer":
            error = GatewayError(ErrorCode.UNAUTHENTICATED, "The metrics take a token.", headers=(METRICS_REALM,))
            return _response(recognise.refusal(error, head_of(request.scope)))
        return _metrics_answer(await scrape())

    return Route("/metrics", show_metrics)


def _metrics_answer(text: bytes) -> Response:
    return Response(text, headers=NO_STORE | {"content-type": CONTENT_TYPE})


def _without_redirects(app: Starlette) -> Starlette:
    """A slash too many is a wrong path: a redirect would lead wherever the Host header says."""
    app.router.redirect_slashes = False
    return app


async def _refuse(request: HttpRequest, exc: Exception) -> Response:
    """404 and 405 in the dialect of the prefix or the head, like every other refusal."""
    if not isinstance(exc, HTTPException):
        raise exc
    if exc.status_code == 405:
        allow = tuple((name.lower().encode(), value.encode()) for name, value in (exc.headers or {}).items())
        error = GatewayError(ErrorCode.METHOD_NOT_ALLOWED, "This path does not answer that method.", headers=allow)
    else:
        error = GatewayError(ErrorCode.NOT_FOUND, "There is nothing at this path.")
    return _response(recognise.refusal(error, head_of(request.scope)))


async def _fail(request: HttpRequest, exc: Exception) -> Response:
    """Starlette's last guard; it has raised the error on to the server, which logs it."""
    code = ErrorCode.INTERNAL
    return JSONResponse({"message": "The gateway failed.", "code": code}, 500, {CODE.decode(): code})


def _response(reply: WireReply, extra: Headers = ()) -> Response:
    return Response(reply.body, reply.status, dict(_texts((*reply.headers, *extra))))


def _texts(headers: Headers) -> Iterator[tuple[str, str]]:
    return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
