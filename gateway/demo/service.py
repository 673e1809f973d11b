"""The HTTP half the demonstration tool servers share: bounded JSON bodies, the bearer check, start and stop.

`/health` is from OTC 1.0 and OXP 1.0; `/executions` is ours: how often each tool ran in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hmac
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.demo.toolbox import Json, NotRunError

MAX_BODY_BYTES = 2 * 1024 * 1024  # far above any call of the demonstration
MAX_DEPTH = 64  # the schema validator refuses to follow much deeper nesting
MAX_CONNECTIONS = 1000  # each may hold a body
BODY_WAIT_S = 2.0  # over loopback a body is there at once
GRACE_S = 2  # for calls that run when the server is stopped; below the 5 s after which the fleet kills
TOKEN_VARIABLE = "DEMO_TOKEN"  # noqa: S105 - the name of a variable: arguments are visible to every local user

Options: TypeAlias = argparse.Namespace


@dataclass(frozen=True)
class Site:
    """Where a server runs: its own URL, and the bearer token it asks for."""

    base_url: str
    token: str | None = None

    def admit(self, request: Request) -> None:
        """Raises RefusedError (401) for a request without the bearer token, if the server asks for one."""
        if self.token is not None and not self.is_token(bearer(request)):
            raise NotRunError("Authentication is required", status=401, headers={"WWW-Authenticate": "Bearer"})

    def is_token(self, presented: str) -> bool:
        """Whether this is the token the server asks for."""
        return self.token is not None and hmac.compare_digest(presented.encode(), self.token.encode())


def bearer(request: Request) -> str:
    """The bearer token of a request, empty without one."""
    scheme, _, presented = request.headers.get("authorization", "").partition(" ")
    return presented.strip() if scheme.lower() == "bearer" else ""


async def read_body(request: Request) -> bytes:
    """Reads a body of bounded size, in bounded time. Raises RefusedError."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise NotRunError(f"The request is larger than {MAX_BODY_BYTES} bytes", status=413)
    except TimeoutError:
        raise NotRunError("The request did not arrive in time", status=408) from None
    except ClientDisconnect:
        raise NotRunError("The request ended early") from None
    return bytes(body)


def decode(body: bytes) -> Json:
    """Reads JSON that can be written again: no NaN, no infinite number, no lone surrogate. Raises RefusedError."""
    try:
        document = json.loads(body.decode())
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise NotRunError("The request is not valid JSON") from None
    if not _fits(document, MAX_DEPTH):
        raise NotRunError("The request is not valid JSON", developer_message=f"Nested deeper than {MAX_DEPTH} levels")
    return document


def _fits(value: Json, depth: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return not isinstance(value, list) or (depth > 0 and all(_fits(child, depth - 1) for child in value))


def create_app(
    routes: Sequence[BaseRoute], executions: Callable[[], Json], health_headers: Mapping[str, str] | None = None
) -> Starlette:
    """The application of one server: its own routes, and those every demonstration server has."""

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=health_headers)

    async def counts(_request: Request) -> Response:
        return JSONResponse(executions())

    app = Starlette(
        routes=[*routes, Route("/health", health), Route("/executions", counts)],
        exception_handlers={NotRunError: refusal, HTTPException: _no_such_endpoint},
    )
    app.router.redirect_slashes = False  # it would build a URL from whatever Host says
    return app


async def refusal(_request: Request, exc: Exception) -> Response:
    """The answer to a request that was refused."""
    assert isinstance(exc, NotRunError)
    return JSONResponse(exc.body, exc.status, headers=exc.headers)


async def _no_such_endpoint(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return JSONResponse({"message": exc.detail}, exc.status_code, headers=exc.headers)


def main(
    build: Callable[[Site, Options], Starlette],
    description: str,
    default_port: int,
    *,
    extend: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Runs one server until SIGTERM, SIGINT or, when asked to, the end of standard input.

    `extend` adds the server's own options to those every one has.
    """
    gc.freeze()  # imported modules stay; looking through them again as the server ends takes a fifth of its start
    # By default Python 3.14 calls the program `python -m gateway.demo...`, and those before it by its file.
    parser = argparse.ArgumentParser(prog=Path(sys.argv[0]).name, description=description, allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=default_port, help="0 takes a free one (default: %(default)s)")
    help_token = f"ask for this bearer token (default: the variable {TOKEN_VARIABLE})"
    parser.add_argument("--token", default=os.environ.get(TOKEN_VARIABLE), help=help_token)
    help_stdin = "also stop when standard input ends, as when a parent dies"
    parser.add_argument("--until-stdin-closes", action="store_true", help=help_stdin)
    if extend is not None:
        extend(parser)
    options = parser.parse_args()
    try:
        listener = socket.create_server((options.host, options.port))
    except (OSError, OverflowError) as exc:
        sys.exit(f"cannot listen on {options.host} port {options.port}: {exc}")
    # asyncio sets this only on sockets that name their protocol, as these do not; answers would wait 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    site = Site(f"http://{options.host}:{listener.getsockname()[1]}", options.token or None)
    app = build(site, options)
    print(f"listening on {site.base_url}", flush=True)  # the kernel queues connections from here on
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal anew once it has stopped
        asyncio.run(_serve(app, listener, options.until_stdin_closes))


async def _serve(app: Starlette, listener: socket.socket, until_stdin_closes: bool) -> None:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)

    def watch_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            asyncio.get_running_loop().remove_reader(sys.stdin)
            server.should_exit = True

    if until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin, watch_stdin)
    await server.serve(sockets=[listener])
