"""The console as a page of its own asks it, over ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.flow.gateways import Running

OPERATORS = "http://127.0.0.1:9464"


class Page:
    """What a page asks; every answer is JSON."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, question: str, **parameters: str) -> dict[str, Any]:
        answer = await self.http.get(f"/console/api/{question}", params=parameters)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        answer = await self.http.post(f"/console/api/{path}", json=body)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document


@asynccontextmanager
async def console_of(running: Running) -> AsyncIterator[Page]:
    """The console on the operators' listener of a gateway."""
    transport = httpx.ASGITransport(running.gateway.admin)
    async with httpx.AsyncClient(transport=transport, base_url=OPERATORS, trust_env=False) as http:
        yield Page(http)
