"""The public paths besides the endpoints of surfaces, and the operators' own listener: plain Starlette."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway import __version__
from gateway.core.errors import CODE, ErrorCode, GatewayError
from gateway.core.model import JsonObject
from gateway.core.wire import Headers, WireReply
from gateway.http import openapi
from gateway.http.edge import strictly
from gateway.http.routes import CONSOLE, HEALTH, METADATA, METRICS, ROUTES, request_of
from gateway.metrics import CONTENT_TYPE
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.request import Request, read_repeats
from gateway.protocols.mcp.callers import auth as mcp_auth
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc import surface as otc_surface
from gateway.settings import Config

VERSION_HEADER = {"oxp-version": rest.HEADER_VERSION}
NO_STORE = {"cache-control": "no-store"}
METRICS_REALM = (b"www-authenticate", b'Bearer realm="metrics"')  # RFC 6750, section 3


ChallengeStatus = Callable[[Request, str], Awaitable[str]]
Scrape = Callable[[], Awaitable[bytes]]
Handler = Callable[[HttpRequest], Awaitable[Response]]
TOOLKIT = re.compile(r"[A-Za-z0-9_]{1,128}")
OPEN = {"access-control-allow-origin": "*", "cache-control": "public, max-age=3600"}
PREFLIGHT = OPEN | {"access-control-allow-methods": "GET", "access-control-allow-headers": "*"}


class Health(Protocol):
    """The state of the gateway: one word for callers, details for operators."""

    @property
    def status(self) -> str:
        """`ok`, `starting` or `draining`."""
        ...

    def details(self) -> JsonObject: ...


def _health_answer(health: Health, body: JsonObject) -> Response:
    """OTC and OXP 1.0, Health: 503 when not ready; a body, because one real client reads it unasked."""
    return JSONResponse(body, 200 if health.status == "ok" else 503, VERSION_HEADER | NO_STORE)


def public_app(
    config: Config,
    health: Health,
    challenge_status: ChallengeStatus,
    scrape: Scrape,
    pipeline: Callable[[], Pipeline],
    public_url: Callable[[], str],
    console: ASGIApp | None = None,
) -> Starlette:
    """`/health`, `/calls/{call_id}`, `/challenges/{token}`, `/openapi.json`, and the refusal of every other path.

    Also what tells callers of MCP where to get a token, and the public console, if there is one. To be behind an
    `Edge`. `challenge_status` raises RATE_LIMITED. The pipeline is looked up for each request:
    Starlette's applications refer to themselves, and would keep an old one in memory until the collector finds them.
    """
    server, strict, token = config.server, config.errors.strict, config.metrics.token
    description = openapi.document(__version__, server.public_url, openapi.credentials_for(config.auth))

    async def show_health(request: HttpRequest) -> Response:
        return _health_answer(health, {"status": health.status})

    async def show_challenge(request: HttpRequest) -> Response:
        caller_request = request_of(request.scope)
        try:
            status = await challenge_status(caller_request, request.path_params["token"])
        except GatewayError as error:
            caller_request.refusal = error
            reply = otc_surface.OXP.encode_error(error)  # challenges are OXP's
            return _response(reply, caller_request.extra)
        return JSONResponse({"status": status}, headers=VERSION_HEADER | NO_STORE | dict(_texts(caller_request.extra)))

    async def show_call(request: HttpRequest) -> Response:
        caller_request, call_id = request_of(request.scope), request.path_params["call_id"]
        try:
            caller_request.head = read_repeats(caller_request.head, request.scope)
        except GatewayError as error:
            return _refusal(error, caller_request)
        if request.method == "DELETE":
            reply = await pipeline().cancel(caller_request, call_id)
        else:
            reply = await pipeline().call_status(caller_request, call_id, delivers=request.method != "HEAD")
        status = strictly(reply.status) if strict else reply.status
        return _response(WireReply(status=status, headers=reply.headers, body=reply.body), caller_request.extra)

    async def show_openapi(request: HttpRequest) -> Response:
        return Response(description, media_type="application/json")

    handlers: dict[str, Handler] = {"health": show_health, "challenge": show_challenge, "poll": show_call}
    handlers["callback"] = show_health  # the edge takes callbacks; what comes by another method gets its 405
    if token is not None:
        handlers["metrics"] = _metrics_for(token.get_secret_value(), scrape)
    if server.openapi:
        handlers["openapi"] = show_openapi
    routes: list[BaseRoute] = [
        Route(path.replace("}", ":path}"), handlers[route.operation], methods=route.methods)
        for route in ROUTES
        if route.operation in handlers
        for path in route.paths().values()
    ]
    routes += metadata_routes(config, public_url)
    routes += _console_routes(console, public_url)
    return _without_redirects(Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _fail}))


def _console_routes(console: ASGIApp | None, public_url: Callable[[], str]) -> Iterator[BaseRoute]:
    """The public console, and the slash that its path lacks where people type it."""
    if console is None:
        return

    async def show_console(request: HttpRequest) -> Response:
        return RedirectResponse(f"{public_url()}{CONSOLE}/", 308)

    yield Route(CONSOLE, show_console)
    yield Mount(CONSOLE, console)


class OperatorsConsole(Protocol):
    """The console on the operators' listener."""

    def is_served_at(self, host: str) -> bool:
        """Whether a Host header names this listener."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def admin_app(health: Health, scrape: Scrape, console: OperatorsConsole) -> Starlette:
    """`/livez`, the detailed `/health`, `/metrics` and the console; never reachable through the public listener.

    A page that has its own name lead here (DNS rebinding) reads none of it but `/livez`.
    """

    async def show_alive(request: HttpRequest) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    async def show_details(request: HttpRequest) -> Response:
        if not console.is_served_at(request.headers.get("host", "")):
            return _other_host()
        return _health_answer(health, health.details())

    async def show_metrics(request: HttpRequest) -> Response:
        if not console.is_served_at(request.headers.get("host", "")):
            return _other_host()
        return _metrics_answer(await scrape())

    async def show_console(request: HttpRequest) -> Response:
        return RedirectResponse(f"{CONSOLE}/", 308)

    probes = [Route("/livez", show_alive), Route(HEALTH, show_details), Route(METRICS, show_metrics)]
    return _without_redirects(Starlette(routes=[*probes, Route(CONSOLE, show_console), Mount(CONSOLE, console)]))


def _other_host() -> Response:
    message = "This is not served at this host name. Ask by its address, or add the name to console.hosts."
    return JSONResponse({"message": message}, 403, NO_STORE)


def _metrics_for(token: str, scrape: Scrape) -> Handler:
    """`/metrics` behind a token: what all callers do together is not for each of them to see."""
    expected = token.encode()

    async def show_metrics(request: HttpRequest) -> Response:
        scheme, _, token_sent = dict(request.scope["headers"]).get(b"authorization", b"").partition(b" ")
        if not hmac.compare_digest(token_sent, expected) or scheme.lower() != b"bearer":
            error = GatewayError(ErrorCode.UNAUTHENTICATED, "The metrics need a token.", headers=(METRICS_REALM,))
            return _refusal(error, request_of(request.scope))
        return _metrics_answer(await scrape())

    return show_metrics


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
    return _refusal(error, request_of(request.scope))


def _refusal(error: GatewayError, caller_request: Request) -> Response:
    error.drop_trace()  # before the request knows it
    caller_request.refusal = error
    return _response(caller_request.surface.refuse(error, caller_request.head))


async def _fail(request: HttpRequest, exc: Exception) -> Response:
    """Starlette's last guard; it has raised the error on to the server, which logs it."""
    code = ErrorCode.INTERNAL
    return JSONResponse({"message": "The gateway failed.", "code": code}, 500, {CODE.decode(): code})


def _response(reply: WireReply, extra: Headers = ()) -> Response:
    return Response(reply.body, reply.status, dict(_texts((*reply.headers, *extra))))


def _texts(headers: Headers) -> Iterator[tuple[str, str]]:
    return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def metadata_routes(config: Config, public_url: Callable[[], str]) -> Iterator[Route]:
    """Where callers of MCP get a token (RFC 9728): for the endpoint, also at the root, and for single toolkits.

    There is none without an issuer that programs can ask for a token. Under `errors.strict` it names no scopes: they
    may be those of hidden tools.
    """
    issuers = () if config.auth is None else config.auth.authorization_servers
    if not config.mcp.enabled or not issuers:
        return
    at, scopes = config.mcp.path, {scope for route in config.routes if not route.deny for scope in route.scopes}
    scope_names = [] if config.errors.strict else sorted(scopes)

    async def show_metadata(request: HttpRequest) -> Response:
        toolkit = request.path_params.get("toolkit")
        if toolkit is not None and TOOLKIT.fullmatch(toolkit) is None:
            raise HTTPException(404)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=PREFLIGHT)
        resource = public_url() + at + ("" if toolkit is None else f"/{toolkit}")
        body = mcp_auth.metadata(resource, issuers, scope_names)
        return Response(body, media_type="application/json", headers=OPEN)

    for path in (METADATA, METADATA + at, f"{METADATA}{at}/{{toolkit}}"):
        yield Route(path, show_metadata, methods=["GET", "OPTIONS"])
