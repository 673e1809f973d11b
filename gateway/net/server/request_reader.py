"""Reads the requests of one connection with httptools, which is llhttp, and every size bounded (RFC 9112)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from gateway.net.body_memory import ARRIVING
from gateway.net.server.channel import Channel
from gateway.net.server.exchange import Exchange
from gateway.net.server.head import check_fields, head_size, split_target
from gateway.net.server.listener import Listener, Service
from gateway.net.server.options import COUNTED_AHEAD_BYTES, MAX_TARGET_BYTES, MAX_UNREAD_BYTES, READ_AHEAD_BYTES
from gateway.net.server.refusals import RefusedRequest, ServerRefusal
from gateway.net.sliced_input import FRAMING_PER_BYTE, MAX_PIECES, NOTHING, SLICE_BYTES

FRAMING_AND_BODY = 1 + FRAMING_PER_BYTE  # bytes that may be read for one of a body
ALWAYS = ("/health", "/metrics")  # answered even when there is no memory: they are small, and report it
BLANKS = b" \t"  # around a value, part of no value (RFC 9112, section 5.1); llhttp leaves those behind it
ASGI = {"version": "3.0", "spec_version": "2.3"}


class ReadState(Enum):
    """What the next byte of the caller would be part of."""

    IDLE = auto()  # a new request
    HEAD = auto()
    BODY = auto()
    CLOSED = auto()  # nothing: this connection takes no more requests


# Reading a member off its class costs half a microsecond in Python 3.11, ten times as much as a global.
IDLE, HEAD, BODY, CLOSED = ReadState


class RequestReader(Channel):
    """The half of a connection that reads. The other half opens the exchanges it reads, and answers refusals.

    Every step forward clears `deadline`; `sweeper` sets the next one.
    """

    server: tuple[str, int | None] | None
    client: tuple[str, int] | None
    scheme: str
    parser: httptools.HttpRequestParser

    def __init__(self, listener: Listener, service: Service) -> None:
        super().__init__(listener.memory, listener.tasks)
        self.listener = listener
        self.service = service
        self.max_head_bytes = listener.options.max_head_bytes
        self.state = IDLE
        self.deadline: float | None = None
        self.exchange: Exchange | None = None  # the one that is being read, or was read last
        self.serves: Callable[[str], bool] | None = None  # only these paths (see `Listener`)
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.head_bytes = 0  # then, of what is not body, less what the body allows
        self.is_uncounted = False  # the head began in the middle of a read
        self.dropped_bytes = 0  # of a body that arrived after its answer

    def open(self, scope: Scope, fields: Mapping[bytes, bytes], expects: bool, reusable: bool) -> None:
        """Begins to answer a request whose head has been read, or queues it. Raises RefusedRequest.

        `expects`: it waits for 100 Continue; `reusable`: another request may follow.
        """
        raise NotImplementedError

    def refuse(self, refused: RefusedRequest) -> None:
        """Reads no more requests, and answers why once the requests before are answered."""
        raise NotImplementedError

    # Bytes

    def data_received(self, data: bytes) -> None:
        """Parses what was read, within the limits of a head."""
        if self.state is CLOSED:
            self.unparsed = NOTHING
            return
        if len(data) > SLICE_BYTES:
            self.slice_input(data)
            return
        if self.state is IDLE:
            self.state, self.deadline, self.head_bytes = HEAD, None, 0
        self.head_bytes += len(data)
        try:
            self.parser.feed_data(data)
            if self.head_bytes > self.max_head_bytes and self.state is not IDLE:
                raise RefusedRequest(ServerRefusal.LARGE_FRAMING if self.state is BODY else ServerRefusal.LARGE_HEAD)
            if self.pieces > MAX_PIECES:
                self.queue_for_parsing(self.listener.parse_queue, self.transport)
        except httptools.HttpParserUpgrade as exc:
            self._decline_upgrade(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            self.refuse(_refused(exc))
        except RefusedRequest as exc:
            self.refuse(exc)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Continues as if no other protocol had been offered; Java's client offers h2c with every POST."""
        assert self.exchange is not None
        self.exchange.keep_alive = False
        self.parser = _body_parser(self.exchange.scope["headers"], self.on_body, self._end_body)
        if rest:
            self.data_received(rest)

    # What the parser finds

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        if self.state is not HEAD:  # a pipelined request, begun in the middle of a read
            self.state, self.deadline, self.head_bytes = HEAD, None, 0
            self.is_uncounted = True

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_TARGET_BYTES:
            raise RefusedRequest(ServerRefusal.LONG_TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.rstrip(BLANKS)))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if self.is_uncounted or self.head_bytes > self.max_head_bytes:
            self.is_uncounted = False
            if head_size(self.url, self.headers) > self.max_head_bytes:
                raise RefusedRequest(ServerRefusal.LARGE_HEAD)
        fields = check_fields(self.headers, version)
        path, query = split_target(self.url, fields.get(b"host"))
        method = self.parser.get_method().decode("ascii")
        if method == "CONNECT":
            raise RefusedRequest(ServerRefusal.CONNECT)
        text = path.decode("ascii")
        if self.serves is not None and not self.serves(text):
            raise RefusedRequest(ServerRefusal.DRAINING if self.listener.is_late else ServerRefusal.CONNECTIONS)
        if self.memory.refuses and not (text.endswith(ALWAYS) or self.service.is_awaited(text)):
            raise RefusedRequest(ServerRefusal.ANSWER_MEMORY)
        scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
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
        self.open(scope, fields, expects, reusable)

    def on_body(self, body: bytes) -> None:
        size, exchange = len(body), self.exchange
        assert exchange is not None
        head_bytes = self.head_bytes - FRAMING_AND_BODY * size
        self.head_bytes = head_bytes if head_bytes > 0 else 0
        self.pieces += 1
        if exchange.response_complete:
            self.dropped_bytes += size
            if self.dropped_bytes > MAX_UNREAD_BYTES:
                raise RefusedRequest(ServerRefusal.UNWANTED_BODY)
            return
        exchange.body_bytes += size
        if exchange.body_bytes > exchange.allowed_bytes:
            self._count(exchange)
        if exchange.body:
            exchange.append(body)
            if len(exchange.body) > READ_AHEAD_BYTES:
                self.pause_reading()
        else:
            exchange.body = body
        if exchange.arrival is not None:
            exchange.arrival.set()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the parser only thinks so
        self._end_body()

    def _end_body(self) -> None:
        self.state, self.deadline = IDLE, None
        exchange = self.exchange
        assert exchange is not None
        exchange.more_body = False
        if exchange.arrival is not None:
            exchange.arrival.set()

    # The memory for bodies

    def _count(self, exchange: Exchange) -> None:
        """Counts what has arrived of a body in memory. Raises RefusedRequest when there is no room for it."""
        memory, size = self.memory, exchange.body_bytes + COUNTED_AHEAD_BYTES
        is_result = self.service.is_awaited(exchange.scope["path"])
        holder = ARRIVING if is_result else self.holder(exchange)
        if not is_result:
            if not memory.fits_share(holder, size - (exchange.counted if holder == exchange.counted_holder else 0)):
                raise RefusedRequest(ServerRefusal.CALLER_MEMORY)
            if not memory.fits_bodies(size - exchange.counted):
                raise RefusedRequest(ServerRefusal.BODY_MEMORY)
        memory.take(holder, size)
        if exchange.counted:
            memory.give(exchange.counted_holder, exchange.counted)
        exchange.counted, exchange.counted_holder, exchange.allowed_bytes = size, holder, size
        if is_result and memory.must_wait(self):  # refused, it would be lost
            self.is_held = True
            self.transport.pause_reading()

    def holder(self, exchange: Exchange) -> str:
        """The caller for whom a body or an answer is counted in memory."""
        return exchange.holder or self.service.holder_of(exchange.scope)


def _body_parser(
    headers: Iterable[tuple[bytes, bytes]], on_body: Callable[[bytes], None], on_end: Callable[[], None]
) -> httptools.HttpRequestParser:
    """Makes a parser for the body of a request that offered another protocol (RFC 9110 section 7.8 lets us decline).

    The first parser takes everything behind such a head for the other protocol, and what arrives later for a new
    request: a body could pass for one. So this one is given the framing of the body.
    """
    parser = httptools.HttpRequestParser(_LastBody(on_body, on_end))
    framing = [b"%b: %b\r\n" % field for field in headers if field[0] in (b"content-length", b"transfer-encoding")]
    parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
    return parser


class _LastBody:
    """Passes on the body of one request, and refuses another request."""

    def __init__(self, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.on_body = on_body
        self.on_message_complete = on_end
        self._begun = False

    def on_message_begin(self) -> None:
        if self._begun:
            raise RefusedRequest(ServerRefusal.EXTRA_REQUEST)
        self._begun = True


def _refused(error: httptools.HttpParserError) -> RefusedRequest:
    """Why the parser stopped: what a handler has raised, or that the request is malformed.

    Without the traceback: its frames lead back to it, and such a cycle keeps the connection and all it has read in
    memory until the collector finds it.
    """
    cause = error.__context__
    if isinstance(cause, RefusedRequest):
        return cause.with_traceback(None)
    return RefusedRequest(ServerRefusal.NOT_HTTP)
