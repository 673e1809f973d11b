"""An OTC or OXP backend in front of a tool server on a real socket that does exactly what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import GatewayError
from gateway.core.model import Invocation, ToolDefinition, ToolResult
from gateway.offload import ChildTasks
from gateway.protocols.otc.backend import HttpBackend
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server
from tests.streams import http_reply
from tests.unit.net.client.scripted import Peer, Script, serving
from tests.unit.net.client.scripted import Server as Scripted
from tests.unit.upstream.admitting import admission, context_of, settings_of

DEFINITION = ToolDefinition(
    tool="A.B", version="1.0.0", name="A_B", description="", input_schema={}, output_schema={}, remote_id="A.B@1.0.0"
)
INVOCATION = Invocation(call_id="tg-1", tool=DEFINITION, arguments={"n": 1}, timeout_s=5.0)
IDEMPOTENT = replace(INVOCATION, idempotent=True)
VALUE = {"call_id": "tg-1", "success": True, "value": 7, "duration": 2}
MAX_RESPONSE = 4096  # as the settings of the backend say
BROKEN = "The tool server gave a broken answer."


def reply(status: int, body: Any, content_type: str = "application/json", **headers: str) -> bytes:
    """A whole reply; bytes, too, are called JSON unless told otherwise."""
    return http_reply(status, body, content_type=content_type, **headers)


OK = reply(200, VALUE)


def backend_at(
    url: str,
    dialect: str = "oxp",
    *,
    protocol: str = "oxp",
    token: str | None = None,
    way_in: Admission[Server] | None = None,
    offload: ChildTasks | None = None,
) -> HttpBackend:
    auth = token and {"bearer": token}
    settings = settings_of(protocol, url, dialect=dialect, toolkit="Crm", max_response="4KiB", auth=auth)
    return HttpBackend("crm", settings, context_of(way_in or admission(url), offload=offload))


@asynccontextmanager
async def facing(script: Script, path: str = "", **settings: Any) -> AsyncIterator[tuple[HttpBackend, Scripted]]:
    """A backend in front of a tool server that follows a script."""
    async with serving(script) as server, aclosing(backend_at(server.url + path, **settings)) as backend:
        yield backend, server


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
