"""The reply to a request while it arrives over a connection: read whole, or piece by piece as it comes."""

from __future__ import annotations

import asyncio
from math import inf
from typing import NoReturn

from msgspec import Struct

from gateway.net.body_memory import ARRIVING, BodyMemory
from gateway.net.client.codings import PIECE_BYTES, Inflater, coding_of, decoded, decoded_headers
from gateway.net.client.connection import Headers, PooledConnection, ReplyReceiver
from gateway.net.client.errors import Kind, TransportError

AHEAD_BYTES = 64 * 1024  # of a stream of events that may wait for its reader
UNCOUNTED_BYTES = 64 * 1024  # a body grows by so much before its share of the memory is counted again


class ReplyHead(Struct, frozen=True):
    """What comes before a body. Header names are lower case; the order and repetitions are the server's."""

    status: int
    headers: Headers

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Reply(ReplyHead, frozen=True):
    """A complete reply."""

    body: bytes


class CodedReply(Reply, frozen=True):
    """A complete reply whose body has to be decoded."""

    coding: bytes

    async def decode(self, max_body: int) -> Reply:
        """The reply with a plain body of at most `max_body` bytes. Raises TransportError."""
        return Reply(
            self.status, decoded_headers(self.headers), await decoded(Inflater(self.coding, max_body), self.body)
        )


def reply_of(status: int, headers: Headers, body: bytes, *, is_coded: bool) -> Reply:
    """A complete reply; in a coding that is not known here it stays as it is."""
    coding = coding_of(headers) if is_coded and body else None
    return Reply(status, headers, body) if coding is None else CodedReply(status, headers, body, coding)


class Incoming(ReplyReceiver):
    """A body while it arrives: its bytes, its limit, and what it takes of the memory for bodies.

    While that memory is full, the connection is not read.
    """

    __slots__ = ("_body", "_connection", "_counted", "_max_body", "_memory")

    def __init__(self, connection: PooledConnection, method: bytes, max_body: float, memory: BodyMemory | None) -> None:
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

    def resume(self) -> None:
        """Reads on: there is room in memory again."""
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
        """Whether there is no room for more; then `resume` is called when there is."""
        return self._counts() and self._memory is not None and self._memory.must_wait(self, self._counted)

    def _counts(self) -> bool:
        """Whether any of it counts as memory."""
        return self._counted > 0

    def _too_large(self) -> TransportError:
        return TransportError(Kind.TOO_LARGE, f"The reply is larger than {self._max_body} bytes.", sent=True)


class WholeReply(Incoming):
    """A reply that its caller gets in one piece, through a future."""

    __slots__ = ("_headers", "_status", "reply")

    # Set by the pool: a constructor that calls the other one would cost each request 2 % more.
    reply: asyncio.Future[Reply]

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._headers = headers

    def on_end(self) -> None:
        if not self.reply.done():
            whole = reply_of(self._status, self._headers, bytes(self._body), is_coded=self._connection.is_coded)
            self.reply.set_result(whole)
        if self._counted:
            self._body = b""
            # After its caller's turn, who counts it from there: else all that wait for room would go on now.
            self.reply.get_loop().call_soon(self.release)
            self._connection.resume_reading()  # it may have been paused by the last bytes of this reply

    def on_error(self, error: TransportError) -> None:
        self.release()
        self._body = b""  # the error leads back here: a collector finds the two together, which may take long
        if not self.reply.done():
            self.reply.set_exception(error)


class StreamedReply(Incoming):
    """A reply whose `head` has arrived; it is the async iterator of its body, in pieces as they come.

    The connection is not read while more than `ahead_bytes` wait for the reader. A server that sends nothing for
    `idle_s` while the reader waits ends the reply with TIMEOUT. What arrived before an error can be read before it.
    """

    head: ReplyHead

    def __init__(
        self,
        connection: PooledConnection,
        method: bytes,
        *,
        idle_s: float,
        max_body: int | None,
        ahead_bytes: int,
        memory: BodyMemory | None,
    ) -> None:
        super().__init__(connection, method, inf if max_body is None else max_body, memory)
        self._idle_s = idle_s
        self._ahead_bytes: float = ahead_bytes
        self._taken_bytes = 0
        self._kept_bytes = 0  # as far as they are counted
        self._has_head = self._is_over = False
        self._error: TransportError | None = None
        self._inflater: Inflater | None = None
        self._news: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all of it has arrived."""
        return self._is_over

    def __aiter__(self) -> StreamedReply:
        return self

    async def __anext__(self) -> bytes:
        """Waits for more of the body. Raises TransportError, which counts as sent."""
        inflater = self._inflater
        while inflater is None or not (piece := inflater.piece()):
            while not self._body:
                if self._is_over:
                    raise StopAsyncIteration
                await self._wait()
            arrived = self._take()
            if inflater is None:
                return arrived
            inflater.feed(arrived)
        if len(piece) == PIECE_BYTES:
            await asyncio.sleep(0)  # what took little on the wire may go on for long
        return piece

    async def read(self) -> Reply:
        """Waits for the rest of the body, and returns the reply with it. Raises TransportError as the iterator does."""
        self._ahead_bytes = inf
        if not self._is_over and not self._must_wait():
            self._connection.resume_reading()
        while not self._is_over:
            await self._wait()
        body = self._take()
        if self._inflater is not None:
            body = await decoded(self._inflater, body)
        return Reply(self.head.status, self.head.headers, body)

    async def wait_for_head(self) -> None:
        """Returns when status and headers have arrived; the pool calls this."""
        while not self._has_head:
            await self._wait()

    def keep(self, size: int) -> None:
        """Counts bytes that its reader has taken and still holds. No more is read while there is no room for them."""
        memory, more = self._memory, size - self._kept_bytes
        if memory is None or 0 <= more < UNCOUNTED_BYTES:
            return
        self._kept_bytes = size
        if more > 0:
            memory.take(ARRIVING, more)
            if memory.must_wait(self):
                self._connection.pause_reading()
        else:
            memory.give(ARRIVING, -more)
            if not self._counts():
                memory.leave(self)

    def check_deadline(self) -> None:
        """Raises TransportError if its time has passed, whatever can still be read of it."""
        if self._error is not None and self._error.kind is Kind.TIMEOUT:
            self._raise(self._error)

    def close(self) -> None:
        """Ends the exchange, which costs its connection unless the whole reply has arrived."""
        self._connection.abandon(self)
        self._body = b""
        self.keep(0)
        self.release()
        if not self._is_over:
            self.on_error(TransportError(Kind.CLOSED, "The reply was closed before its end.", sent=True))

    def _take(self) -> bytes:
        """Returns what has arrived, and reads on."""
        body, self._body = bytes(self._body), b""
        self._taken_bytes += len(body)
        self._max_body -= len(body)
        if not self._kept_bytes:
            self.release()
        elif self._counted and self._memory is not None:  # it goes on waiting where it stands
            counted, self._counted = self._counted, 0
            self._memory.give(ARRIVING, counted)
        if not self._is_over and not self._must_wait():
            self._connection.resume_reading()
        return body

    async def _wait(self) -> None:
        """Returns when something has arrived."""
        if self._error is not None:
            self._raise(self._error)
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        if self._idle_s == inf:
            return await self._news
        timer = loop.call_later(self._idle_s, self._give_up, self._news)
        try:
            await self._news
        finally:
            timer.cancel()

    @staticmethod
    def _raise(error: TransportError) -> NoReturn:
        """Raises another one: the frames of one that is raised lead back to this reply, which holds it."""
        raise TransportError(error.kind, str(error), sent=error.sent) from error

    def _give_up(self, news: asyncio.Future[None]) -> None:
        if not news.done():
            self._connection.abandon(self)
            message = f"The server sent nothing for {self._idle_s:g} s."
            self.on_error(TransportError(Kind.TIMEOUT, message, sent=True))

    def _counts(self) -> bool:
        return self._counted > 0 or self._kept_bytes > 0

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _too_large(self) -> TransportError:
        limit = int(self._max_body) + self._taken_bytes
        return TransportError(Kind.TOO_LARGE, f"The reply is larger than {limit} bytes.", sent=True)

    def on_head(self, status: int, headers: Headers) -> None:
        coding = coding_of(headers) if self._connection.is_coded else None
        if coding is not None:
            self._inflater, headers = Inflater(coding, self._max_body), decoded_headers(headers)
        self.head, self._has_head = ReplyHead(status, headers), True
        self._wake()

    def on_body(self, chunk: bytes) -> None:
        if len(self._body) + len(chunk) > self._max_body:
            raise self._too_large()  # before its reader can get it
        super().on_body(chunk)
        if len(self._body) > self._ahead_bytes:
            self._connection.pause_reading()
        self._wake()

    def on_end(self) -> None:
        self._is_over = True
        self._connection.resume_reading()  # for the next exchange: this one may have been paused by its last bytes
        self._arrive_no_more()

    def on_error(self, error: TransportError) -> None:
        self._error = error
        self._arrive_no_more()

    def resume(self) -> None:
        """Reads on: there is room in memory again."""
        if len(self._body) <= self._ahead_bytes:
            self._connection.resume_reading()

    def _arrive_no_more(self) -> None:
        if self._memory is not None:
            self._memory.leave(self)
        self._wake()


class ReplyOrEvents(WholeReply):
    """A reply that its caller gets in one piece, or a stream of events that it gets as a StreamedReply, to be closed.

    Of a stream, `max_body` is how much may wait for the reader.
    """

    reply: asyncio.Future[Reply | StreamedReply]  # type: ignore[assignment]
    _events: StreamedReply | None = None

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._headers = headers
        for name, value in headers:
            if name == b"content-type":
                if value != b"application/json" and value.lower().startswith(b"text/event-stream"):
                    self._stream(ReplyHead(status, headers))
                return

    def _stream(self, head: ReplyHead) -> None:
        """Gives the caller a stream, whose connection reports to that from now on."""
        events = self._events = StreamedReply(
            self._connection,
            b"POST",
            idle_s=inf,
            max_body=None,
            ahead_bytes=int(min(self._max_body, AHEAD_BYTES)),
            memory=self._memory,
        )
        self._connection.hand_over(events)
        events.on_head(head.status, head.headers)
        if not self.reply.done():
            self.reply.set_result(events)

    def release(self) -> None:
        super().release()
        if self._events is not None:  # its caller has gone before it was told
            self._events.close()
