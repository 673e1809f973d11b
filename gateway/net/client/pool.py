"""The keep-alive connections to one origin: a limited number, handed to callers in order, closed when idle.

Tasks of the pool open connections, and a caller only waits on a future: its cancellation interrupts nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple

from gateway.net.body_memory import BodyMemory
from gateway.net.client.connection import Headers, PooledConnection
from gateway.net.client.dial import Dialler
from gateway.net.client.errors import Kind, TransportError
from gateway.net.client.origin import Origin
from gateway.net.client.proxies import Proxy, refused_by
from gateway.net.client.replies import CodedReply, Reply, ReplyOrEvents, StreamedReply, WholeReply
from gateway.net.client.requesthead import encode_head
from gateway.net.sliced_input import ParseQueue

HUNG_UP = "The server closed the connection before it was used."
# Least time between two rounds of deadlines; with ten thousand connections one takes a millisecond. A timer for each
# exchange would cost 2 % of a call.
ROUND_S = 0.02
NOT_THROUGH = 407  # a proxy wants to know who asks, and passes nothing on (RFC 9110, section 15.5.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a pool, which serves one origin, may hold, and how long it may wait."""

    connections: int = 256  # a common `ulimit -n` of 1024 has room for these and as many callers
    waiters: int = 1024  # four times the connections; a caller behind more meets its own timeout first
    # Status line and header fields; after them, framing (chunk sizes, extensions, trailers) beyond what the body allows
    # (`FRAMING_PER_BYTE`). Servers limit their own heads to 8 to 32 KiB.
    head_bytes: int = 64 * 1024
    idle_s: float = 4.0  # uvicorn and Node.js close after 5 s, perhaps at the moment of a write
    connect_timeout_s: float = 2.0  # DNS, TCP and TLS together: room for one lost SYN (sent again after 1 s)
    stream_bytes: int = 64 * 1024  # of a streamed reply that may wait for its reader


class Use(NamedTuple):
    """Connections of a pool: those that carry a request, those that wait for one, and those being opened."""

    in_use: int
    idle: int
    opening: int


class Pool:
    """Sends requests to one origin. Belongs to the event loop of its first request."""

    def __init__(
        self,
        origin: Origin,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        memory: BodyMemory | None = None,
        *,
        proxy: Proxy | None = None,
        headers: Headers = (),
    ) -> None:
        """`ssl_context`, for https, defaults to the system's authorities. `memory` counts replies that arrive.

        All connections are made through the `proxy`. `headers`, with names in lower case, are sent with every request,
        in the place of others of their names.
        """
        self.origin = origin
        # To a target with http a proxy passes on single requests; through a tunnel it does not see any.
        self._forwarder = None if origin.is_tls else proxy
        self.limits = limits if limits is not None else Limits()
        self.parse_queue = ParseQueue()  # for connections whose replies are expensive to parse
        if origin.is_tls and ssl_context is None:
            ssl_context = ssl.create_default_context()
        ssl_context = ssl_context if origin.is_tls else None
        self._dialler = Dialler(origin, ssl_context, self.limits.connect_timeout_s, proxy)
        prefix = b""
        if self._forwarder is not None:
            prefix, headers = str(origin).encode("ascii"), (*headers, *self._forwarder.credential)
        self._encode_head = partial(encode_head, own=headers, prefix=prefix) if prefix or headers else encode_head
        self._memory = memory
        self._authority = origin.authority
        self._connecting: set[asyncio.Task[PooledConnection]] = set()
        self._live: set[PooledConnection] = set()
        self._idle: list[PooledConnection] = []  # the most recently used last: the rest may grow old and expire
        self._waiters: OrderedDict[asyncio.Future[PooledConnection], None] = OrderedDict()
        self._next_round = inf  # when deadlines are looked at; the earliest of them, or a little later
        self._round_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def request(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        *,
        more: Sequence[tuple[bytes, bytes]] = (),
        timeout_s: float,
        max_body: int,
        receiver: type[WholeReply] = WholeReply,
    ) -> Reply:
        """Sends one request, never twice, and returns the whole reply. Raises TransportError.

        `target` is path and query. Host and Content-Length are added; `headers` are those that many requests share,
        `more` those of this one alone. `timeout_s` lasts until the last byte of the reply; `max_body` is in bytes.
        """
        head = self._encode_head(method, target, self._authority, headers, more, len(body))
        loop = self._loop or self._bind()
        deadline = loop.time() + timeout_s
        connection = self._take_idle() or await self._wait_for_connection(timeout_s)
        exchange = receiver(connection, method, max_body, self._memory)
        exchange.reply = loop.create_future()
        connection.start(exchange, head + body, deadline)
        del head, body  # many callers wait at once, and none of them needs these any more
        if deadline < self._next_round:
            self._wake_at(loop, deadline)
        try:
            reply = await exchange.reply
            if self._forwarder is not None and isinstance(reply, Reply) and reply.status == NOT_THROUGH:
                raise refused_by(self._forwarder, self.origin)
            return await reply.decode(max_body) if type(reply) is CodedReply else reply
        except (asyncio.CancelledError, GeneratorExit):
            connection.abandon(exchange)
            exchange.release()
            raise
        except TransportError:
            del exchange, connection  # both lead to the error, and its traceback here
            raise

    def reply_or_events(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        *,
        more: Sequence[tuple[bytes, bytes]] = (),
        timeout_s: float,
        max_body: int,
    ) -> Awaitable[Reply | StreamedReply]:
        """As `request`; a stream of events is given as soon as its head has arrived, and is to be closed."""
        return self.request(
            method,
            target,
            headers,
            body,
            more=more,
            timeout_s=timeout_s,
            max_body=max_body,
            receiver=ReplyOrEvents,
        )

    @asynccontextmanager
    async def stream(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        *,
        more: Sequence[tuple[bytes, bytes]] = (),
        timeout_s: float,
        idle_s: float,
        max_body: int | None,
    ) -> AsyncIterator[StreamedReply]:
        """Sends one request, never twice, and gives its reply once the head has arrived. Raises TransportError.

        `timeout_s` lasts until the last byte of the reply and may be `math.inf`; `idle_s` is for each wait: for a
        connection, for the head, for more of the body. `max_body` is in bytes; None: no limit. The connection is used
        again if the whole body has arrived when the context ends, and closed otherwise.
        """
        head = self._encode_head(method, target, self._authority, headers, more, len(body))
        loop = self._loop or self._bind()
        deadline = loop.time() + timeout_s
        connection = self._take_idle() or await self._wait_for_connection(min(timeout_s, idle_s))
        reply = StreamedReply(
            connection,
            method,
            idle_s=idle_s,
            max_body=max_body,
            ahead_bytes=self.limits.stream_bytes,
            memory=self._memory,
        )
        connection.start(reply, head + body, deadline)
        if deadline < self._next_round:
            self._wake_at(loop, deadline)
        try:
            await reply.wait_for_head()
            yield reply
        finally:
            reply.close()

    def use(self) -> Use:
        """How many connections there are."""
        live, idle = len(self._live), len(self._idle)
        return Use(live - idle, idle, len(self._connecting))

    async def aclose(self) -> None:
        """Ends requests under way and those to come as CLOSED. Sockets are closed in the next turns of the loop."""
        self._is_closed = True
        if self._round_timer is not None:
            self._round_timer.cancel()
        for task in self._connecting:
            task.cancel()
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(_closed_error("The connection pool was closed.", sent=False))
        for connection in list(self._live):
            connection.fail(_closed_error("The connection pool was closed.", sent=True))
        if self._connecting:
            await asyncio.gather(*self._connecting, return_exceptions=True)
            await asyncio.sleep(0)  # since Python 3.12 `gather` returns before the callbacks of tasks that were done

    def _bind(self) -> asyncio.AbstractEventLoop:
        """Remembers the loop: asking for it is a system call in Python 3.11, 5 % of the gateway's work for a call."""
        self._loop = asyncio.get_running_loop()
        return self._loop

    # Open connections.

    def _take_idle(self) -> PooledConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.drop()
        return None

    def release(self, connection: PooledConnection) -> None:
        """Gives a connection to the caller that has waited longest, or keeps it idle."""
        if self._is_closed or connection.is_closed:
            connection.drop()
            return
        if self._waiters and (waiter := self._next_waiter()) is not None:
            waiter.set_result(connection)
            return
        loop = self._loop or self._bind()
        connection.deadline = idle_until = loop.time() + self.limits.idle_s
        self._idle.append(connection)
        if idle_until < self._next_round:
            self._wake_at(loop, idle_until)

    def discard(self, connection: PooledConnection) -> None:
        """Frees the slot of a connection that was given up, for the next caller in the queue."""
        if connection not in self._live:
            return
        self._live.remove(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._fill()

    def _wake_at(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Moves the next round of deadlines forward to `at` (in the loop's time)."""
        if self._round_timer is not None:
            self._round_timer.cancel()
        self._next_round = at
        self._round_timer = loop.call_at(at, self._round, loop)

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends exchanges and closes idle connections whose deadlines have passed."""
        now = loop.time()
        self._round_timer, self._next_round = None, inf
        nearest = min([connection.expire(now) for connection in list(self._live)], default=inf)
        if nearest < self._next_round:  # expiring one may have started another exchange
            self._wake_at(loop, max(nearest, now + ROUND_S))

    # New connections, and the callers that wait.

    async def _wait_for_connection(self, timeout_s: float) -> PooledConnection:
        """Queues for a connection. If a used one dies before this task runs, queues again in front of all others."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        first = False
        while True:
            connection = await self._queue(deadline - loop.time(), first=first)
            if connection.fresh and not connection.is_closed:
                return connection  # unread input can only be TLS session tickets
            if not connection.fresh and connection.is_quiet():
                return connection
            connection.drop()
            if connection.fresh:
                raise _closed_error(HUNG_UP, sent=False)
            first = True

    async def _queue(self, timeout_s: float, *, first: bool) -> PooledConnection:
        if self._is_closed:
            raise _closed_error("The connection pool is closed.", sent=False)
        # Of those that wait, as many as there are free slots get a connection that is being or will be opened.
        if not first and len(self._waiters) + len(self._live) - self.limits.connections >= self.limits.waiters:
            raise TransportError(Kind.BUSY, "Too many requests wait for a connection.", sent=False)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[PooledConnection] = loop.create_future()
        self._waiters[waiter] = None
        if first:
            self._waiters.move_to_end(waiter, last=False)
        self._fill()
        timer = loop.call_later(max(timeout_s, 0.0), self._give_up, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # Cancelled between being given a connection and running: the connection is unused.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            raise
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)
            del waiter  # it leads to an error, and the traceback of that here

    def _give_up(self, waiter: asyncio.Future[PooledConnection]) -> None:
        if not waiter.done():
            message = f"No connection to {self.origin} became free in time."
            waiter.set_exception(TransportError(Kind.TIMEOUT, message, sent=False))

    def _fill(self) -> None:
        """Opens a connection for each waiter beyond those being opened, as far as there are slots."""
        while (
            len(self._connecting) < len(self._waiters)
            and len(self._connecting) + len(self._live) < self.limits.connections
        ):
            task = asyncio.get_running_loop().create_task(self._dialler.dial(self._make_connection))
            self._connecting.add(task)
            task.add_done_callback(self._dialled)

    def _make_connection(self) -> PooledConnection:
        return PooledConnection(self.limits.head_bytes, self.parse_queue, self.release, self.discard)

    def _dialled(self, task: asyncio.Task[PooledConnection]) -> None:
        """Turns a connecting slot into a live connection or frees it; runs however the task ended."""
        self._connecting.discard(task)
        connection = None if task.cancelled() or task.exception() else task.result()
        if connection is not None and not connection.is_closed:
            self._live.add(connection)
            self.release(connection)
        else:
            if not task.cancelled() and (waiter := self._next_waiter()) is not None:
                waiter.set_exception(task.exception() or _closed_error(HUNG_UP, sent=False))
            self._fill()

    def _next_waiter(self) -> asyncio.Future[PooledConnection] | None:
        """Takes the caller that has waited longest from the queue, None if all have left."""
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():
                return waiter
        return None


def _closed_error(message: str, *, sent: bool) -> TransportError:
    return TransportError(Kind.CLOSED, message, sent=sent)
