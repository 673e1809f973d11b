"""A server that does to each connection exactly what a test says, and the short ways to call it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from gateway.net.client import Limits, Origin, Pool, Reply, TransportError
from gateway.net.client.connection import PooledConnection
from tests.streams import accepting

DEADLINE_S = 5.0  # no test waits longer for anything within this process
ELSEWHERE_S = 20.0  # or for what another process brings about, on a busy machine

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """The server's end of one connection; `number` counts from 0."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = server.connections
        self._server = server
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """Reads one request, framed by Content-Length or chunks, and returns it as it came."""
        raw = await self._reader.readuntil(b"\r\n\r\n")
        head = raw.lower()
        if b"transfer-encoding: chunked" in head:
            while not raw.endswith(b"0\r\n\r\n"):
                raw += await self._reader.readuntil(b"\r\n")
        elif b"content-length: " in head:
            raw += await self._reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        self._server.requests.append(raw)
        return raw

    async def send(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()

    async def until_closed(self) -> bytes:
        """Reads until the other side closes; returns what came."""
        with contextlib.suppress(ConnectionError):
            return await self._reader.read()
        return b""

    async def wait_for_input(self) -> None:
        """Reads one byte, so that something has come and, mostly, something is left."""
        await self._reader.readexactly(1)
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def stay(self) -> None:
        """Does nothing until the test is over."""
        await asyncio.get_running_loop().create_future()

    def reset(self) -> None:
        """Breaks the connection off with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def cut(self) -> None:
        """Ends the TCP stream under TLS, so that no close_notify is sent."""
        sock = socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno()))
        with sock:
            sock.shutdown(socket.SHUT_RDWR)

    @property
    def unsent(self) -> int:
        """How many bytes wait here because the other side does not read."""
        return self._writer.transport.get_write_buffer_size()


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """What a scripted server has seen."""

    def __init__(self, port: int, scheme: str, host: str) -> None:
        self.connections = 0
        self.open = 0
        self.requests: list[bytes] = []
        self.origin = Origin(scheme, host, port)

    @property
    def url(self) -> str:
        return str(self.origin)


@contextlib.asynccontextmanager
async def serving(
    script: Script, *, host: str = "127.0.0.1", ssl_context: ssl.SSLContext | None = None, name: str | None = None
) -> AsyncIterator[Server]:
    """Runs `script` once per connection and closes the connection after it."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(server, reader, writer)
        server.connections += 1
        server.open += 1
        try:
            await script(peer)
        finally:
            server.open -= 1

    async with accepting(converse, host=host, ssl=ssl_context, limit=2**21) as port:
        server = Server(port, "http" if ssl_context is None else "https", name or host)
        yield server


@contextlib.asynccontextmanager
async def pooled(
    server: Server, limits: Limits | None = None, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[Pool]:
    """A pool to that server; at the end its books must balance."""
    pool = Pool(server.origin, limits, ssl_context)
    try:
        yield pool
        assert_balanced(pool)
    finally:
        await pool.aclose()
    assert stats_of(pool) == Stats(0, 0, 0, 0)


class Stats(NamedTuple):
    """Connections being opened, open, open and unused; callers without one."""

    connecting: int
    live: int
    idle: int
    waiting: int

    @property
    def slots(self) -> int:
        """How many connections count against the limit."""
        return self.connecting + self.live

    @property
    def is_unused(self) -> bool:
        """Whether no caller has, opens or waits for a connection."""
        return self.live == self.idle and not self.connecting and not self.waiting


def stats_of(pool: Pool) -> Stats:
    return Stats(len(pool._connecting), len(pool._live), len(pool._idle), len(pool._waiters))


def assert_balanced(pool: Pool) -> None:
    stats = stats_of(pool)
    assert stats.slots <= pool.limits.connections, stats


async def call(
    pool: Pool,
    target: bytes = b"/",
    body: bytes = b"",
    *,
    method: bytes = b"POST",
    timeout_s: float = DEADLINE_S,
    max_body: int = 2**20,
) -> Reply:
    return await pool.request(method, target, (), body, timeout_s=timeout_s, max_body=max_body)


async def acquire(pool: Pool) -> PooledConnection:
    """Takes a connection as a call does; a test has to start an exchange on it, or to give it back."""
    connection = pool._take_idle() or await pool._wait_for_connection(DEADLINE_S)
    connection.deadline = math.inf
    return connection


async def failure(calling: Awaitable[Any]) -> TransportError:
    """Awaits a call that must fail."""
    with pytest.raises(TransportError) as caught:
        await calling
    return caught.value


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that the other side brings about."""
    give_up = time.monotonic() + ELSEWHERE_S
    while not condition():
        assert time.monotonic() < give_up, "the condition never came true"
        await asyncio.sleep(0.001)


def answering(*replies: bytes) -> Script:
    """Answers the requests of each connection with these, then keeps quiet until the other side closes."""

    async def script(peer: Peer) -> None:
        for reply in replies:
            await peer.request()
            await peer.send(reply)
        await peer.until_closed()

    return script


def then(script: Script) -> Script:
    """Answers a first request, which opens the connection however slow the machine is, and goes on with `script`."""

    async def both(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await script(peer)

    return both


async def echo_target(peer: Peer) -> None:
    """Answers each request with its own target, so that a reply tells whose it is."""
    while True:
        target = (await peer.request()).split(b" ")[1]
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))


async def listening(peer: Peer) -> None:
    """Reads one request and says nothing until the other side closes."""
    await peer.request()
    await peer.until_closed()


class Gate:
    """A server whose replies wait until the test lets them go, one by one or all."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self._tickets = asyncio.Semaphore(0)

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            self._tickets.release()

    async def script(self, peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1]
            self.waiting.append(target)
            await self._tickets.acquire()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))


def start(pool: Pool, target: bytes) -> asyncio.Task[bytes]:
    async def body() -> bytes:
        return (await call(pool, target)).body

    return asyncio.create_task(body())
