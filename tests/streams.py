"""Servers inside tests, on bare streams: they hang up, half-close and answer rubbish, which no library would do.

They share nothing with the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

CHUNK_BYTES = 65536
MAX_BODY_BYTES = 32 * 1024 * 1024  # nothing a test sends to a server of its own is larger
ENDS_S = 5.0  # for conversations that are broken off

Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HeaderLines = list[tuple[str, str]]


@asynccontextmanager
async def accepting(
    converse: Converse, *, host: str = "127.0.0.1", port: int = 0, **options: Any
) -> AsyncIterator[int]:
    """Listens on a port, by default a free one, yields it, and converses on each connection until either side leaves.

    What is still open at the end of the block is broken off. Errors other than of connections fail the test.
    `options` are those of `asyncio.start_server`.
    """
    tasks: set[asyncio.Task[None]] = set()
    failures: list[Exception] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await converse(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has left
        except Exception as exc:
            failures.append(exc)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also where it was cancelled before it began

    listener = await asyncio.start_server(connected, host, port, **options)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDS_S)
    assert not failures, failures


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: bytearray | None = None) -> None:
    """Passes on all that comes, and its end; `note` gets a copy."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            if note is not None:
                note += data
            writer.write(data)
            await writer.drain()
    except OSError:  # also what TLS has to complain of
        pass
    finally:
        writer.close()


@dataclass(frozen=True)
class Request:
    """One request as it came; header names in lower case."""

    method: str
    target: str
    headers: HeaderLines
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def call(self) -> dict[str, Any]:
        """The CallToolRequest, whatever is around it."""
        document = json.loads(self.body)
        request: dict[str, Any] = document.get("request", document)
        return request

    @property
    def tool(self) -> str:
        """The called tool without its version."""
        name: str = self.call["tool_id"].partition("@")[0]
        return name


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next request. Raises IncompleteReadError when there is none."""
    first, headers, body = await read_message(reader)
    method, target, _ = first.split(" ")
    return Request(method, target, headers, body)


async def read_message(reader: asyncio.StreamReader) -> tuple[str, HeaderLines, bytes]:
    """First line, headers and body of a message whose length is told. Raises IncompleteReadError when there is none."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    pairs = (line.split(":", 1) for line in lines)
    headers = [(name.lower(), value.strip()) for name, value in pairs]
    length = int(dict(headers).get("content-length", "0"))
    assert length <= MAX_BODY_BYTES
    return first, headers, await reader.readexactly(length)


def http_reply(status: int, body: Any, *more: tuple[str, str], **headers: str) -> bytes:
    """A whole reply: bytes go as plain text unless `content_type` is given, anything else as JSON.

    Underscores in the names of `headers` stand for dashes; `more` are lines as they are, also the same again.
    """
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    media = "text/plain" if isinstance(body, bytes) else "application/json"
    named = {"content_type": media, "content_length": str(len(content))} | headers
    lines = [*((name.replace("_", "-"), value) for name, value in named.items()), *more]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + content


def kinds_of_floods() -> dict[str, bytes]:
    """Pieces of event streams which, sent over and over, are streams without an end, by what they are made of."""
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
    return {
        "newlines": b"\n",
        "returns": b"\r",
        "both": b"\r\n",
        "comments": b":\n",
        "heartbeats": b": ping\n\n",
        "ids": b"id: 1\n\n",
        "unknown fields": b"x\n",
        "empty events": b"data\n\n",
        "small events": b"data: {}\n\n",
        "progress": b"event: message\ndata: %b\n\n" % progress,
        "changes": b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n',
        "questions": b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n',
        "one event of many lines": b"data: x\n",
        "one line": b"x" * 1000,
        "one comment": b":" * 1000,
        "events that are too large": b"data: %b\n\n" % (b"x" * 70_000),
    }
