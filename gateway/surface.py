"""The public surface besides calls and lists, and the operators' own listener: plain Starlette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.dialects import recognise, versions
from gateway.errors import ErrorCode, GatewayError
from gateway.model import JsonObject
from gateway.wire import Head, WireReply

VERSION_HEADER = {"oxp-version": versions.HEADER_VERSION}
NO_STORE = {"cache-control": "no-store"}


OneCall = Callable[[Head, str], Awaitable[WireReply]]


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
    challenge_status: Callable[[str], Awaitable[str]],
    openapi_document: bytes | None,
    *,
    look: OneCall,
    cancel: OneCall,
) -> Starlette:
    """`/health`, `/calls/{call_id}`, `/challenges/{token}`, `/openapi.json`, and the refusal of every other path."""

    async def show_health(request: Request) -> Response:
        return _health_answer(health, {"status": health.status})

    async def show_challenge(request: Request) -> Response:
        status = await challenge_status(request.path_params["token"])
        return JSONResponse({"status": status}, headers=VERSION_HEADER | NO_STORE)

    async def show_call(request: Request) -> Response:
        answer = cancel if request.method == "DELETE" else look
        return _response(await answer(_head(request), request.path_params["call_id"]))

    async def show_openapi(request: Request) -> Response:
        return Response(openapi_document, media_type="application/json")

    routes = [Route(f"{prefix}/health", show_health) for prefix in ("", *(f"/{name}" for name in recognise.DIALECTS))]
    routes.append(Route("/challenges/{token}", show_challenge))
    # A caller's own call id may hold slashes.
    routes.append(Route("/calls/{call_id:path}", show_call, methods=["GET", "DELETE"]))
    if openapi_document is not None:
        routes.append(Route("/openapi.json", show_openapi))
    return _without_redirects(Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _fail}))


def admin_app(health: Health) -> Starlette:
    """`/livez` and the detailed `/health`; never reachable through the public listener."""

    async def show_alive(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    async def show_details(request: Request) -> Response:
        return _health_answer(health, health.details())

    return _without_redirects(Starlette(routes=[Route("/livez", show_alive), Route("/health", show_details)]))


def _without_redirects(app: Starlette) -> Starlette:
    """A slash too many is a wrong path: a redirect would lead wherever the Host header says."""
    app.router.redirect_slashes = False
    return app


async def _refuse(request: Request, exc: Exception) -> Response:
    """404 and 405 in the dialect of the prefix or the head, like every other refusal."""
    if not isinstance(exc, HTTPException):
        raise exc
    if exc.status_code == 405:
        allow = tuple((name.lower().encode(), value.encode()) for name, value in (exc.headers or {}).items())
        error = GatewayError(ErrorCode.METHOD_NOT_ALLOWED, "This path does not answer that method.", headers=allow)
    else:
        error = GatewayError(ErrorCode.NOT_FOUND, "There is nothing at this path.")
    return _response(recognise.refusal(error, _head(request)))


async def _fail(request: Request, exc: Exception) -> Response:
    """Starlette's last guard; it has raised the error on to the server, which logs it."""
    return JSONResponse({"message": "The gateway failed."}, 500)


def _head(request: Request) -> Head:
    path = request.scope["path"]  # not `request.url`, which the Host header is part of
    first = path.removeprefix("/").partition("/")[0]
    prefix = first if first in recognise.DIALECTS else None
    return Head(method=request.method, path=path, headers=dict(request.headers.raw), prefix=prefix)


def _response(reply: WireReply) -> Response:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers}
    return Response(reply.body, reply.status, headers)
