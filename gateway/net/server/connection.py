"""One connection of a caller: admits it, runs the application for each request in order, and closes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import cast

import httptools
from starlette.types import Scope

from gateway.core.tracing import made_id, sent_id
from gateway.net.server.exchange import Exchange
from gateway.net.server.listener import Listener, Service
from gateway.net.server.options import MAX_PIPELINED, MIN_PROGRESS_BYTES, SPARE_CONNECTIONS, UNREAD_BYTES
from gateway.net.server.refusals import RefusedRequest, ServerRefusal, answer
from gateway.net.server.request_reader import BODY, CLOSED, HEAD, RequestReader
from gateway.net.sliced_input import NOTHING

log = logging.getLogger("gateway.server")


class Connection(RequestReader):
    """One caller's connection. A refusal waits until the requests before it are answered, which may be pipelined."""

    def __init__(self, listener: Listener, service: Service) -> None:
        super().__init__(listener, service)
        self.loop = asyncio.get_running_loop()
        self.options = listener.options
        self.connections = listener.connections
        self.running: Exchange | None = None
        self.queued: deque[Exchange] = deque()  # read ahead, to be answered after it
        self.refusal: bytes | None = None  # to be sent after them
        self.served = False  # it has had an answer
        self.unread_holder = ""  # for whom an answer is counted in memory while its caller does not read it,
        self.unread_counted = 0  # and how much of it; 0 if none is
        self.unread_left = 0  # bytes at the sweep `slow_since`, when the caller last had read MIN_PROGRESS_BYTES
        self.slow_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admits the caller, or says 503: a silent close would look like a crash to a load balancer."""
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's are not, but do the same
        self.parser = httptools.HttpRequestParser(self)  # only now: a cycle, for which no failed handshake calls back
        self.server = transport.get_extra_info("sockname")[:2]
        peer = transport.get_extra_info("peername")  # None if the caller has left already
        self.client = None if peer is None else peer[:2]
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        self.scheme = "https" if self.is_tls else "http"
        listener = self.listener
        if listener.is_late:
            self.serves, self.connections = self.service.is_awaited, listener.late
        elif listener.reserved_for and len(self.connections) >= listener.max_connections:
            self.serves, self.connections = listener.reserved_for.__contains__, listener.reserved
            listener.make_room()
        open_count = len(self.connections)
        self.connections[self] = None
        transport.set_write_buffer_limits(high=UNREAD_BYTES, low=0)
        if open_count >= listener.max_connections + SPARE_CONNECTIONS:
            transport.abort()
        elif open_count >= listener.max_connections:
            self._close_after(self._refuse_unseen(ServerRefusal.CONNECTIONS, {}))
        elif not listener.admits(transport):  # the certificates were replaced in the middle of its handshake
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the running application, and releases everything else."""
        self.connections.pop(self, None)
        for exchange in (self.running, self.exchange):
            if exchange is not None and not exchange.response_complete:
                exchange.fail()
        for exchange in self.queued:
            exchange.forget_body()
        self.queued.clear()
        self.unparsed = NOTHING
        self.resume_writing()
        self.memory.leave(self)
        # The parser and the exchanges refer to this connection: without these cycles everything is freed at once.
        self.parser = self.exchange = self.running = None  # type: ignore[assignment]
        if not self.connections:
            self.listener.emptied.set()

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
        super().pause_writing()
        if not self.unread_counted:
            self.unread_holder = "" if self.running is None else self.holder(self.running)
            self.unread_counted = max(self._unread_bytes(), self.written)
            self.memory.take(self.unread_holder, self.unread_counted)
            self.listener.unread.add(self)
            if self.running is not None:
                self.memory.hand_on(self.running.task)

    def resume_writing(self) -> None:
        """The caller has read all of it."""
        super().resume_writing()
        self.slow_since = None
        self._forget_unread()

    def slow_for(self, now: float) -> float:
        """For how many seconds, seen in sweeps, the caller has read less than MIN_PROGRESS_BYTES of an answer."""
        left = self._unread_bytes()
        if self.slow_since is None or self.unread_left - left >= MIN_PROGRESS_BYTES:
            self.slow_since, self.unread_left = now, left
        return now - self.slow_since

    def _unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size() + self.unsent

    def drop_unread(self) -> None:
        """Ends the connection, and its answer with it, at once."""
        self.transport.abort()
        self._forget_unread()

    def _forget_unread(self) -> None:
        if self.unread_counted:
            counted, self.unread_counted = self.unread_counted, 0
            self.listener.unread.discard(self)
            self.memory.give(self.unread_holder, counted)

    # Requests

    def open(self, scope: Scope, fields: Mapping[bytes, bytes], expects: bool, reusable: bool) -> None:
        """Runs the application, or queues the request behind one that still runs. Raises RefusedRequest."""
        exchange = Exchange(self, scope, fields, expects, reusable)
        if self.running is not None:
            if len(self.queued) >= MAX_PIPELINED:
                raise RefusedRequest(ServerRefusal.PIPELINED)
            self.pause_reading()
            self.queued.append(exchange)
        self.state, self.deadline, self.head_bytes = BODY, None, 0
        self.exchange = exchange
        if self.running is None:
            self._run(exchange)

    def _run(self, exchange: Exchange) -> None:
        self.running = exchange
        exchange.task = self.loop.create_task(exchange.run_asgi(self.service.app))
        self.tasks.add(exchange.task)

    def on_response_complete(self) -> None:
        """Continues with the next request, or ends the connection."""
        exchange, self.running = self.running, None
        if exchange is None or self.transport.is_closing():
            return
        self.served, self.deadline = True, None
        if self.read_paused:
            self.resume_reading()
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

    def refuse(self, refused: RefusedRequest) -> None:
        """Reads no more requests, and answers why once the requests before are answered."""
        why = refused.why
        log.debug("refused a request", extra={"status": why.status, "reason": why.reason})
        broken = self.exchange if self.state is BODY else None
        self.state, self.deadline = CLOSED, None
        if broken is not None and broken.response_complete:
            self._close_after(b"")
            return
        if broken is not None and broken is self.running:
            if broken.response_started and broken.pending_head is None:
                self.transport.abort()  # half an answer is sent already, a second one would be read as its rest
                return
            self.running = None
            if broken.fail(why):  # then the application logs it, not the listener
                self._close_after(answer(why, sent_id(broken.fields)))
                return
        elif broken is not None:
            self.queued.pop().forget_body()
        response = self._refuse_unseen(why, dict(self.headers) if broken is None else broken.fields)
        if self.running is None:
            self._close_after(response)
        else:
            self.refusal = response

    def _refuse_unseen(self, why: ServerRefusal, fields: Mapping[bytes, bytes]) -> bytes:
        """Reports a request that the application does not see; returns the answer. `fields`: its headers so far."""
        request_id = sent_id(fields) or made_id()
        self.service.refused(why, request_id, self.client)
        return answer(why, request_id)

    def _close_after(self, response: bytes) -> None:
        """Writes the last bytes, and leaves the caller a moment to read them before the connection is closed.

        Closing with bytes of the caller unread makes the kernel send a reset, which can overtake them.
        """
        self.state, self.deadline = CLOSED, None
        self.resume_reading()
        self.transport.write(response)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half-closed state
            self.transport.close()
