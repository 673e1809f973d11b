"""The deadlines of callers: a sweep over all connections sets the deadline of each, or acts on one that has passed.

So deadlines cost a request nothing: a step forward merely clears the one of its connection.
"""

from __future__ import annotations

import asyncio
import logging
import math

from gateway.net.body_memory import Heap
from gateway.net.server.connection import Connection
from gateway.net.server.listener import Listener
from gateway.net.server.options import LINGER_S, PRESSED_S, SWEEP_BATCH
from gateway.net.server.refusals import RefusedRequest, ServerRefusal
from gateway.net.server.request_reader import ReadState

log = logging.getLogger("gateway.server")


class Sweeper:
    """Checks all connections again and again, in batches so that no call waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
        self._loop = loop
        self._listener = listener
        self._pressure = MemoryPressure(listener)
        self._heap = Heap()
        self._due: list[Connection] = []
        self._next = loop.call_later(listener.options.sweep_s, self._start)

    def stop(self) -> None:
        """Ends the sweeping."""
        self._next.cancel()

    def _start(self) -> None:
        self._pressure.look(self._loop.time())
        self._heap.trim()
        listener = self._listener
        self._due = [*listener.connections, *listener.late, *listener.reserved]
        self._sweep()

    def _sweep(self) -> None:
        batch = self._due[-SWEEP_BATCH:]
        del self._due[-SWEEP_BATCH:]
        # The next one first: if a check fails, the loop logs it, and the others still happen.
        if self._due:
            self._next = self._loop.call_later(0, self._sweep)
        else:
            self._next = self._loop.call_later(self._listener.options.sweep_s, self._start)
        now = self._loop.time()
        for connection in batch:
            check(connection, now)


def check(connection: Connection, now: float) -> None:
    """Sets the deadline of the current wait, or acts on one that has passed. `now` is the loop's time in seconds."""
    deadline = connection.deadline
    if deadline is not None and now < deadline and not connection.write_paused:
        return  # nearly every connection in nearly every sweep
    if connection.write_paused or connection.transport.is_closing():
        if connection.slow_for(now) >= connection.options.stall_timeout_s:
            connection.transport.abort()
    elif deadline is None or connection.read_paused:  # we do not read: the caller is not to blame
        connection.deadline = now + _limit_s(connection)
    else:
        _expire(connection)


def _limit_s(connection: Connection) -> float:
    options = connection.options
    match connection.state:
        case ReadState.HEAD:
            return options.head_timeout_s
        case ReadState.BODY:
            return options.body_timeout_s
        case _ if connection.running is not None:  # how long a call may take is up to the application
            return math.inf
        case ReadState.IDLE:
            return options.idle_timeout_s if connection.served else options.head_timeout_s
        case ReadState.CLOSED:
            return LINGER_S


def _expire(connection: Connection) -> None:
    match connection.state:
        case ReadState.IDLE:
            connection.transport.close()
        case ReadState.HEAD:
            connection.refuse(RefusedRequest(ServerRefusal.SLOW_HEAD))
        case ReadState.BODY:
            connection.refuse(RefusedRequest(ServerRefusal.SLOW_BODY))
        case ReadState.CLOSED:
            connection.transport.abort()


class MemoryPressure:
    """Makes room in memory when there is too little."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._full_since: float | None = None  # since when there is no room and none can be made

    def look(self, now: float) -> None:
        """Ends connections whose callers read too little of their answers, the slowest first, while room is needed.

        When memory is short, all give way until half of it is free: answers of tool servers wait for it, and would be
        lost otherwise. A caller who holds more than a share gives way down to it. Where that does not help in time,
        calls are refused before they run.
        """
        memory, dropped = self._listener.memory, 0
        is_short = memory.is_short()
        slow = [
            (waited, connection)
            for connection in self._listener.unread
            if (waited := connection.slow_for(now)) >= PRESSED_S
        ]
        for _, connection in sorted(slow, key=lambda pair: pair[0], reverse=True):
            if (is_short and not memory.fits_bodies(0)) or not memory.fits_share(connection.unread_holder, 0):
                connection.drop_unread()
                dropped += 1
        if dropped:
            log.warning(
                "callers who did not read their answers were disconnected to make room", extra={"callers": dropped}
            )
        if dropped or not memory.is_full:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        memory.refuses = self._full_since is not None and now - self._full_since >= 2 * PRESSED_S
