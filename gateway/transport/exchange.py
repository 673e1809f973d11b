"""One request and its reply, as a connection sees them: who is told what when parts of the reply arrive."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from typing import Protocol

from msgspec import Struct

from gateway.memory import ARRIVING, BodyMemory
from gateway.transport.errors import Kind, TransportError

UNCOUNTED_BYTES = 64 * 1024  # what a body grows by before it is counted again

Headers = tuple[tuple[bytes, bytes], ...]


class Reply(Struct, frozen=True):
    """A complete reply. Header names are lower case; the order and repetitions are the server's."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Paused(Protocol):
    """The connection, for an exchange that may have to wait."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Exchange(Protocol):
    """Whoever waits for a reply. Exactly one of `on_end` and `on_error` is called, once, and nothing after it."""

    is_head: bool  # replies to HEAD announce a body and carry none

    def on_head(self, status: int, headers: Headers) -> None: ...

    def on_body(self, chunk: bytes) -> None:
        """May raise TransportError to refuse the rest."""
        ...

    def on_end(self) -> None: ...

    def on_error(self, error: TransportError) -> None: ...


class WholeReply:
    """An exchange whose reply is handed over in one piece, through a future.

    What it holds is counted in `memory`; while that is full, `connection` is not read.
    """

    __slots__ = ("_body", "_connection", "_counted", "_headers", "_max_body", "_memory", "_status", "is_head", "reply")

    def __init__(
        self,
        loop: AbstractEventLoop,
        method: bytes,
        max_body: int,
        connection: Paused | None = None,
        memory: BodyMemory | None = None,
    ) -> None:
        self.reply: Future[Reply] = loop.create_future()
        self.is_head = method == b"HEAD"
        self._max_body = max_body
        self._body: bytes | bytearray = b""
        self._connection = connection
        self._memory = memory
        self._counted = 0

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._headers = headers

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
        """There is room for more of it."""
        if self._connection is not None:
            self._connection.resume_reading()

    def _count(self) -> None:
        size = len(self._body)
        if size > self._max_body:
            raise self._too_large()
        if self._memory is not None and self._connection is not None:
            self._memory.take(ARRIVING, size - self._counted)
            self._counted = size
            if self._memory.must_wait(self):
                self._connection.pause_reading()

    def _let_go(self) -> None:
        if self._counted and self._memory is not None:
            counted, self._counted = self._counted, 0
            self._memory.leave(self)
            self._memory.give(ARRIVING, counted)

    def _too_large(self) -> TransportError:
        return TransportError(Kind.TOO_LARGE, f"The reply is larger than {self._max_body} bytes.", sent=True)

    def on_end(self) -> None:
        if self._counted:
            self._let_go()
            self.go_on()  # it may have ended with what came before its connection was paused
        if not self.reply.done():
            self.reply.set_result(Reply(self._status, self._headers, bytes(self._body)))

    def on_error(self, error: TransportError) -> None:
        self._let_go()
        if not self.reply.done():
            self.reply.set_exception(error)

    def on_leave(self) -> None:
        """Nobody waits for it any more."""
        self._let_go()
