"""The public paths besides the endpoints of surfaces: one table, which routing, logs and `/openapi.json` go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gateway.pipeline import callbacks, challenges
from gateway.pipeline.request import Request
from gateway.protocols.mcp.callers import auth as mcp_auth
from gateway.protocols.otc.surface import DIALECTS

CALLBACKS, CHALLENGES, CALLS = callbacks.PATH, challenges.PATH, "/calls/"
HEALTH, OPENAPI, METRICS = "/health", "/openapi.json", "/metrics"
METADATA = mcp_auth.WELL_KNOWN
CONSOLE = "/console"
OTHER = "other"  # the operation of a request to no path of ours
NOWHERE = "-"  # and its route
READING = frozenset({"GET", "HEAD", "OPTIONS"})

REQUEST = "toolgate.request"  # where in the scope the request is


class PublicRoute(Struct, frozen=True):
    """One path, or all that begin as it does."""

    path: str  # as logs show it; a word in braces stands for the rest of a path, slashes included
    operation: str  # what requests to it count as
    is_polled: bool = False  # programs ask for it all day: what was found there is counted, and not written down
    methods: tuple[str, ...] = ("GET",)
    deletes: str = ""  # what a DELETE counts as, where that is something else
    has_prefixes: bool = False  # it is also below the prefix of each dialect
    has_more: bool = False  # all that begins as it does belongs to it

    def takes(self, path: str) -> bool:
        """Whether a path, without the prefix of a dialect, is one of this route."""
        begins = self.path.partition("{")[0]
        return path.startswith(begins) if self.has_more or begins != self.path else path == begins

    def paths(self) -> dict[str | None, str]:
        """Its path, bare and with every prefix, by the dialect that it names."""
        return {None: self.path} | {name: f"/{name}{self.path}" for name in DIALECTS if self.has_prefixes}


CALLBACK = PublicRoute(f"{CALLBACKS}{{token}}", "callback", methods=("POST",))
API = f"{CONSOLE}/api/"
ROUTES = (  # of several that take a path, the first counts
    PublicRoute(HEALTH, "health", is_polled=True, has_prefixes=True),
    PublicRoute(OPENAPI, "openapi", is_polled=True),
    PublicRoute(METRICS, "metrics", is_polled=True),
    PublicRoute(METADATA, "metadata", is_polled=True, has_more=True),
    CALLBACK,
    PublicRoute(f"{CALLS}{{call_id}}", "poll", methods=("GET", "DELETE"), deletes="cancel"),
    PublicRoute(f"{CHALLENGES}{{token}}", "challenge"),
    # Those who log in are written down; the page asks for its files and its data again and again.
    *(PublicRoute(f"{CONSOLE}{step}", "console") for step in ("", "/", "/login", "/login/done")),
    *(
        PublicRoute(API + page, "console", is_polled=True)
        for page in (
            *("session", "overview", "backends", "tools", "calls", "calls/cancel", "log", "configuration", "send"),
            *("logout", "backends/{name}/refresh", "tools/{name}", "{page}"),
        )
    ),
    PublicRoute(f"{CONSOLE}/{{file}}", "console", is_polled=True),
)


def request_of(scope: Mapping[str, Any]) -> Request:
    """The request that the edge has put into the scope."""
    request = scope[REQUEST]
    assert isinstance(request, Request)
    return request


def prefix_of(path: str) -> str | None:
    """The dialect whose prefix a path has."""
    first = path.removeprefix("/").partition("/")[0]
    return first if first in DIALECTS else None


def find_route(path: str) -> PublicRoute | None:
    """The route of a path with or without a dialect's prefix; None for unknown ones, which may hold anything."""
    prefix = prefix_of(path)
    if prefix is not None:
        path = path.removeprefix(f"/{prefix}")
    return next((route for route in ROUTES if route.takes(path)), None)


def operation_of(method: str, route: PublicRoute | None) -> tuple[str, str]:
    """What a request counts as, and the template of its path."""
    if route is None:
        return OTHER, NOWHERE
    return route.deletes if method == "DELETE" and route.deletes else route.operation, route.path
