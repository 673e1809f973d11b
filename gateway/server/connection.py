"""One connection: uvicorn's httptools protocol with every size and every wait bounded (RFC 9112).

Every step forward clears `deadline`; `sweeper.py` sets the next one. Refusals wait for the answers of the requests
before them, so pipelining stays in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from enum import Enum, auto
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGIVersions
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.memory import ARRIVING
from gateway.pacing import FRAMING_PER_BYTE, MAX_PIECES, NOTHING, SLICE_BYTES, SlicedInput
from gateway.server.exchange import Exchange
from gateway.server.head import Refused, check_fields, head_size, refusal, split_target
from gateway.server.listener import Listener
from gateway.server.options import (
    COUNTED_AHEAD_BYTES,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
    MAX_UNREAD_BYTES,
    MIN_PROGRESS_BYTES,
    SPARE_CONNECTIONS,
    UNREAD_BYTES,
)
from gateway.server.upgrade import body_parser

log = logging.getLogger("gateway.server")

FRAMING_AND_BODY = 1 + FRAMING_PER_BYTE  # bytes that may be read for one of a body
ALWAYS = ("/health", "/metrics")  # answered even when there is no room: they are small, and tell of it
BLANKS = b" \t"  # around a value, part of no value (RFC 9112, section 5.1); llhttp leaves those behind it
ASGI: ASGIVersions = {"version": "3.0", "spec_version": "2.3"}


class Reading(Enum):
    """What the next byte from the caller would be."""

    IDLE = auto()  # the first of a request
    HEAD = auto()
    BODY = auto()
    DEAF = auto()  # nothing: this connection takes no more requests


# Reading a member off its class costs half a microsecond in Python 3.11, ten times as much as a global.
IDLE, HEAD, BODY, DEAF = Reading


class Connection(SlicedInput, HttpToolsProtocol):
    """One caller's connection."""

    cycle: Exchange  # type: ignore[assignment] # it does what uvicorn's own does, in its own way

    def __init__(self, listener: Listener) -> None:
        SlicedInput.__init__(self)
        HttpToolsProtocol.__init__(self, listener.config, listener, {})
        self.listener = listener
        self.options = listener.options
        self.max_head_bytes = listener.options.max_head_bytes
        self.reading = IDLE
        self.unread_bytes = 0  # of the head so far; then, of what is not body, less what the body allows
        self.is_uncounted = False  # the head began in the middle of a read
        self.dropped_bytes = 0  # of a body that came after its answer
        self.deadline: float | None = None
        self.progress: tuple[float, int] | None = None  # when the answer began to wait, and how much of it
        self.running: Exchange | None = None
        self.queued: deque[Exchange] = deque()  # read, and to be answered after it
        self.refusal: bytes | None = None
        self.served = False  # it has had an answer
        self.memory = listener.memory
        self.is_tls = False
        self.unsent = 0
        self.unread = 0  # bytes of an answer that are counted in memory
        self.unread_of = ""
        self.slow_since, self.left = 0.0, 0  # when MIN_PROGRESS_BYTES were last taken, and what was left then
        self.is_late = False

    # The life of the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admits the caller, or says 503: a silent close would look like a crash to a load balancer."""
        if self.listener.is_late:
            self.is_late, self.connections = True, self.listener.late  # type: ignore[assignment]
        crowd = len(self.connections)
        super().connection_made(transport)
        self.is_tls = self.scheme == "https"
        transport.set_write_buffer_limits(high=UNREAD_BYTES, low=0)
        if crowd >= self.listener.max_connections + SPARE_CONNECTIONS:
            transport.abort()
        elif crowd >= self.listener.max_connections:
            self._close_after(self._refusal(Refused(503, "Too many connections.")))
        elif not self.listener.admits(transport):  # the certificates were replaced in the middle of its handshake
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the running application, forgets the rest."""
        self.connections.discard(self)
        for exchange in (self.running, self.cycle):
            if exchange is not None and not exchange.response_complete:
                exchange.fail()
        for exchange in self.queued:
            self.forget_body(exchange)
        self.queued.clear()
        self.unparsed = NOTHING
        self._forget_unread()
        self.memory.leave(self)
        self.flow.resume_writing()
        # Both hold our bound methods: without these cycles everything is freed at once.
        self.parser = self.cycle = self.running = None  # type: ignore[assignment]
        self.listener.note_if_empty()

    def shutdown(self) -> None:
        """Ends an idle connection now, any other after the answers it owes."""
        if self.running is not None:
            self.cycle.keep_alive = False
        elif self.reading is not HEAD:
            self.transport.close()

    def dismiss(self) -> None:
        """As `shutdown`, but drops a request whose head is still arriving, too."""
        if self.running is None and self.reading is HEAD:
            self.transport.abort()
        else:
            self.shutdown()

    def cut_off(self) -> None:
        """Ends in the middle of whatever is under way, which is told that this was not its caller."""
        if self.running is not None:
            self.running.answered = 0
        self.transport.abort()

    def pause_writing(self) -> None:
        """The caller has an answer to read, which is counted in memory meanwhile."""
        super().pause_writing()
        if not self.unread:
            exchange = self.running
            self.unread = self.left = self._unread_now()
            self.unread_of = "" if exchange is None else self._holder(exchange)
            self.memory.take(self.unread_of, self.unread)
            self.slow_since = self.loop.time()
            self.listener.unread.add(self)

    def resume_writing(self) -> None:
        """The caller reads on."""
        super().resume_writing()
        self.progress = None
        self._forget_unread()

    def note_taken(self, now: float) -> None:
        """Looks how much its caller has taken."""
        left = self._unread_now()
        if self.left - left >= MIN_PROGRESS_BYTES:
            self.left, self.slow_since = left, now

    def drop_unread(self) -> None:
        """Ends the connection at once, and its answer with it."""
        self.transport.abort()
        self._forget_unread()

    def _unread_now(self) -> int:
        return self.transport.get_write_buffer_size() + self.unsent

    def _forget_unread(self) -> None:
        if self.unread:
            unread, self.unread = self.unread, 0
            self.listener.unread.discard(self)
            self.memory.give(self.unread_of, unread)

    # What the caller sends

    def data_received(self, data: bytes) -> None:
        """Parses what came, within the limits of a head."""
        if self.reading is DEAF:
            self.unparsed = NOTHING
            return
        if len(data) > SLICE_BYTES:
            self.slice_input(data)
            return
        if self.reading is IDLE:
            self.reading, self.deadline, self.unread_bytes = HEAD, None, 0
        self.unread_bytes += len(data)
        try:
            self.parser.feed_data(data)
            if self.unread_bytes > self.max_head_bytes and self.reading is not IDLE:
                what = "framing of the body" if self.reading is BODY else "head of the request"
                raise Refused(431, f"The {what} is too large.")
            if self.pieces > MAX_PIECES:
                self.queue_for_parsing(self.listener.parse_queue, self.transport)
        except httptools.HttpParserUpgrade as exc:
            self._decline_upgrade(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            self.refuse(_why(exc))
        except Refused as exc:
            self.refuse(exc)

    def go_on(self) -> None:
        """There is room in memory for more of a body."""
        self.is_held = False
        self.read_on()

    def read_on(self) -> None:
        self.parse_slices()
        if not (self.is_queued or self.is_held or self.flow.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def resume_flow(self) -> None:
        """Reads what the caller sends if it has sent too much before, unless parsing or memory has to wait."""
        if self.flow.read_paused:
            self.flow.resume_reading()
            if self.is_queued or self.is_held:
                self.transport.pause_reading()

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        if self.reading is not HEAD:  # a pipelined request, begun in the middle of a read
            self.reading, self.deadline, self.unread_bytes = HEAD, None, 0
            self.is_uncounted = True

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_TARGET_BYTES:
            raise Refused(414, "The request target is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.rstrip(BLANKS)))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if self.is_uncounted or self.unread_bytes > self.max_head_bytes:
            self.is_uncounted = False
            if head_size(self.url, self.headers) > self.max_head_bytes:
                raise Refused(431, "The head of the request is too large.")
        fields = check_fields(self.headers, version)
        path, query = split_target(self.url, fields.get(b"host"))
        method = self.parser.get_method().decode("ascii")
        if method == "CONNECT":
            raise Refused(501, "This server is not a proxy.")
        text = path.decode("ascii")
        if self.is_late and not self.listener.is_awaited(text):
            raise Refused(503, "The gateway is stopping.")
        if self.memory.refuses and not (text.endswith(ALWAYS) or self.listener.is_awaited(text)):
            raise Refused(503, "There is no memory left for answers.")
        self.scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "root_path": "",
            "method": method,
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "headers": self.headers,
        }
        self.headers = []  # trailers end up here, unread: the application has decided by the head
        expects = b"expect" in fields and version == "1.1" and fields[b"expect"].lower() == b"100-continue"
        reusable = version == "1.1" and not self.listener.is_retiring and self.parser.should_keep_alive()
        self._open(Exchange(self, self.scope, fields, expects, reusable))

    def on_body(self, body: bytes) -> None:
        size, exchange = len(body), self.cycle
        unread_bytes = self.unread_bytes - FRAMING_AND_BODY * size
        self.unread_bytes = unread_bytes if unread_bytes > 0 else 0
        self.pieces += 1
        if exchange.response_complete:
            self.dropped_bytes += size
            if self.dropped_bytes > MAX_UNREAD_BYTES:
                raise Refused(413, "The body was not wanted.")
            return
        exchange.received += size
        if exchange.received > exchange.allowed:
            self._count(exchange)
        if exchange.body:
            exchange.append(body)
            if len(exchange.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
        else:
            exchange.body = body
        if exchange.arrival is not None:
            exchange.arrival.set()

    def _count(self, exchange: Exchange) -> None:
        """Counts what has come of a body in memory. Raises Refused when there is no room for it."""
        memory, size = self.memory, exchange.received + COUNTED_AHEAD_BYTES
        is_result = self.listener.is_awaited(exchange.scope["path"])
        holder = ARRIVING if is_result else self._holder(exchange)
        if not is_result:
            if not memory.fits_share(holder, size - (exchange.counted if holder == exchange.counted_for else 0)):
                raise Refused(429, "Too much of what you send is held in memory.")
            if not memory.fits_bodies(size - exchange.counted):
                raise Refused(503, "There is no memory left for bodies.")
        memory.take(holder, size)
        if exchange.counted:
            memory.give(exchange.counted_for, exchange.counted)
        exchange.counted, exchange.counted_for, exchange.allowed = size, holder, size
        if is_result and memory.must_wait(self):  # nobody would bring it again
            self.is_held = True
            self.transport.pause_reading()

    def _holder(self, exchange: Exchange) -> str:
        return exchange.holder or self.listener.holder_of(exchange.scope)

    def forget_body(self, exchange: Exchange) -> None:
        """Counts the body no more."""
        counted, exchange.counted = exchange.counted, 0
        if counted:
            self.memory.leave(self)
            self.memory.give(exchange.counted_for, counted)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the parser only thinks so
        self._end_body()

    def _end_body(self) -> None:
        self.reading, self.deadline = IDLE, None
        exchange = self.cycle
        exchange.more_body = False
        if exchange.arrival is not None:
            exchange.arrival.set()

    # Answering

    def _open(self, exchange: Exchange) -> None:
        if self.running is not None:
            if len(self.queued) >= MAX_PIPELINED:
                raise Refused(503, "Too many requests at once on one connection.")
            self.flow.pause_reading()
            self.queued.append(exchange)
        self.reading, self.deadline, self.unread_bytes = BODY, None, 0
        self.cycle = exchange
        if self.running is None:
            self._run(exchange)

    def _run(self, exchange: Exchange) -> None:
        self.running = exchange
        exchange.task = self.loop.create_task(exchange.run_asgi(self.app))
        self.tasks.add(exchange.task)

    def on_response_complete(self) -> None:
        """Goes on to the next request, or ends the connection."""
        exchange, self.running = self.running, None
        if exchange is None or self.transport.is_closing():
            return
        self.served, self.deadline = True, None
        if self.flow.read_paused:
            self.resume_flow()
        body_pending = self.reading is BODY and self.cycle is exchange
        if not exchange.keep_alive:
            if body_pending:
                self._close_after(b"")
            else:
                self.transport.close()
        elif self.queued:
            self._run(self.queued.popleft())
        elif self.refusal is not None:
            self._close_after(self.refusal)
        elif body_pending:
            self.dropped_bytes = 0
            exchange.body = b""

    def refuse(self, why: Refused) -> None:
        """Takes no more requests, and says why once the answers before it are out."""
        log.debug("refused a request", extra={"status": why.status, "reason": why.message})
        broken = self.cycle if self.reading is BODY else None
        self.reading, self.deadline = DEAF, None
        if broken is not None and broken.response_complete:
            self._close_after(b"")
            return
        if broken is not None and broken is self.running:
            if broken.response_started and broken.held is None:
                self.transport.abort()  # half an answer is out already, a second one would be read as its rest
                return
            self.running = None
            if broken.fail(why.status):  # then the application notes it, not the listener
                self._close_after(refusal(why.status, why.message))
                return
        elif broken is not None:
            self.forget_body(self.queued.pop())
        words = self._refusal(why)
        if self.running is None:
            self._close_after(words)
        else:
            self.refusal = words

    def _refusal(self, why: Refused) -> bytes:
        """The answer to a request that the application does not get to see."""
        self.listener.refused(why.status, why.message, self.client)
        return refusal(why.status, why.message)

    def _close_after(self, words: bytes) -> None:
        """Writes the last words, and leaves the caller a moment to read them before the connection is closed.

        Closing with bytes of the caller unread makes the kernel send a reset, which can overtake the words.
        """
        self.reading, self.deadline = DEAF, None
        self.flow.resume_reading()
        self.transport.write(words)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half-closed state
            self.transport.close()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads on as if no other protocol had been offered; Java's client offers h2c with every POST."""
        self.cycle.keep_alive = False
        self.parser = body_parser(self.scope["headers"], self.on_body, self._end_body)
        if rest:
            self.data_received(rest)


def _why(error: httptools.HttpParserError) -> Refused:
    """What one of ours raised inside the parser, without its traceback: that leads to frames that lead to it again.

    Such a circle keeps the connection, and what it has read, in memory until the collector finds it.
    """
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause.with_traceback(None)
    return Refused(400, "The request is not valid HTTP/1.1.")
