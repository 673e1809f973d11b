"""Callers of MCP of both eras on bare connections, which they may leave at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tests.support import listening
from tests.support.listening import ANY
from tests.support.processes import DEADLINE_S

LEGACY = "2025-11-25"
OFFERED = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
NOTHING: Mapping[str, str] = {}


class Line:
    """A connection with one request on it, whose caller may leave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def begun(self) -> None:
        """Waits for the head of the answer."""
        async with asyncio.timeout(DEADLINE_S):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        named = (line.split(": ", 1) for line in lines[1:-2])
        self.headers = {name.lower(): value for name, value in named}

    async def primed(self) -> str:
        """The id of the first event, which has no data."""
        await self.begun()
        assert self.headers["content-type"] == "text/event-stream"
        name, data = (await self._piece()).decode().strip().split("\n")
        assert data.strip() == "data:"
        return name.removeprefix("id: ")

    async def answer(self) -> Any:
        """The response, in one piece or at the end of a stream; None if there is none."""
        if not self.status:
            await self.begun()
        async with asyncio.timeout(DEADLINE_S):
            if "content-length" in self.headers:
                body = await self._reader.readexactly(int(self.headers["content-length"]))
                return json.loads(body) if body else None
            last = b""
            while piece := await self._piece():
                last = piece
        response = last.decode().partition("data: ")[2].strip()
        return json.loads(response) if response else None

    async def result(self) -> Any:
        return (await self.answer())["result"]

    async def broken(self) -> None:
        """Waits until the gateway's side is gone, whatever came before."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                await self._reader.read()

    def leave(self) -> None:
        self._writer.close()

    async def _piece(self) -> bytes:
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]


@asynccontextmanager
async def line(url: str, request: bytes) -> AsyncIterator[Line]:
    """Sends a request; leaves at the end of the block at the latest."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(request)
        yield Line(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def modern_call(name: str, arguments: Any, **meta: Any) -> bytes:
    """A call of a modern caller, with further members of `_meta`."""
    params = {"name": name, "arguments": arguments, "_meta": {**listening.META, **meta}}
    return listening.request("tools/call", params)


class Session:
    """A legacy caller in a session that has begun, at whatever replica; `known` are headers with its credential."""

    def __init__(self, id_: str, known: Mapping[str, str] = NOTHING) -> None:
        self._id = id_
        self._headers = {"Mcp-Session-Id": id_, "MCP-Protocol-Version": LEGACY, **known}

    def by(self, known: Mapping[str, str]) -> Session:
        """The same session as somebody else would go on with it."""
        return Session(self._id, known)

    def call(self, id_: int, name: str, arguments: Any = None) -> bytes:
        params = {"name": name, "arguments": arguments or {}}
        return _encoded(self._headers, {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})

    def ask(self, method: str) -> bytes:
        return _encoded(self._headers, {"jsonrpc": "2.0", "id": 0, "method": method})

    def cancelled(self, id_: int) -> bytes:
        params = {"requestId": id_, "reason": "enough"}
        return _encoded(self._headers, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def resume(self, event: str) -> bytes:
        """Comes back for the answer to a request whose stream broke off."""
        return _encoded({**self._headers, "Last-Event-ID": event}, None)


async def begin(url: str, known: Mapping[str, str] = NOTHING) -> Session:
    """Begins a session."""
    asked = _encoded(known, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OFFERED})
    async with line(url, asked) as on:
        assert (await on.result())["protocolVersion"] == LEGACY
        return Session(on.headers["mcp-session-id"], known)


async def say(url: str, request: bytes) -> int:
    """Sends what has no answer; returns the status."""
    async with line(url, request) as on:
        await on.begun()
        return on.status


def _encoded(headers: Mapping[str, str], document: Any) -> bytes:
    """A request as HTTP/1.1; without a document a GET."""
    body = b"" if document is None else json.dumps(document).encode()
    fields = {"Host": "localhost", "Accept": ANY, **headers}
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    first = f"{'POST' if body else 'GET'} /mcp HTTP/1.1"
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode() + body
