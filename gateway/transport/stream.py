"""A reply that is read in parts, and comes in no faster than it is read."""

from __future__ import annotations

import asyncio

from gateway.transport.connection import Connection
from gateway.transport.errors import Kind, TransportError
from gateway.transport.exchange import Headers


class Stream:
    """An exchange whose reply is read in parts. The connection is not read while `ahead_bytes` wait for the reader."""

    def __init__(self, connection: Connection, *, is_head: bool, ahead_bytes: int, max_body: int | None) -> None:
        self.is_head = is_head
        self._connection = connection
        self._ahead_bytes = ahead_bytes
        self._max_body = max_body
        self._received = 0
        self._head: tuple[int, Headers] | None = None
        self._chunks: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._error: TransportError | None = None
        self._has_ended = False
        self._news: asyncio.Future[None] | None = None

    async def head(self, timeout_s: float | None) -> tuple[int, Headers]:
        """Waits for status and header fields."""
        while self._head is None:
            await self._wait(timeout_s)
        return self._head

    async def read(self, timeout_s: float | None) -> bytes:
        """Returns what has come of the body, after waiting for some; empty at its end."""
        while not self._chunks and not self._has_ended:
            await self._wait(timeout_s)
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._unread = 0
        self._resume()
        return data

    def close(self) -> None:
        """Breaks the exchange off unless it is over."""
        self._connection.abandon(self)
        self._chunks.clear()

    async def _wait(self, timeout_s: float | None) -> None:
        if self._error is not None:
            raise self._error
        self._news = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._news
        except TimeoutError:
            self._connection.time_out(self)

    # Called by the connection.

    def on_head(self, status: int, headers: Headers) -> None:
        self._head = status, headers
        self._wake()

    def on_body(self, chunk: bytes) -> None:
        self._received += len(chunk)
        if self._max_body is not None and self._received > self._max_body:
            raise TransportError(Kind.TOO_LARGE, f"The reply is larger than {self._max_body} bytes.", sent=True)
        self._chunks.append(chunk)
        self._unread += len(chunk)
        if self._unread > self._ahead_bytes and not self._is_paused:
            self._is_paused = True
            self._connection.pause_reading()
        self._wake()

    def on_end(self) -> None:
        self._has_ended = True
        self._resume()  # the next exchange on this connection reads again
        self._wake()

    def on_error(self, error: TransportError) -> None:
        self._error = error
        self._wake()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._connection.resume_reading()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
