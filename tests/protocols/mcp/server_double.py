"""An MCP backend in front of a server on real sockets, written by hand, that does what a test says with each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from gateway.core.model import Invocation, ToolDefinition
from gateway.net.client import Limits
from gateway.protocols.mcp.servers.backend import McpBackend
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server
from tests.streams import Request, accepting, http_reply, read_request
from tests.unit.upstream.admitting import admission, context_of, settings_of

MODERN, LEGACY = "2026-07-28", "2025-11-25"
VERSION = "io.modelcontextprotocol/protocolVersion"
DEFINITION = ToolDefinition(
    tool="Crm.find_it",
    version="1.0.0",
    name="Crm_find_it",
    description="",
    input_schema={},
    output_schema={},
    remote_id="find.it",
)
PATIENCE_S = 60.0  # no test waits for as long, unless the machine is busy
INVOCATION = Invocation(call_id="tg-1", tool=DEFINITION, arguments={"n": 1}, timeout_s=PATIENCE_S)
IDEMPOTENT = replace(INVOCATION, idempotent=True)
TEXT = {"content": [{"type": "text", "text": "seven"}]}
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def event(data: Any, *lines: str) -> bytes:
    """One event of a stream; `lines` stand before its data."""
    text = data if isinstance(data, str) else json.dumps(data)
    return "".join(f"{line}\n" for line in (*lines, f"data: {text}", "")).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Talk:
    """One request to the server, and the way to answer it."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self.request = request
        self.message: dict[str, Any] = json.loads(request.body) if request.body else {}
        self.method: str = self.message.get("method", request.method)
        self._writer = writer
        self._reader = reader

    @property
    def id(self) -> Any:
        return self.message.get("id")

    def response(self, result: Any = TEXT, **error: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.id} | ({"error": error} if error else {"result": result})

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, result: Any = TEXT, status: int = 200, **headers: str) -> None:
        await self.send(http_reply(status, self.response(result), **headers))

    async def fail(self, code: int, message: str, status: int = 200, **data: Any) -> None:
        error = {"code": code, "message": message} | ({"data": data} if data else {})
        await self.send(http_reply(status, self.response(**error)))

    async def stream(self, *events: bytes, end: bytes = END) -> None:
        """Answers with events, each in a piece of its own."""
        await self.send(EVENTS)
        for each in events:
            await self.send(chunk(each))
        await self.send(end)

    def hang_up(self) -> None:
        self._writer.close()

    async def until_closed(self) -> None:
        await self._reader.read()


Script = Callable[[Talk], Awaitable[None]]


async def answer(talk: Talk) -> None:
    await talk.answer()


async def stay(talk: Talk) -> None:
    """Says nothing until the other side has gone."""
    await talk.until_closed()


class Double:
    """A server of one era. `ran` are the calls that got as far as a tool; `told` is all that came, by method."""

    def __init__(self, era: str, on_call: Script, others: Mapping[str, Script], *, has_sessions: bool = True) -> None:
        self.era = era
        self.version = LEGACY
        self.ran: list[Talk] = []
        self.told: list[Talk] = []
        self.sessions: set[str] = set()
        self.connections = 0
        self.url = ""
        self._on_call = on_call
        self.others = others
        self.before: Script | None = None  # in place of all else
        self._has_sessions = has_sessions
        self._made = 0
        self._changed = asyncio.Condition()

    def of(self, method: str) -> list[Talk]:
        return [talk for talk in self.told if talk.method == method]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Waits until what came makes something so."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(is_so)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            talk = Talk(await read_request(reader), writer, reader)
            self.told.append(talk)
            async with self._changed:
                self._changed.notify_all()
            await (self.before or self.serve)(talk)

    async def serve(self, talk: Talk) -> None:
        serve = self.others.get(talk.method)
        if serve is not None:
            await serve(talk)
        elif "id" not in talk.message or "method" not in talk.message:
            await self._take(talk)
        elif self.era == "modern":
            await self._serve_modern(talk)
        elif talk.method == "initialize":
            await self.initialize(talk)
        elif talk.method == "server/discover":
            await talk.fail(-32000, "Bad Request: Server not initialized", 400)
        elif self._has_sessions and talk.request.header("mcp-session-id") not in self.sessions:
            await talk.fail(-32600, "Session not found", 404)
        else:
            await self._serve_tools(talk)

    async def _take(self, talk: Talk) -> None:
        """Takes a notification, an answer, or the end of a session."""
        if talk.method == "DELETE":
            self.sessions.discard(talk.request.header("mcp-session-id") or "")
        await talk.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    async def initialize(self, talk: Talk) -> None:
        session: dict[str, Any] = {}
        if self._has_sessions:
            self._made += 1
            session = {"mcp_session_id": f"s{self._made}"}
            self.sessions.add(f"s{self._made}")
        result = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
        await talk.answer(result, **session)

    async def _serve_modern(self, talk: Talk) -> None:
        if talk.message["params"].get("_meta", {}).get(VERSION) != MODERN:
            requested = talk.request.header("mcp-protocol-version")
            await talk.fail(-32022, "Unsupported protocol version", 400, supported=[MODERN], requested=requested)
        elif talk.method == "server/discover":
            await talk.answer({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}})
        else:
            await self._serve_tools(talk)

    async def _serve_tools(self, talk: Talk) -> None:
        if talk.method == "tools/list":
            await talk.answer({"tools": [{"name": "find.it", "inputSchema": {"type": "object"}}]})
        else:
            self.ran.append(talk)
            await self._on_call(talk)


@asynccontextmanager
async def serving(
    era: str, on_call: Script = answer, others: Mapping[str, Script] | None = None, **more: Any
) -> AsyncIterator[Double]:
    double = Double(era, on_call, others or {}, **more)
    async with accepting(double.converse) as port:
        double.url = f"http://127.0.0.1:{port}/mcp"
        yield double


def backend_at(*urls: str, way_in: Admission[Server] | None = None, on_change: Any = None, **keys: Any) -> McpBackend:
    settings = settings_of("mcp", urls[0], **keys)
    patient = Limits(connect_timeout_s=PATIENCE_S)
    context = context_of(way_in or admission(*urls, transport=patient), on_change=on_change or (lambda: None))
    return McpBackend("crm", settings, context)


@asynccontextmanager
async def facing(
    era: str, on_call: Script = answer, others: Mapping[str, Script] | None = None, *, keys: Any = None, **more: Any
) -> AsyncIterator[tuple[McpBackend, Double]]:
    """A backend, with the keys of its settings, in front of a server."""
    async with AsyncExitStack() as stack:
        double = await stack.enter_async_context(serving(era, on_call, others, **more))
        yield await stack.enter_async_context(aclosing(backend_at(double.url, **(keys or {})))), double
