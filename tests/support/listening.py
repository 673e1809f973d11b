"""Callers of MCP (2026-07-28) that listen for changes, on bare streams: thousands of them fit into one test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tests.support.processes import DEADLINE_S

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
SUBSCRIPTION = f"{PREFIX}subscriptionId"
TOOLS = {"toolsListChanged": True}
ANY = "application/json, text/event-stream"


def request(method: str, params: Mapping[str, Any], *, id_: Any = 1, accept: str = ANY, **headers: str) -> bytes:
    """Encodes a modern request as HTTP/1.1."""
    document = {"jsonrpc": "2.0", "id": id_, "method": method, "params": {"_meta": META, **params}}
    body = json.dumps(document).encode()
    fields = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": accept,
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if "name" in params:
        fields["Mcp-Name"] = params["name"]
    lines = [b"POST /mcp HTTP/1.1", *(f"{name}: {value}".encode() for name, value in fields.items())]
    return b"\r\n".join([*lines, b"", body])


class EventReader:
    """The answer to one request, as its events come. `pieces` are what was read, comments included."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []

    async def head(self) -> None:
        """Reads the head."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines[1:-2])

    async def body(self) -> Any:
        """The JSON document that an answer in one piece is."""
        return json.loads(await self._reader.readexactly(int(self.headers["content-length"])))

    async def piece(self) -> bytes:
        """The next chunk; empty at the end."""
        size = int(await self._reader.readline(), 16)
        piece = await self._reader.readexactly(size + 2)
        self.pieces.append(piece[:-2])
        return piece[:-2]

    async def message(self) -> Any:
        """The next message; None at the end. Each of ours comes in a chunk of its own."""
        async with asyncio.timeout(DEADLINE_S):
            while piece := await self.piece():
                if not piece.startswith(b":"):
                    name, data = piece.rstrip(b"\n").split(b"\n")
                    assert name == b"event: message"
                    return json.loads(data.removeprefix(b"data: "))
        return None


@asynccontextmanager
async def asking(url: str, request: bytes, *, limit: int = 1 << 16) -> AsyncIterator[EventReader]:
    """Sends a request and reads the head of its answer; leaves at the end of the block."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=limit)
    try:
        writer.write(request)
        answer = EventReader(reader)
        async with asyncio.timeout(DEADLINE_S):
            await answer.head()
        yield answer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def listening(
    url: str, asked: Mapping[str, Any] = TOOLS, *, id_: Any = 1, **headers: str
) -> AsyncIterator[EventReader]:
    """Listens, from the acknowledgement on."""
    async with asking(url, request("subscriptions/listen", {"notifications": asked}, id_=id_, **headers)) as stream:
        assert stream.status == 200, stream.status
        first = await stream.message()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"] == {
            "_meta": {SUBSCRIPTION: id_},
            "notifications": TOOLS if asked.get("toolsListChanged") else {},
        }
        yield stream
