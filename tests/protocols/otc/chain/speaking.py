"""The caller's side in each dialect: how a call is written, and what of an answer two gateways must agree on."""

from __future__ import annotations

from typing import Any

import httpx

from tests import oracle

SCHEMAS = {
    "rfc": "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
    "otc": "otc://1.0",
    "oxp-env": "urn:oxp:1.0",
    "lc": "otc://1.0",
}
DIALECTS = ("rfc", "otc", "oxp", "oxp-env", "lc")


async def call(http: httpx.AsyncClient, dialect: str, request: dict[str, Any]) -> httpx.Response:
    """Sends a CallToolRequest in a dialect; the answer is known to be well-formed in it."""
    path = f"/{dialect}/call" if dialect == "rfc" else f"/{dialect}/tools/call"
    body = request if dialect == "oxp" else {"$schema": SCHEMAS[dialect], "request": request}
    response = await http.post(path, json=body)
    oracle.check(dialect, "call", response.status_code, response.headers, response.content)
    return response


async def catalogue(http: httpx.AsyncClient, dialect: str) -> Any:
    """The whole list in a dialect."""
    response = await http.get(f"/{dialect}/tools")
    oracle.check(dialect, "list", response.status_code, response.headers, response.content)
    assert response.status_code == 200, response.text
    return response.json()


def agreed(response: httpx.Response) -> Any:
    """Status, body without the time the call took, and whether it says when to come back."""
    document = response.json()
    for around in (document, document.get("result", {})):
        around.pop("duration", None)
    return response.status_code, document, int(response.headers.get("retry-after", 0)) > 0
