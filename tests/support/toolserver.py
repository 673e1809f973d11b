"""A tool server inside the test: it does to each call exactly what the test says, and remembers what reached it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.streams import Request, accepting, http_reply, read_request

Handler = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request, and the connection to answer it on."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Writes bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self, document: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Writes a whole answer with a JSON body."""
        body = json.dumps(document, ensure_ascii=False).encode()
        await self.write(http_reply(status, body, *headers, content_type="application/json"))

    async def finish(self, **outcome: Any) -> None:
        """Answers the call in OTC, with `value` or `error`."""
        result = {"call_id": self.request.call["call_id"], "success": "error" not in outcome, **outcome}
        await self.reply({"$schema": "otc://1.0", "result": result})

    async def until_closed(self) -> None:
        """Waits until the gateway gives the connection up, whichever way."""
        with suppress(ConnectionError):
            assert await self._reader.read() == b""

    def half_close(self) -> None:
        """Says that nothing more will be written, and goes on to read."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Breaks the connection off with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def echo(exchange: Exchange) -> None:
    """The tool that returns its input."""
    await exchange.finish(value=exchange.request.call["input"])


def definition(tool: str, **more: Any) -> dict[str, Any]:
    """A tool that takes and returns any object, as OTC lists it."""
    return {
        "id": f"{tool}@1.0.0",
        "name": tool.replace(".", "_"),
        "description": "A tool of a test.",
        "version": "1.0.0",
        "input_schema": {"parameters": {"type": "object"}},
        "output_schema": {},
    } | more


@dataclass
class ToolServer:
    """What the tools do, by id without version, how they are listed, and all that was asked."""

    url: str
    tools: Mapping[str, Handler]
    definitions: Sequence[Any]
    listing: Handler | None = None  # in place of the regular one
    requests: list[Request] = field(default_factory=list)
    connections: int = 0  # open now
    opened: int = 0  # ever

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def calls(self, tool: str) -> list[Request]:
        """The calls of one tool."""
        return [request for request in self.requests if request.method == "POST" and request.tool == tool]

    async def answer(self, exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            await self.tools[exchange.request.tool](exchange)
        elif self.listing is not None:
            await self.listing(exchange)
        else:
            await exchange.reply({"$schema": "otc://1.0", "tools": self.definitions})

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on one connection until the gateway gives it up."""
        self.connections += 1
        self.opened += 1
        try:
            while not writer.is_closing():
                request = await read_request(reader)
                self.requests.append(request)
                await self.answer(Exchange(request, reader, writer))
        finally:
            self.connections -= 1


@asynccontextmanager
async def tool_server(
    tools: Mapping[str, Handler], definitions: Sequence[Any] | None = None, listing: Handler | None = None
) -> AsyncIterator[ToolServer]:
    """Runs a tool server on a free port."""
    if definitions is None:
        definitions = [definition(tool) for tool in tools]
    server = ToolServer("", tools, definitions, listing)
    async with accepting(server.converse, limit=1 << 24, backlog=1024) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
