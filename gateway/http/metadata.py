"""Where callers of MCP get a token, for everybody to read (RFC 9728, OAuth 2.0 Protected Resource Metadata)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.http.routes import METADATA
from gateway.protocols.mcp.callers import auth as mcp_auth
from gateway.settings import Config

TOOLKIT = re.compile(r"[A-Za-z0-9_]{1,128}")
OPEN = {"access-control-allow-origin": "*", "cache-control": "public, max-age=3600"}
PREFLIGHT = OPEN | {"access-control-allow-methods": "GET", "access-control-allow-headers": "*"}


def metadata_routes(config: Config, public_url: Callable[[], str]) -> Iterator[Route]:
    """The document of the endpoint, also at the root, where some callers look, and those of single toolkits.

    There is none without an issuer that programs can ask for a token. Under `errors.strict` it names no scopes: they
    may be those of hidden tools.
    """
    issuers = () if config.auth is None else config.auth.authorization_servers
    if not config.mcp.enabled or not issuers:
        return
    at, scopes = config.mcp.path, {scope for route in config.routes if not route.deny for scope in route.scopes}
    scope_names = [] if config.errors.strict else sorted(scopes)

    async def show_metadata(request: Request) -> Response:
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
