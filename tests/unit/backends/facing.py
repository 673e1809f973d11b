"""An OTC or OXP backend in front of a tool server on a real socket that does exactly what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.admission import Admission
from gateway.backends.credentials import Credentials, Fixed
from gateway.backends.http import HttpBackend
from gateway.backends.http_listing import Terms
from gateway.backends.server import Server
from gateway.dialects import recognise
from gateway.errors import GatewayError
from gateway.model import Invocation, ToolDefinition, ToolResult
from gateway.offload import Checker, Offload
from gateway.ports import ServerDialect
from tests.streams import http_reply
from tests.unit.backends.admitting import admission
from tests.unit.transport.scripted import Peer, Script, serving
from tests.unit.transport.scripted import Server as Scripted

DEFINITION = ToolDefinition(
    tool="A.B", version="1.0.0", name="A_B", description="", input_schema={}, output_schema={}, remote_id="A.B@1.0.0"
)
INVOCATION = Invocation(call_id="tg-1", tool=DEFINITION, arguments={"n": 1}, timeout_s=5.0)
IDEMPOTENT = replace(INVOCATION, idempotent=True)
VALUE = {"call_id": "tg-1", "success": True, "value": 7, "duration": 2}
MAX_RESPONSE = 4096
BROKEN = "The tool server gave a broken answer."


def reply(status: int, body: Any, content_type: str = "application/json", **headers: str) -> bytes:
    """A whole reply; bytes, too, are called JSON unless told otherwise."""
    return http_reply(status, body, content_type=content_type, **headers)


OK = reply(200, VALUE)
NO_CHILD = Checker(Offload(memory_bytes=0))  # nothing here is large enough for it


def backend_at(
    url: str,
    dialect: ServerDialect | None = recognise.OXP,
    credentials: Credentials | None = None,
    asks_in: ServerDialect = recognise.OXP,
    way_in: Admission[Server] | None = None,
    lists: Terms = Terms(),  # noqa: B008 - frozen
) -> HttpBackend:
    return HttpBackend(
        "crm",
        way_in or admission(url),
        dialect=dialect,
        asks_in=asks_in,
        credentials=credentials or Fixed(),
        toolkit="Crm",
        max_response_bytes=MAX_RESPONSE,
        checker=NO_CHILD,
        lists=lists,
    )


@asynccontextmanager
async def facing(script: Script, path: str = "", **settings: Any) -> AsyncIterator[tuple[HttpBackend, Scripted]]:
    """A backend in front of a tool server that follows a script."""
    async with serving(script) as server:
        backend = backend_at(server.url + path, **settings)
        try:
            yield backend, server
        finally:
            await backend.aclose()


async def outcome(script: Script, invocation: Invocation = INVOCATION) -> ToolResult:
    async with facing(script) as (backend, _):
        return await backend.call(invocation)


async def refusal(calling: Awaitable[Any]) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await calling
    return caught.value


def paths(server: Scripted) -> list[str]:
    return [request.split(b" ")[1].decode() for request in server.requests]


def head_of(request: bytes) -> dict[str, str]:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return dict(line.lower().split(": ", 1) for line in lines)


def at_paths(known: dict[str, bytes], unknown: bytes) -> Script:
    """Answers by path, for as long as it is asked."""

    async def script(peer: Peer) -> None:
        while True:
            path = (await peer.request()).split(b" ")[1].decode()
            await peer.send(known.get(path, unknown))

    return script
