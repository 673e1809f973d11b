"""One HTTP/1.1 connection (RFC 9112): writes a request, reads its reply, and decides whether it can be reused."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from math import inf
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gateway.net.client.errors import Kind, TransportError
from gateway.net.sliced_input import FRAMING_PER_BYTE, MAX_PIECES, NOTHING, SLICE_BYTES, ParseQueue, SlicedInput

Headers = tuple[tuple[bytes, bytes], ...]

# A final reply with neither of these fields ends with the connection (RFC 9112, 6.3).
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
CODINGS = frozenset((b"content-encoding", b"transfer-encoding"))


class ReplyReceiver:
    """A request whose reply is reported as it arrives; `on_end` or `on_error` is called once, at the end.

    `on_body` raises TransportError to refuse the rest. `is_head`: the reply announces a body and carries none.
    """

    __slots__ = ("is_head",)

    is_head: bool

    def on_head(self, status: int, headers: Headers) -> None:
        raise NotImplementedError

    def on_body(self, chunk: bytes) -> None:
        raise NotImplementedError

    def on_end(self) -> None:
        raise NotImplementedError

    def on_error(self, error: TransportError) -> None:
        raise NotImplementedError


class _UnaskedError(Exception):
    """Stops the parser at bytes that follow a complete reply."""


class PooledConnection(SlicedInput, asyncio.Protocol):
    """A socket, its parser, and the exchange under way, if any.

    `release` is called when another request may be written, `discard` when the connection is closed.
    """

    _parser: HttpResponseParser  # from when the connection is made until it is closed

    def __init__(
        self,
        head_bytes: int,
        parse_queue: ParseQueue,
        release: Callable[[PooledConnection], None],
        discard: Callable[[PooledConnection], None],
    ) -> None:
        super().__init__()
        self.fresh = True  # until the first exchange is over
        self.deadline = inf  # of the exchange, in the loop's time; without one, when it has been idle for too long
        self.is_coded = False  # the reply names a content coding
        self._head_bytes = head_bytes
        self._parse_queue = parse_queue
        self._release = release
        self._discard = discard
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._exchange: ReplyReceiver | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._framing = 0  # bytes of the reply that are not body, less what its body allows
        self._loss: TransportError | None = None  # the socket is closed, but something is left to parse
        self._head_done = self._is_over = self._keep = self._has_eof = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._transport is None or self._transport.is_closing()

    def is_quiet(self) -> bool:
        """Whether a request may be written: the connection is open, and no byte has arrived since the last reply.

        The event loop reads sockets once per turn, so an unrequested reply, or the end of the stream, may wait in the
        kernel. One system call finds it before a request is written, whose reply it would be taken for.
        """
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._poll.poll(0)

    def start(self, exchange: ReplyReceiver, data: bytes, deadline: float = inf) -> None:
        """Writes a request in one piece. From here on it counts as sent."""
        transport = self._transport
        assert self._exchange is None  # else the replies of two requests would mix
        assert transport is not None  # the pool hands out connections that have been made
        self._exchange = exchange
        self.deadline = deadline
        self._head_done = self._is_over = False
        self._framing = self.pieces = 0
        transport.write(data)

    def hand_over(self, exchange: ReplyReceiver) -> None:
        """Reports the rest of the reply under way to another exchange."""
        self._exchange = exchange

    def pause_reading(self) -> None:
        """Leaves further bytes to the kernel, and so slows the server down."""
        self.is_held = True
        if not self.is_closed:
            self._transport.pause_reading()  # type: ignore[union-attr]

    def resume_reading(self) -> None:
        """Undoes `pause_reading`."""
        if not self.is_held:
            return
        self.is_held = False
        if self._exchange is None:  # it has just ended, while `parse_slices` runs
            self._resume_socket()
        else:
            self.read_on()

    def abandon(self, exchange: ReplyReceiver) -> None:
        """Drops the connection if that exchange is still under way. Reports nothing to the exchange."""
        if self._exchange is exchange:
            self._exchange = None
            self.drop()
            if self._loss is not None:
                self._end(self._loss)

    def expire(self, now: float) -> float:
        """Closes the connection if its deadline has passed. Returns its deadline, infinity if it is closed."""
        if now < self.deadline:
            return self.deadline
        self.fail(TransportError(Kind.TIMEOUT, "The server did not answer in time.", sent=True))
        return inf

    def fail(self, error: TransportError) -> None:
        """Drops the connection; an exchange under way ends with `error`."""
        exchange, self._exchange = self._exchange, None
        self.drop()
        if exchange is not None:
            exchange.on_error(error)

    def drop(self) -> None:
        """Closes the socket at once and frees the slot in the pool. A second call does nothing."""
        if self._transport is not None:
            # Not close(): it waits for the peer when there is TLS or unwritten data.
            self._transport.abort()
        self._discard(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)
        # RFC 9112, section 7.1.1, allows blanks there, and some servers pad sizes with them.
        self._parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            self.unparsed = NOTHING
            self.drop()
            return
        if len(data) > SLICE_BYTES:
            self.slice_input(data)
            return
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as exc:
            self._stopped(exc)
        if self._is_over:
            self._finish()
        elif self._framing > self._head_bytes:
            self.fail(self._framing_too_large())
        else:
            if self._framing < 0:  # unused allowance is not saved: a stream may last for days
                self._framing = 0
            if self.pieces > MAX_PIECES and self._transport is not None:
                self.queue_for_parsing(self._parse_queue, self._transport)

    def read_on(self) -> None:
        """Parses what was read before; then reports what ended meanwhile, or reads on."""
        self.parse_slices()
        if not self.unparsed:
            if self._has_eof:
                self.eof_received()
            if self._loss is not None:
                self._end(self._loss)
        self._resume_socket()

    def _resume_socket(self) -> None:
        if not (self.is_queued or self.is_held or self.is_closed):
            self._transport.resume_reading()  # type: ignore[union-attr]

    def eof_received(self) -> None:
        """Ends a reply that has no other end. Not in `connection_lost`: a reset does not prove completeness."""
        if self.unparsed:  # TLS reports the end even while reading is paused
            self._has_eof = True
        elif self._exchange is not None and self._head_done and FRAMING.isdisjoint(name for name, _ in self._headers):
            self._keep = False
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        when = "in the middle of its reply" if self._framing or self._head_done else "without a reply"
        error = TransportError(Kind.CLOSED, f"The server closed the connection {when}.", sent=True)
        error.__cause__ = exc
        if self._exchange is None or not self.unparsed:
            self._end(error)
        else:
            self._loss = error

    def _end(self, error: TransportError) -> None:
        """Ends what is under way. Without the parser, which refers back to this connection, all is freed at once."""
        self.fail(error)
        self._parser = self._transport = self._loss = None  # type: ignore[assignment]
        self.unparsed = NOTHING

    # Called by the parser, inside feed_data. An exception stops it.

    def on_message_begin(self) -> None:
        if self._is_over:
            raise _UnaskedError
        self._headers, self.is_coded = [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header. Trailers come here, too, and are dropped: `on_head` has been called by then."""
        name = name.lower()
        if name in CODINGS:
            self._take_coding(name, value)
        self._headers.append((name, value.rstrip(b" \t")))

    def _take_coding(self, name: bytes, value: bytes) -> None:
        if name == b"content-encoding":
            self.is_coded = True
        # No other coding was asked for, and llhttp would take everything until the end of the connection for the body.
        # It does so with a tab behind the word, too, which RFC 9110 (5.5) allows: that is refused rather than misread.
        # So is `chunked` given twice, which means a body that is chunked twice.
        elif value.rstrip(b" ").lower() != b"chunked" or name in dict(self._headers):
            raise TransportError(Kind.PROTOCOL, "The reply has a transfer coding that was not asked for.", sent=True)

    def on_headers_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or self._is_over:
            raise _UnaskedError
        status = self._status = self._parser.get_status_code()
        if status < 200:
            if status < 100 or status == 101:
                raise TransportError(Kind.PROTOCOL, "The server switched protocols without being asked.", sent=True)
            return  # 100 Continue, 103 Early Hints: the final reply follows (RFC 9110, 15.2)
        # The cheap comparison first: only if it is true, the head can be too large.
        limit = self._head_bytes
        if self._framing > limit and sum(len(name) + len(value) + 4 for name, value in self._headers) > limit:
            raise self._framing_too_large()
        self._head_done = True
        exchange.on_head(status, tuple(self._headers))
        if exchange.is_head:
            # llhttp cannot know that no body follows, so its state is useless for another reply.
            self._is_over, self._keep = True, False

    def on_body(self, chunk: bytes) -> None:
        if self._exchange is None or self._is_over:
            raise _UnaskedError
        self._framing -= (1 + FRAMING_PER_BYTE) * len(chunk)
        self.pieces += 1
        self._exchange.on_body(chunk)

    def on_message_complete(self) -> None:
        if self._head_done and not self._is_over:
            self._is_over = True
            # After a 500, uvicorn closes the connection without announcing it if its application raised: the next
            # request would be written before that is seen, and lost.
            self._keep = self._parser.should_keep_alive() and self._status != 500

    # How an exchange ends.

    def _finish(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        # A reply that overtakes its request (413, say) leaves a connection with the rest of that request.
        transport = self._transport
        assert transport is not None  # it was written to
        unwritten = transport.get_write_buffer_size()
        exchange.on_end()
        self.fresh = False
        if self._keep and not unwritten and not self.unparsed:  # bytes behind a reply belong to no request
            self._release(self)
        else:
            self.drop()

    def _stopped(self, exc: Exception) -> None:
        """The parser has stopped. After a complete reply, that closes the connection and nothing else."""
        if self._is_over:
            self._keep = False
            return
        error = exc.__context__  # what a callback raised: httptools chains it
        if not isinstance(error, TransportError):
            error = TransportError(Kind.PROTOCOL, f"The reply is not HTTP/1.1: {exc}.", sent=True)
        self.fail(error.with_traceback(None))  # its frames hold what was read

    def _framing_too_large(self) -> TransportError:
        what = "The reply is mostly framing, such as chunk extensions."
        if not self._head_done:
            what = f"The head of the reply passes {self._head_bytes} bytes."
        return TransportError(Kind.TOO_LARGE, what, sent=True)
