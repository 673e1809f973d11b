"""A request's reply: complete, and while it arrives over a connection."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from msgspec import Struct

from gateway.memory import ARRIVING, BodyMemory
from gateway.transport.errors import Kind, TransportError

UNCOUNTED_BYTES = 64 * 1024  # a body grows by so much before its share of the memory is counted again

Headers = tuple[tuple[bytes, bytes], ...]


class Head(Struct, frozen=True):
    """What comes before a body. Header names are lower case; the order and repetitions are the server's."""

    status: int
    headers: Headers

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Reply(Head, frozen=True):
    """A complete reply."""

    body: bytes


class Source(Protocol):
    """The connection, as the reply that arrives over it sees it."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abandon(self, exchange: Exchange) -> None: ...


class Exchange(Protocol):
    """What a connection reports a reply to. It calls exactly one of `on_end` and `on_error`, once, as the last."""

    is_head: bool  # replies to HEAD announce a body and carry none

    def on_head(self, status: int, headers: Headers) -> None: ...

    def on_body(self, chunk: bytes) -> None:
        """May raise TransportError to refuse the rest."""
        ...

    def on_end(self) -> None: ...

    def on_error(self, error: TransportError) -> None: ...


class Incoming:
    """A body while it arrives: its bytes, its limit, and what it takes of the memory for bodies.

    While that memory is full, the connection is not read.
    """

    __slots__ = ("_body", "_connection", "_counted", "_max_body", "_memory", "is_head")

    def __init__(self, connection: Source, method: bytes, max_body: float, memory: BodyMemory | None = None) -> None:
        self.is_head = method == b"HEAD"
        self._connection = connection
        self._max_body = max_body
        self._memory = memory
        self._body: bytes | bytearray = b""
        self._counted = 0

    def on_body(self, chunk: bytes) -> None:
        # Most replies come in one piece. Others are put together at once: a piece of a few bytes costs 40 apart.
        if not self._body:
            self._body = chunk
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += chunk
        if len(self._body) > self._counted + UNCOUNTED_BYTES:
            self._count()
        elif len(self._body) > self._max_body:
            raise self._too_large()

    def go_on(self) -> None:
        """There is room in memory again."""
        self._connection.resume_reading()

    def release(self) -> None:
        """Gives the memory back: the body is whole, taken, or not wanted."""
        if self._counted and self._memory is not None:
            counted, self._counted = self._counted, 0
            self._memory.leave(self)
            self._memory.give(ARRIVING, counted)

    def _count(self) -> None:
        size = len(self._body)
        if size > self._max_body:
            raise self._too_large()
        if self._memory is not None:
            self._memory.take(ARRIVING, size - self._counted)
            self._counted = size
            if self._must_wait():
                self._connection.pause_reading()

    def _must_wait(self) -> bool:
        """Whether there is no room for more; then `go_on` is called when there is."""
        return self._counted > 0 and self._memory is not None and self._memory.must_wait(self)

    def _too_large(self) -> TransportError:
        return TransportError(Kind.TOO_LARGE, f"The reply is larger than {self._max_body} bytes.", sent=True)


class WholeReply(Incoming):
    """A reply that its caller gets in one piece, through a future."""

    __slots__ = ("_headers", "_status", "reply")

    # Set by the pool: a constructor that calls the other one would cost each request 2 % more.
    reply: Future[Reply]

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._headers = headers

    def on_end(self) -> None:
        if self._counted:
            self.release()
            self._connection.resume_reading()  # it may have been paused by the last bytes of this reply
        if not self.reply.done():
            self.reply.set_result(Reply(self._status, self._headers, bytes(self._body)))

    def on_error(self, error: TransportError) -> None:
        self.release()
        if not self.reply.done():
            self.reply.set_exception(error)
