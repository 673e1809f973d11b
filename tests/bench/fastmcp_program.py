"""FastMCP as a peer: tools made from an OpenAPI description, or a proxy. Runs in an environment of its own.

`python fastmcp_program.py FILE`, where FILE is JSON: port, issuer, audience, public_key; api and openapi, or the URL
`proxied` of an MCP server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import JWTVerifier


def main() -> None:
    """Serves until it is stopped."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    auth = JWTVerifier(
        public_key=settings["public_key"], issuer=settings["issuer"], audience=settings["audience"], algorithm="RS256"
    )
    if "proxied" in settings:
        server: FastMCP = create_proxy(settings["proxied"], name="bench", auth=auth)
    else:
        client = httpx2.AsyncClient(base_url=settings["api"])
        server = FastMCP.from_openapi(settings["openapi"], client=client, name="bench", auth=auth)
    app = server.http_app(path="/mcp", stateless_http=True, json_response=True)
    uvicorn.run(app, port=settings["port"], loop="uvloop", http="httptools", log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
