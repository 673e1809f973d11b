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
    return OTHER, NOWHERE
