"""A scripted tool server on two local ports, which answers as a scenario says, and records every request.

The client is given the URL of one port. The other port is another origin, which may receive nothing of the client's
unless the client goes there on purpose.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from time import monotonic
from typing import Any
from urllib.parse import unquote

import httptools
from msgspec import Struct

from toolgate_conformance.checks import SECRET_HEADERS, shown

HOST = "127.0.0.1"
MAX_REQUESTS = 500  # that are kept of one scenario
MAX_BODY_BYTES = 16 * 1024 * 1024
READ_S = 20.0  # for one request to come in
PIECE_BYTES = 64 * 1024
UPGRADE = re.compile(rb"\r\n(?:upgrade|connection):[^\r]*(?=\r\n)", re.IGNORECASE)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Request(Struct, frozen=True):
    """A request; header names are in lower case, `path` has no query."""

    at_s: float
    is_elsewhere: bool  # whether it came to the other origin
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def content_type(self) -> str:
        """In lower case, without parameters; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def document(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def text(self) -> str:
        """All of it, except credentials."""
        line = f"{self.method} {self.target}" + (" (to another origin)" if self.is_elsewhere else "")
        return _text(line, self.headers, self.body)

    def has(self, secret: str) -> bool:
        """Whether something secret is in it, anywhere."""
        return secret in self.target or secret in str(self.headers) or secret.encode() in self.body


class Reply(Struct, frozen=True):
    """An answer, sent `after_s` seconds later. `is_cut`: half of the body is lost; `is_reset`: all of the answer is.

    `chunks`, if there are any, are the body: each is sent as it comes.
    """

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""
    after_s: float = 0.0
    is_reset: bool = False
    is_cut: bool = False
    chunks: AsyncGenerator[bytes, None] | None = None

    @property
    def text(self) -> str:
        if self.is_reset:
            return "(the connection is reset)"
        if self.is_cut:
            return f"(half of this)\n{_text(self.line, self.headers, self.body)}"
        return _text(self.line, self.headers, self.body)

    @property
    def line(self) -> str:
        """The status line."""
        return f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"

    @property
    def wire(self) -> bytes:
        """The bytes that are sent, without chunks; each connection serves one request."""
        is_whole = self.chunks is None
        length = {"content-length": str(len(self.body))} if is_whole else {"transfer-encoding": "chunked"}
        fields = {**self.headers, **length, "connection": "close"}
        lines = [self.line, *(f"{name}: {value}" for name, value in fields.items())]
        sent = self.body[: len(self.body) // 2] if self.is_cut else self.body
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + sent


Answering = Callable[[Request], Reply]


class ScriptedServer:
    """Serves both ports, from `start` to `aclose`."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []  # to each of them, in the same order
        self.url = self.elsewhere_url = ""
        self._answering: Answering = lambda request: Reply(404)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, answering: Answering) -> None:
        self._answering = answering
        self.url = await self._listen(is_elsewhere=False)
        self.elsewhere_url = await self._listen(is_elsewhere=True)

    async def aclose(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, *, is_elsewhere: bool) -> str:
        """The URL of a new port."""

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(reader, writer, is_elsewhere=is_elsewhere))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(connected, HOST, 0)
        self._servers.append(server)
        return f"http://{HOST}:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_elsewhere: bool) -> None:
        try:
            async with asyncio.timeout(READ_S):
                request = await _read(reader, writer, is_elsewhere=is_elsewhere)
            if request is not None:
                await self._reply(request, writer)
        except (OSError, TimeoutError):
            pass  # the client has gone, or says no more
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _reply(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if len(self.requests) >= MAX_REQUESTS:
            return
        reply = self._answering(request)
        self.requests.append(request)
        self.replies.append(reply)
        await asyncio.sleep(reply.after_s)
        if reply.is_reset:
            # To close a socket that lingers for no time sends RST rather than FIN (socket(7), SO_LINGER).
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        writer.write(reply.wire)
        await writer.drain()
        if reply.chunks is not None:
            await _write_chunks(reply.chunks, writer)


class _Parts:
    """What the parser of HTTP reports of one request."""

    def __init__(self) -> None:
        self.target = ""
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_whole = False

    def on_url(self, url: bytes) -> None:
        self.target += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


async def _write_chunks(chunks: AsyncGenerator[bytes, None], writer: asyncio.StreamWriter) -> None:
    """Writes a body of unknown length (RFC 9112, section 7.1)."""
    async with aclosing(chunks):
        async for chunk in chunks:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_elsewhere: bool) -> Request | None:
    """Reads one request; None where there is none that HTTP knows, or one that is too long."""
    parts = _Parts()
    parser = httptools.HttpRequestParser(parts)
    try:
        # Some clients offer HTTP/2 with an upgrade (that of Java does); the parser would leave out their body.
        parser.feed_data(UPGRADE.sub(b"", await reader.readuntil(b"\r\n\r\n")))
        if parts.headers.get("expect", "").lower() == "100-continue":
            writer.write(CONTINUE)
        while not parts.is_whole:
            piece = await reader.read(PIECE_BYTES)
            if not piece or len(parts.body) > MAX_BODY_BYTES:
                return None
            parser.feed_data(piece)
    except (httptools.HttpParserError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    method = parser.get_method().decode("latin-1")
    return Request(monotonic(), is_elsewhere, method, parts.target, parts.headers, bytes(parts.body))


def _text(line: str, headers: Mapping[str, str], body: bytes) -> str:
    fields = [f"{name}: {'***' if name in SECRET_HEADERS else value}" for name, value in headers.items()]
    return shown("\n".join([line, *fields, "", body.decode("utf-8", "backslashreplace")]).rstrip())
