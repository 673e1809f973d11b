"""A demonstration tool server that speaks RCRT, its runner included: `python -m gateway.demo.rcrt_server`.

Wire form: breadcrumbs over HTTP as RCRT's server has them in November 2025; errors are plain text, success is 200.
"""

from __future__ import annotations

import argparse

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gateway.demo import faults
from gateway.demo.faults import Faults
from gateway.demo.rcrt_auth import ALL_ROLES, AUTH_FAULTS, DEMO_AGENT_ID, OWNER_ID, TOKEN_FAULTS, Gate
from gateway.demo.rcrt_breadcrumbs import CREATE_FAULTS, LIST_FAULTS, Breadcrumbs
from gateway.demo.rcrt_faults import RUNNER_FAULTS
from gateway.demo.rcrt_requests import MAX_BODY_BYTES, read_json, uuid_of
from gateway.demo.rcrt_runner import Edition, Profile, Runner
from gateway.demo.rcrt_store import Actor, Store
from gateway.demo.rcrt_stream import STREAM_FAULTS, Hub
from gateway.demo.rcrt_tools import TOOL_NAMES
from gateway.demo.service import Options, Site, main

PING_S = 5.0
OF_SERVER = {
    "create": CREATE_FAULTS,
    "list": LIST_FAULTS,
    "stream": STREAM_FAULTS,
    "token": TOKEN_FAULTS,
    "auth": AUTH_FAULTS,
}


class RcrtServer:
    """The parts of one server and the endpoints that belong to none of them."""

    def __init__(self, site: Site, profile: Profile, *, auth_disabled: bool, ping_s: float) -> None:
        self._site = site
        self._edition: Edition = profile.edition
        self._faults = Faults({**dict.fromkeys(TOOL_NAMES, RUNNER_FAULTS), **OF_SERVER})
        self._gate = Gate(site, self._faults, disabled=auth_disabled)
        self._store = Store(MAX_BODY_BYTES)
        self._runner = Runner(self._store, Actor(OWNER_ID, DEMO_AGENT_ID, ALL_ROLES), self._faults, profile)
        self._hub = Hub(site, self._faults, ping_s)
        self._store.listen(self._hub.publish)  # before the runner: a request is told of ahead of what comes of it
        self._runner.start()

    def routes(self) -> list[Route]:
        breadcrumbs = Breadcrumbs(self._site, self._store, self._gate, self._runner, self._faults)
        selectors = [Route("/subscriptions/selectors", self.nothing)] if self._edition == "M" else []
        return [
            Route("/auth/token", self.token, methods=["POST"]),
            Route("/tenants/{id}", self.tenant, methods=["POST"]),
            Route("/events/stream", self.stream),
            *breadcrumbs.routes(self._edition),
            *selectors,
            Route("/secrets", self.nothing),
            Route("/health", self.health),
            Route("/executions", self.executions),
            *faults.routes(self._site, self._faults),
        ]

    async def token(self, request: Request) -> Response:
        return JSONResponse(self._gate.mint(request, await read_json(request)))

    async def tenant(self, request: Request) -> Response:
        self._gate.add_tenant(self._gate.identify(request), uuid_of(request, "id"))
        return JSONResponse({"ok": True})

    async def stream(self, request: Request) -> Response:
        return self._hub.open(request, self._gate.identify(request))

    async def nothing(self, request: Request) -> Response:
        """There are no secrets here, and no selectors."""
        self._gate.identify(request)
        return JSONResponse([])

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("ok")

    async def executions(self, _request: Request) -> Response:
        return JSONResponse({"tools": self._runner.executions, "requests": self._runner.requests})


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--edition", choices=["M", "E"], default="E", help="M: the main line, E: the newer one (default: %(default)s)"
    )
    parser.add_argument("--standard", action="store_true", help="also run what stored agent.response.v1 ask for")
    parser.add_argument("--as-shipped", action="store_true", help="refuse the stock tools that nobody has approved")
    parser.add_argument("--auth-disabled", action="store_true", help="let everybody in, as one agent")
    parser.add_argument(
        "--ping-s", type=float, default=PING_S, metavar="SECONDS", help="between two pings (default: %(default)s)"
    )
    parser.epilog = faults.epilog({f"any tool ({', '.join(TOOL_NAMES)})": RUNNER_FAULTS, **OF_SERVER})


def build(site: Site, options: Options) -> Starlette:
    profile = Profile(options.edition, options.standard, options.as_shipped)
    server = RcrtServer(site, profile, auth_disabled=options.auth_disabled, ping_s=options.ping_s)
    app = Starlette(routes=server.routes())
    app.router.redirect_slashes = False  # it would build a URL from whatever Host says
    return app


if __name__ == "__main__":
    main(
        build,
        "A demonstration tool server that speaks RCRT and runs its stock tools.",
        default_port=9104,
        extend=extend,
    )
