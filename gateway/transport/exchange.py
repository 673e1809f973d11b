"""One request and its reply, as a connection sees them: who is told what when parts of the reply arrive."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from typing import Protocol

from msgspec import Struct

from gateway.transport.errors import Kind, TransportError

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
    """An exchange whose reply is handed over in one piece, through a future."""

    __slots__ = ("_body", "_headers", "_max_body", "_status", "is_head", "reply")

    def __init__(self, loop: AbstractEventLoop, method: bytes, max_body: int) -> None:
        self.reply: Future[Reply] = loop.create_future()
        self.is_head = method == b"HEAD"
        self._max_body = max_body
        self._body: bytes | bytearray = b""

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
        if len(self._body) > self._max_body:
            raise TransportError(Kind.TOO_LARGE, f"The reply is larger than {self._max_body} bytes.", sent=True)

    def on_end(self) -> None:
        if not self.reply.done():
            self.reply.set_result(Reply(self._status, self._headers, bytes(self._body)))

    def on_error(self, error: TransportError) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)
