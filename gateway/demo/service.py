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
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.demo.toolbox import Json, RefusedError, Toolbox

MAX_BODY_BYTES = 1024 * 1024  # far above any call of the demonstration
MAX_DEPTH = 64  # the schema validator refuses to follow much deeper nesting
MAX_CONNECTIONS = 1000  # each may hold a body
BODY_WAIT_S = 2.0  # over loopback a body is there at once; below GRACE_S, so that a stalled one ends before we must
GRACE_S = 4  # for calls that run when we are told to stop; below the 5 s after which the fleet kills
TOKEN_VARIABLE = "DEMO_TOKEN"  # noqa: S105 - the name of a variable: arguments are visible to every local user

Options: TypeAlias = argparse.Namespace


@dataclass(frozen=True)
class Site:
    """Where a server runs: its own URL, the bearer token it asks for, and the event that says it is being stopped."""

    base_url: str
    token: str | None
    stopping: asyncio.Event

    def admit(self, request: Request) -> None:
        """Raises RefusedError (401) for a request without our bearer token; without a token everybody may call."""
        if self.token is None:
            return
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(presented.strip().encode("latin-1"), self.token.encode())
        if scheme.lower() != "bearer" or not known:
            raise RefusedError("Authentication is required", status=401, headers={"WWW-Authenticate": "Bearer"})


async def read_body(request: Request) -> bytes:
    """Reads a body of bounded size, in bounded time. Raises RefusedError."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise RefusedError(f"The request is larger than {MAX_BODY_BYTES} bytes", status=413)
    except TimeoutError:
        raise RefusedError("The request did not arrive in time", status=408) from None
    except ClientDisconnect:
        raise RefusedError("The request ended early") from None  # nobody is there to read it
    return bytes(body)


def decode(body: bytes) -> Json:
    """Reads JSON that can be said back: no NaN, nothing beyond a double, no lone surrogate. Raises RefusedError."""
    try:
        document = json.loads(body.decode())
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise RefusedError("The request is not valid JSON") from None
    if not _fits(document, MAX_DEPTH):
        raise RefusedError("The request is not valid JSON", developer_message=f"Nested deeper than {MAX_DEPTH} levels")
    return document


def _fits(value: Json, depth: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return not isinstance(value, list) or (depth > 0 and all(_fits(child, depth - 1) for child in value))


def create_app(
    routes: Sequence[BaseRoute], toolbox: Toolbox, health_headers: Mapping[str, str] | None = None
) -> Starlette:
    """The application of one server: its own routes, and those every demonstration server has."""

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=health_headers)

    async def executions(_request: Request) -> Response:
        return JSONResponse(toolbox.executions)

    app = Starlette(
        routes=[*routes, Route("/health", health), Route("/executions", executions)],
        exception_handlers={HTTPException: _no_such_endpoint},
    )
    app.router.redirect_slashes = False  # it would build a URL from whatever Host says
    return app


async def _no_such_endpoint(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return JSONResponse({"message": exc.detail}, exc.status_code, headers=exc.headers)


def no_more(_parser: argparse.ArgumentParser) -> None:
    """Adds no options."""


def listening_on(site: Site) -> str:
    return f"listening on {site.base_url}"


def main(
    build: Callable[[Site, Options], Starlette],
    description: str,
    default_port: int,
    *,
    extend: Callable[[argparse.ArgumentParser], None] = no_more,
    announce: Callable[[Site], str] = listening_on,
) -> None:
    """Runs one server until SIGTERM, SIGINT or, when asked to, the end of standard input.

    `extend` adds the server's own options to those every one has, `announce` makes the line that says it listens.
    """
    gc.freeze()  # what was imported stays; looking through it again as the server ends takes a fifth of its start
    options = _parse(description, default_port, extend)
    ipv6 = ":" in options.host
    try:
        listener = socket.create_server(
            (options.host, options.port), family=socket.AF_INET6 if ipv6 else socket.AF_INET
        )
    except OSError as exc:
        sys.exit(f"cannot listen on {options.host} port {options.port}: {exc.strerror or exc}")
    # asyncio sets this only on sockets that name their protocol, as these do not; answers would wait 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host = f"[{options.host}]" if ipv6 else options.host
    site = Site(f"http://{host}:{listener.getsockname()[1]}", options.token or None, asyncio.Event())
    asyncio.run(_serve(build(site, options), site, listener, announce(site), options.until_stdin_closes))


def _parse(description: str, default_port: int, extend: Callable[[argparse.ArgumentParser], None]) -> Options:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=port_number, default=default_port, help="0 takes a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--token",
        default=os.environ.get(TOKEN_VARIABLE),
        help=f"ask for this bearer token (default: the variable {TOKEN_VARIABLE})",
    )
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="also stop when standard input ends, as when a parent dies"
    )
    extend(parser)
    return parser.parse_args()


def port_number(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError
    return port


class _Server(uvicorn.Server):
    """Says where it listens once it does, and leaves signals to us."""

    def __init__(self, config: uvicorn.Config, announcement: str) -> None:
        super().__init__(config)
        self._announcement = announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._announcement, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise a signal anew when done, and so die of it instead of exiting with 0."""
        yield


async def _serve(
    app: Starlette, site: Site, listener: socket.socket, announcement: str, until_stdin_closes: bool
) -> None:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, announcement)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True
        site.stopping.set()

    def watch_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            loop.remove_reader(sys.stdin)
            stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if until_stdin_closes:
        loop.add_reader(sys.stdin, watch_stdin)
    await server.serve(sockets=[listener])
