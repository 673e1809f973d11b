"""Tool servers of several protocols that do with each call what a test says, and the backends in front of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from gateway.core.model import Invocation, ToolResult
from gateway.core.ports import DispatchGate
from gateway.net.client import Limits
from gateway.protocols.mcp.servers.backend import McpBackend
from gateway.protocols.openapi.backend import OpenApiBackend
from gateway.protocols.openapi.document.plan import CallPlan
from gateway.protocols.otc.backend import HttpBackend
from tests.protocols.mcp import server_double as mcp_facing
from tests.protocols.mcp.server_double import PATIENCE_S, Double, Talk
from tests.streams import Request, accepting, http_reply, read_request
from tests.unit.protocols.openapi.document.documents import root
from tests.unit.protocols.openapi.facing import parameter, tool_of
from tests.unit.upstream.admitting import admission, context_of, settings_of

KINDS = ("oxp", "openapi", "modern", "modern stream", "legacy", "legacy stream")  # the latter four are of MCP
# What an API does with any call: all that it is given stands in one parameter.
PARAMETER = parameter("value", "query", media_type="application/json")
OPERATION = CallPlan(method="POST", path="/find", parameters=(PARAMETER,))
DOCUMENT = root({"/find": {"get": {"operationId": "find_it"}}})


class Called(Protocol):
    """A call that has arrived, and the ways to answer it."""

    request: Request

    @property
    def arguments(self) -> Any: ...

    async def value(self, value: Any) -> None: ...

    async def failure(self, message: str) -> None: ...

    async def send(self, data: bytes) -> None: ...

    def hang_up(self) -> None: ...

    async def until_closed(self) -> None: ...


Script = Callable[[Called], Awaitable[None]]


class OxpCall:
    """A call by OXP."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.arguments = request.call["input"]
        self._reader = reader
        self._writer = writer

    async def value(self, value: Any) -> None:
        await self._end(value=value, success=True)

    async def failure(self, message: str) -> None:
        await self._end(error={"message": message}, success=False)

    async def _end(self, **members: Any) -> None:
        await self.send(http_reply(200, {"call_id": self.request.call["call_id"], **members}))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.close()

    async def until_closed(self) -> None:
        await self._reader.read()


class OpenApiCall(OxpCall):
    """A call of an operation."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.arguments = {"value": None} | {
            name: json.loads(text) for name, text in parse_qsl(urlsplit(request.target).query)
        }
        self._reader = reader
        self._writer = writer

    async def value(self, value: Any) -> None:
        await self.send(http_reply(200, value, content_type="application/json"))

    async def failure(self, message: str) -> None:
        await self.send(http_reply(422, {"detail": message}))


class McpCall:
    """A call by MCP, whose response comes as JSON or as an event."""

    def __init__(self, talk: Talk, *, is_streamed: bool) -> None:
        self.request = talk.request
        self.arguments = talk.message["params"]["arguments"]
        self.send, self.hang_up, self.until_closed = talk.send, talk.hang_up, talk.until_closed
        self._talk = talk
        self._is_streamed = is_streamed

    async def value(self, value: Any) -> None:
        await self._end({"content": [], "structuredContent": value})

    async def failure(self, message: str) -> None:
        await self._end({"content": [{"type": "text", "text": message}], "isError": True})

    async def _end(self, result: Any) -> None:
        if self._is_streamed:
            await self._talk.stream(mcp_facing.event(self._talk.response(result)))
        else:
            await self._talk.answer(result)


class FarEnd:
    """A tool server. `calls` are those that arrived, `lists` the requests for its tools."""

    def __init__(self, kind: str, script: Script) -> None:
        era, _, streamed = kind.partition(" ")
        self._kind = kind
        self.url = ""
        self.calls: list[Called] = []
        self._script = script
        self._is_streamed = bool(streamed)
        self._double = None if era in ("oxp", "openapi") else Double(era, self._called, {})
        self._lists: list[Request] = []

    @property
    def lists(self) -> list[Request]:
        return self._lists if self._double is None else [talk.request for talk in self._double.of("tools/list")]

    async def _called(self, talk: Talk) -> None:
        await self._run(McpCall(talk, is_streamed=self._is_streamed))

    async def _run(self, call: Called) -> None:
        self.calls.append(call)
        await self._script(call)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._double is not None:
            await self._double.converse(reader, writer)
        while True:
            request = await read_request(reader)
            if request.method == "GET":
                self._lists.append(request)
                definition = {"id": "Crm.find_it@1.0.0", "input_schema": {"type": "object"}}
                writer.write(http_reply(200, [definition] if self._kind == "oxp" else DOCUMENT))
            elif self._kind == "oxp":
                await self._run(OxpCall(request, reader, writer))
            else:
                await self._run(OpenApiCall(request, reader, writer))


class Operations(OpenApiBackend):
    """A backend that is called with the tool of other protocols, for which it has one operation."""

    async def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> ToolResult:
        return await super().call(replace(invocation, tool=tool_of(OPERATION)), gate)


BACKENDS: Mapping[str, tuple[Any, str]] = {"oxp": (HttpBackend, "oxp"), "openapi": (Operations, "openapi")}


@dataclass
class Fleet:
    """A backend and the replicas of its tool server."""

    backend: HttpBackend | McpBackend | OpenApiBackend
    servers: Sequence[FarEnd]

    @property
    def runs(self) -> int:
        return sum(len(server.calls) for server in self.servers)


@asynccontextmanager
async def far_end(kind: str, script: Script) -> AsyncIterator[FarEnd]:
    server = FarEnd(kind, script)
    async with accepting(server.converse) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


@asynccontextmanager
async def fleet(kind: str, *scripts: Script | None, keys: Any = None, **limits: Any) -> AsyncIterator[Fleet]:
    """A backend in front of replicas that follow these scripts; None stands for one that is gone."""
    async with AsyncExitStack() as stack:
        servers = []
        for script in scripts:
            if script is None:
                async with far_end(kind, lambda called: called.value(None)) as server:
                    servers.append(server)
            else:
                servers.append(await stack.enter_async_context(far_end(kind, script)))
        urls = [server.url for server in servers]
        way_in = admission(*urls, transport=Limits(connect_timeout_s=PATIENCE_S), **limits)
        make, protocol = BACKENDS.get(kind, (McpBackend, "mcp"))
        keys = dict(keys or {})
        if kind == "openapi":
            keys |= {"document": urls[0] + "/openapi.json", "document_auth": keys.get("auth")}
        settings = settings_of(protocol, urls[0], toolkit="Crm", **keys)
        backend = await stack.enter_async_context(aclosing(make("crm", settings, context_of(way_in))))
        yield Fleet(backend, servers)
        assert (way_in.in_flight, way_in.queued, {one.in_flight for one in way_in.replicas}) == (0, 0, {0})
