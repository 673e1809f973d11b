"""One connection: admits a caller, runs the application for each request in order, and closes at the right moment.

A refusal waits until the requests before it are answered, so that pipelined answers stay in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import cast

from msgspec import Struct
from starlette.types import Scope

from gateway.pacing import NOTHING
from gateway.server.exchange import Exchange
from gateway.server.head import Refused, refusal
from gateway.server.listener import Listener
from gateway.server.options import MAX_PIPELINED, SPARE_CONNECTIONS, UNREAD_BYTES
from gateway.server.request_reader import BODY, CLOSED, HEAD, RequestReader
from gateway.server.uvicorn_parts import FlowControl, get_local_addr, get_remote_addr

log = logging.getLogger("gateway.server")


class UnreadAnswer(Struct, eq=False):
    """What a connection holds of an answer, with `counted` bytes in memory for `holder`.

    `left` bytes were unread at `slow_since`, when the caller last had read MIN_PROGRESS_BYTES.
    """

    connection: Connection
    holder: str
    counted: int
    left: int
    slow_since: float


class Connection(RequestReader):
    """One caller's connection."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.loop = asyncio.get_running_loop()
        self.app = listener.app
        self.options = listener.options
        self.connections = listener.connections
        self.tasks = listener.tasks
        self.running: Exchange | None = None
        self.queued: deque[Exchange] = deque()  # read ahead, to be answered after it
        self.refusal: bytes | None = None  # to be sent after them
        self.served = False  # it has had an answer
        self.is_tls = False
        self.unsent = 0  # bytes of an answer that are still to be given to the transport
        self.unread: UnreadAnswer | None = None
        self.progress: tuple[float, int] | None = None  # when the answer began to wait, and how much of it

    # The life of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admits the caller, or says 503: a silent close would look like a crash to a load balancer."""
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's are not, but do the same
        self.flow = FlowControl(transport)
        self.server, self.client = get_local_addr(transport), get_remote_addr(transport)
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        self.scheme = "https" if self.is_tls else "http"
        if self.listener.is_late:
            self.is_late, self.connections = True, self.listener.late
        crowd = len(self.connections)
        self.connections.add(self)
        transport.set_write_buffer_limits(high=UNREAD_BYTES, low=0)
        if crowd >= self.listener.max_connections + SPARE_CONNECTIONS:
            transport.abort()
        elif crowd >= self.listener.max_connections:
            self._close_after(self._refusal(Refused(503, "Too many connections.")))
        elif not self.listener.admits(transport):  # the certificates were replaced in the middle of its handshake
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the running application, and releases everything else."""
        self.connections.discard(self)
        for exchange in (self.running, self.exchange):
            if exchange is not None and not exchange.response_complete:
                exchange.fail()
        for exchange in self.queued:
            self.forget_body(exchange)
        self.queued.clear()
        self.unparsed = NOTHING
        self._forget_unread()
        self.memory.leave(self)
        self.flow.resume_writing()
        # The parser and the exchanges refer to this connection: without these cycles everything is freed at once.
        self.parser = self.exchange = self.running = None  # type: ignore[assignment]
        self.listener.note_if_empty()

    def shutdown(self) -> None:
        """Ends an idle connection now, any other after the answers that are due."""
        if self.running is not None and self.exchange is not None:
            self.exchange.keep_alive = False
        elif self.state is not HEAD:
            self.transport.close()

    def dismiss(self) -> None:
        """As `shutdown`, but drops a request whose head is still arriving, too."""
        if self.running is None and self.state is HEAD:
            self.transport.abort()
        else:
            self.shutdown()

    def cut_off(self) -> None:
        """Ends in the middle of what is under way; the application sees that its caller did not leave."""
        if self.running is not None:
            self.running.answered = 0
        self.transport.abort()

    # Answers that wait to be read

    def pause_writing(self) -> None:
        """Counts the answer in memory while its caller does not read it."""
        self.flow.pause_writing()
        if self.unread is None:
            holder = "" if self.running is None else self.holder(self.running)
            size = self.unread_bytes()
            self.memory.take(holder, size)
            self.unread = UnreadAnswer(self, holder, size, size, self.loop.time())
            self.listener.unread.add(self.unread)

    def resume_writing(self) -> None:
        """The caller has read all of it."""
        self.flow.resume_writing()
        self.progress = None
        self._forget_unread()

    def unread_bytes(self) -> int:
        """How much of an answer this process still holds."""
        return self.transport.get_write_buffer_size() + self.unsent

    def drop_unread(self) -> None:
        """Ends the connection, and its answer with it, at once."""
        self.transport.abort()
        self._forget_unread()

    def _forget_unread(self) -> None:
        if self.unread is not None:
            unread, self.unread = self.unread, None
            self.listener.unread.discard(unread)
            self.memory.give(unread.holder, unread.counted)

    # Requests

    def open(self, scope: Scope, fields: Mapping[bytes, bytes], expects: bool, reusable: bool) -> None:
        """Runs the application, or queues the request behind one that still runs. Raises Refused."""
        exchange = Exchange(self, scope, fields, expects, reusable)
        if self.running is not None:
            if len(self.queued) >= MAX_PIPELINED:
                raise Refused(503, "Too many requests at once on one connection.")
            self.flow.pause_reading()
            self.queued.append(exchange)
        self.state, self.deadline, self.head_bytes = BODY, None, 0
        self.exchange = exchange
        if self.running is None:
            self._run(exchange)

    def _run(self, exchange: Exchange) -> None:
        self.running = exchange
        exchange.task = self.loop.create_task(exchange.run_asgi(self.app))
        self.tasks.add(exchange.task)

    def on_response_complete(self) -> None:
        """Continues with the next request, or ends the connection."""
        exchange, self.running = self.running, None
        if exchange is None or self.transport.is_closing():
            return
        self.served, self.deadline = True, None
        if self.flow.read_paused:
            self.resume_flow()
        body_pending = self.state is BODY and self.exchange is exchange
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
        """Reads no more requests, and answers why once the requests before are answered."""
        log.debug("refused a request", extra={"status": why.status, "reason": why.message})
        broken = self.exchange if self.state is BODY else None
        self.state, self.deadline = CLOSED, None
        if broken is not None and broken.response_complete:
            self._close_after(b"")
            return
        if broken is not None and broken is self.running:
            if broken.response_started and broken.held is None:
                self.transport.abort()  # half an answer is sent already, a second one would be read as its rest
                return
            self.running = None
            if broken.fail(why.status):  # then the application logs it, not the listener
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
        """The answer to a request that the application does not see."""
        self.listener.refused(why.status, why.message, self.client)
        return refusal(why.status, why.message)

    def _close_after(self, words: bytes) -> None:
        """Writes the last words, and leaves the caller a moment to read them before the connection is closed.

        Closing with bytes of the caller unread makes the kernel send a reset, which can overtake the words.
        """
        self.state, self.deadline = CLOSED, None
        self.flow.resume_reading()
        self.transport.write(words)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half-closed state
            self.transport.close()
