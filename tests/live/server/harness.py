"""A real server on loopback, an application whose steps a test can see, and a caller that writes raw bytes."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.net.server import Addresses, Listener, ServerOptions, Service, run
from gateway.net.server.connection import Connection
from gateway.net.server.sweeper import check

DEADLINE_S = 20.0  # for anything a test waits for; an interpreter that starts is the longest, half a second alone
LONG_S = 1000.0  # longer than any timeout of these options

OPTIONS = ServerOptions(
    host="127.0.0.1",
    port=0,
    admin_host="127.0.0.1",
    admin_port=0,
    max_head_bytes=4096,
    max_connections=1000,
    head_timeout_s=DEADLINE_S,
    body_timeout_s=DEADLINE_S,
    idle_timeout_s=DEADLINE_S,
    shutdown_grace_s=DEADLINE_S,
)


def start(status: int, **headers: str) -> Message:
    """An ASGI message that starts an answer."""
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": fields}


def body(piece: bytes, more: bool = False) -> Message:
    """An ASGI message with a piece of an answer."""
    return {"type": "http.response.body", "body": piece, "more_body": more}


# What the application sends on some paths, without reading the request.
SCRIPTS: dict[str, list[Message]] = {
    "/early": [start(401), body(b"no")],
    "/fails": [],
    "/breaks-off": [start(200), body(b"half", more=True)],
    "/lies": [start(200, **{"content-length": "9"}), body(b"short")],
    "/splits": [start(200, x="a\r\nb: c"), body(b"")],
    "/no-content": [start(204, **{"content-length": "0"}), body(b"")],
    "/no-content-of-no-length": [start(204), body(b"")],
    "/streams": [start(200), body(b"one", more=True), body(b"two")],
    "/huge": [start(200), body(bytes(30_000_000))],
    "/large": [start(200), *[body(bytes(65536), more=True)] * 1000, body(b"")],
}


@dataclass
class Application:
    """Echoes what it was asked, or follows the script of the path."""

    seen: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        await self._note(self.seen, path)
        try:
            await self._answer(path, scope, receive, send)
        finally:
            await self._note(self.ended, path)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Waits until the application has come that far."""
        async with asyncio.timeout(DEADLINE_S), self.changed:
            await self.changed.wait_for(reached)

    async def _note(self, notes: list[str], path: str) -> None:
        async with self.changed:
            notes.append(path)
            self.changed.notify_all()

    async def _answer(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if path == "/hold":
            await self.gate.wait()
        if path == "/listens":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if path not in SCRIPTS:
            await echo(scope, receive, send)
            return
        for message in SCRIPTS[path]:
            await send(message)
        if path in ("/fails", "/breaks-off"):
            raise ValueError("on purpose")
        await receive()


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what was asked, once the whole body is there."""
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        content, more = content + message["body"], message["more_body"]
    asked = {key: scope[key] for key in ("method", "path", "http_version", "scheme")}
    asked["query"] = scope["query_string"].decode()
    asked["headers"] = [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]]
    await respond(send, 200, json.dumps({**asked, "body": content.decode("latin-1")}).encode())


async def respond(send: Send, status: int, content: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send(body(content))


async def admin_application(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, b'"admin"')


@asynccontextmanager
async def serving(application: ASGIApp, **changes: float) -> AsyncIterator[Addresses]:
    """Runs a server for the length of the block."""
    async with serving_with(application, replace(OPTIONS, **changes)) as addresses:  # type: ignore[arg-type]
        yield addresses


@asynccontextmanager
async def serving_with(
    application: ASGIApp, options: ServerOptions, listener: Listener | None = None, **hooks: Any
) -> AsyncIterator[Addresses]:
    """Runs a server with these options for the length of the block; `hooks` are members of its `Service`."""
    ready: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    service = Service(app=application, **hooks)
    server = asyncio.create_task(
        run(listener or Listener(options), service, admin_application, on_ready=ready.set_result)
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            addresses = await ready
        yield addresses
    finally:
        server.cancel()
        with suppress(asyncio.CancelledError):
            await server


@dataclass
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The `message` of an error."""
        assert self.headers["content-type"] == "application/json"
        message: str = json.loads(self.body)["message"]
        return message


class Wire:
    """A caller that sends exactly the bytes it is given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, method: str = "GET") -> Answer:
        """Reads one answer."""
        async with asyncio.timeout(DEADLINE_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:-2])
            body = b""
            if method != "HEAD" and "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline(), 16):
                    body += await self.reader.readexactly(size)
                    await self.reader.readexactly(2)
                await self.reader.readexactly(2)
        return Answer(int(lines[0].split()[1]), headers, body)

    async def rest(self) -> bytes:
        """Reads to the end of the connection."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read()

    async def is_cut(self) -> bool:
        """Waits for the connection to end, whichever way; whether nothing more came."""
        try:
            return await self.rest() == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def calling(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """Connects for the length of the block."""
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def request(path: str = "/", *lines: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Encodes a request; `lines` are further headers."""
    head = [f"{method} {path} HTTP/1.1", "Host: tools.test", *lines]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body


def chunked(*pieces: bytes) -> Iterator[bytes]:
    """Encodes the pieces of a chunked body, and its end."""
    for piece in (*pieces, b""):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)


def check_after(passed_s: float) -> None:
    """Checks all connections as the sweeper would in so many seconds, if nothing happened until then."""
    now = asyncio.get_running_loop().time()
    found = connections()
    assert found
    for connection in found:
        check(connection, now + passed_s)


def connections() -> list[Connection]:
    """Every connection of servers in this process."""
    return [thing for thing in gc.get_objects() if type(thing) is Connection]
