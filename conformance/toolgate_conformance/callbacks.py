"""Receives what tool servers post to callback URLs, and answers as a check wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from toolgate_conformance.checks import SECRET_HEADERS, shown

MAX_BODY_BYTES = 16 * 1024 * 1024  # of one callback: images come in base64
MAX_BYTES = 32 * 1024 * 1024  # of all callbacks of one call that are kept
MAX_CALLBACKS = 200  # of one call
MAX_CONNECTIONS = 500
BODY_S = 10.0  # in which a callback has to be there
QUERY = "kit=1&path=a%2Fb"  # as part of a URL that is opaque, and has to come back as it is

Reply = Callable[[int], Awaitable[int]]  # the status that the n-th callback of a call is answered with; n counts from 0


async def accept(_number: int) -> int:
    """The answer to every callback, unless a check wants another."""
    return 200


def statuses(*first: int) -> Reply:
    """Answers with some statuses first, and with 200 then."""

    async def reply(number: int) -> int:
        return first[number] if number < len(first) else 200

    return reply


class Callback(Struct, frozen=True):
    """What was posted; header names are in lower case, `came_s` is on the monotonic clock."""

    target: str  # path and query
    headers: Mapping[str, str]
    body: bytes
    came_s: float

    @property
    def document(self) -> dict[str, Any]:
        """The message in it; empty if there is none."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """The type of the message; empty if it has none."""
        found = self.document.get("type")
        return found if isinstance(found, str) else ""

    @property
    def written(self) -> str:
        """The request as a report shows it."""
        fields = [f"{name}: {'***' if name in SECRET_HEADERS else value}" for name, value in self.headers.items()]
        text = self.body.decode("utf-8", "backslashreplace")
        return shown("\n".join([f"POST {self.target}", *fields, "", text]).rstrip())


class Inbox:
    """The callbacks of one call, in the order in which they came.

    `url` is where tool servers post them, `target` the path and query that reach the receiver.
    """

    def __init__(self, url: str, target: str, reply: Reply) -> None:
        self.url = url
        self.target = target
        self.callbacks: list[Callback] = []
        self.answered: list[int] = []  # the statuses of those whose answer was sent
        self._reply = reply
        self._bytes = 0
        self._news = asyncio.Event()

    async def take(self, callback: Callback) -> int:
        """Keeps a callback; returns the status to answer with."""
        self._bytes += len(callback.body)
        if len(self.callbacks) >= MAX_CALLBACKS or self._bytes > MAX_BYTES:
            return 429
        number = len(self.callbacks)
        self.callbacks.append(callback)
        self._news.set()
        status = await self._reply(number)
        self.answered.append(status)
        return status

    def of(self, kind: str) -> list[Callback]:
        """Those with messages of a type."""
        return [each for each in self.callbacks if each.kind == kind]

    async def first(self, fits: Callable[[Callback], bool], within_s: float, *, after: int = 0) -> Callback | None:
        """The first callback that fits, once it is there; `after` so many others. None if it does not come in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    self._news.clear()
                    for each in self.callbacks[after:]:
                        if fits(each):
                            return each
                    await self._news.wait()
        return None


class Receiver:
    """An HTTP server with a path for each call; `base_url` may have a path, too, which a proxy strips."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._inboxes: dict[str, Inbox] = {}

    def open_inbox(self, reply: Reply = accept) -> Inbox:
        """An address for the callbacks of a call, which cannot be guessed."""
        path = f"/callback/{secrets.token_urlsafe(24)}"
        target = f"{path}?{QUERY}"
        inbox = self._inboxes[path] = Inbox(f"{self._base_url}{target}", target, reply)
        return inbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            await Response(status_code=await self._status(request))(scope, receive, send)

    async def _status(self, request: Request) -> int:
        """Takes a request; returns what it is answered with."""
        if request.method != "POST":
            return 405
        inbox = self._inboxes.get(request.url.path)
        if inbox is None:
            return 404
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for piece in request.stream():
                    body += piece
                    if len(body) > MAX_BODY_BYTES:
                        return 413
        except (TimeoutError, ClientDisconnect):
            return 408
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["raw_path"].decode("latin-1")
        target = f"{path}?{query}" if query else path
        return await inbox.take(Callback(target, dict(request.headers), bytes(body), time.monotonic()))


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of; `begun` is set once it listens, or cannot."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Address(Struct, frozen=True):
    """Where a receiver listens, and the URL that tool servers are told; without one, that of the address itself."""

    host: str = "127.0.0.1"
    port: int = 0  # any that is free
    url: str | None = None


@asynccontextmanager
async def receiving(address: Address | None = None) -> AsyncIterator[Receiver]:
    """Runs a receiver. Raises OSError if it cannot listen there."""
    address = address or Address()
    is_v6 = ":" in address.host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    listener = socket.create_server((address.host, address.port), family=family)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host = f"[{address.host}]" if is_v6 else address.host
    receiver = Receiver((address.url or f"http://{host}:{listener.getsockname()[1]}").rstrip("/"))
    config = uvicorn.Config(
        receiver,
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.begun.wait()  # uvicorn leaves its socket open if it is to exit before it has begun
    try:
        yield receiver
    finally:
        server.should_exit = server.force_exit = True  # nothing is worth waiting for
        await serving
        listener.close()
