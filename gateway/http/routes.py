"""The public paths besides the endpoints of surfaces, and what requests to them are counted as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway import challenges
from gateway.calls import callbacks
from gateway.dialects import mcp_auth
from gateway.dialects.recognise import DIALECTS
from gateway.request import Request

CALLBACKS, CHALLENGES, CALLS = callbacks.PATH, challenges.PATH, "/calls/"
HEALTH, OPENAPI, METRICS = "/health", "/openapi.json", "/metrics"
METADATA = mcp_auth.WELL_KNOWN
PROBES = {HEALTH: "health", OPENAPI: "openapi", METRICS: "metrics", METADATA: "metadata"}
CONSOLE = "/console"
CONSOLE_API = f"{CONSOLE}/api/"
# What the page of the console asks for, again and again; its files and its data. All else there is written down.
CONSOLE_FILE = f"{CONSOLE}/{{file}}"
CONSOLE_STEPS = frozenset({CONSOLE, f"{CONSOLE}/", f"{CONSOLE}/login", f"{CONSOLE}/login/done"})
CONSOLE_PAGES = frozenset({
    CONSOLE_API + page
    for page in ("session", "overview", "backends", "tools", "calls", "calls/cancel", "log", "configuration", "send")
} | {f"{CONSOLE_API}logout"})  # fmt: skip
CALLBACK = ("callback", f"{CALLBACKS}{{token}}")
OTHER = "other"  # the operation of a request to no path of ours
NOWHERE = "-"  # and its route

REQUEST = "toolgate.request"  # where in the scope the request is


def request_of(scope: Mapping[str, Any]) -> Request:
    """The request that the edge has put into the scope."""
    request = scope[REQUEST]
    assert isinstance(request, Request)
    return request


def prefix_of(path: str) -> str | None:
    """The dialect whose prefix a path has."""
    first = path.removeprefix("/").partition("/")[0]
    return first if first in DIALECTS else None


def route_of(method: str, path: str) -> tuple[str, str]:
    """The operation and the template of a path; `other` and `-` for unknown ones, which may hold anything."""
    prefix = prefix_of(path)
    if prefix is not None:
        path = path.removeprefix(f"/{prefix}")
    if path in PROBES:
        return PROBES[path], path
    if path.startswith(METADATA):
        return PROBES[METADATA], METADATA
    if path.startswith(CALLBACKS):
        return CALLBACK
    if path.startswith(CALLS):
        return "cancel" if method == "DELETE" else "poll", f"{CALLS}{{call_id}}"
    if path.startswith(CHALLENGES):
        return "challenge", f"{CHALLENGES}{{token}}"
    if path == CONSOLE or path.startswith(f"{CONSOLE}/"):
        return "console", _console_route(path)
    return OTHER, NOWHERE


def is_routine(method: str, operation: str, route: str) -> bool:
    """Whether programs repeat such a request all day: it is counted, and not written down."""
    if operation == "console":
        return method in ("GET", "HEAD") and route not in CONSOLE_STEPS
    return route in PROBES


def _console_route(path: str) -> str:
    """The template of a path of the console."""
    if path in CONSOLE_STEPS or path in CONSOLE_PAGES:
        return path
    if not path.startswith(CONSOLE_API):
        return CONSOLE_FILE
    page = path.removeprefix(CONSOLE_API).partition("/")[0]
    if page == "backends":
        return f"{CONSOLE_API}backends/{{name}}/refresh"
    return f"{CONSOLE_API}tools/{{name}}" if page == "tools" else f"{CONSOLE_API}{{page}}"
