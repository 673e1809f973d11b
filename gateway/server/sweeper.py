"""How long callers may take: one sweep over all connections sets the deadline of each, or acts on one that is over.

So deadlines cost a request nothing: a step forward merely clears the one of its connection.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import cast

from gateway.server.connection import Connection, Reading
from gateway.server.head import Refused
from gateway.server.listener import Listener
from gateway.server.options import LINGER_S, MIN_PROGRESS_BYTES, PRESSED_S, SWEEP_BATCH

log = logging.getLogger("gateway.server")


class Sweeper:
    """Checks all connections again and again, in batches so that no call waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
        self._loop = loop
        self._listener = listener
        self._relief = Relief(listener)
        self._due: list[Connection] = []
        self._next = loop.call_later(listener.options.sweep_s, self._start)

    def stop(self) -> None:
        """Ends the sweeping."""
        self._next.cancel()

    def _start(self) -> None:
        self._relief.look(self._loop.time())
        self._due = [cast(Connection, one) for one in (*self._listener.connections, *self._listener.late)]
        self._sweep()

    def _sweep(self) -> None:
        batch = self._due[-SWEEP_BATCH:]
        del self._due[-SWEEP_BATCH:]
        # The next one first: a check that fails is reported by the loop, and the limits go on to hold.
        if self._due:
            self._next = self._loop.call_later(0, self._sweep)
        else:
            self._next = self._loop.call_later(self._listener.options.sweep_s, self._start)
        now = self._loop.time()
        for connection in batch:
            check(connection, now)


class Relief:
    """Makes room in memory when it is wanted."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._full_since: float | None = None  # since when there is no room and none can be made

    def look(self, now: float) -> None:
        """Ends connections whose callers take too little of their answers, the slowest first, while room is wanted.

        All want room when there is none: then half of it is made free. Answers that are arriving from tool servers wait
        for it, and would be lost otherwise. A caller who holds more than a share makes room up to it. Where that does
        not help in time, calls are refused before they run.
        """
        memory, unread, dropped = self._listener.memory, self._listener.unread, 0
        for reader in unread:
            reader.note_taken(now)
        is_full = memory.is_full
        slow = [reader for reader in unread if now - reader.slow_since >= PRESSED_S]
        for reader in sorted(slow, key=lambda reader: reader.slow_since):
            if (is_full and not memory.fits_bodies(0)) or not memory.fits_share(reader.unread_of, 0):
                reader.drop_unread()
                dropped += 1
        if dropped:
            log.warning("callers who did not read their answers were cut off to make room", extra={"callers": dropped})
        if dropped or not memory.is_full:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        memory.give_back()
        memory.refuses = self._full_since is not None and now - self._full_since >= 2 * PRESSED_S


def check(connection: Connection, now: float) -> None:
    """Sets the deadline of the current wait, or ends one that is over. `now` is the loop's time in seconds."""
    deadline, flow = connection.deadline, connection.flow
    if deadline is not None and now < deadline and not flow.write_paused:
        return  # nearly every connection in nearly every sweep
    if flow.write_paused or connection.transport.is_closing():
        _check_progress(connection, now)
    elif deadline is None or flow.read_paused:  # it is we who do not read: the caller keeps nobody waiting
        connection.deadline = now + _limit_s(connection)
    else:
        _expire(connection)


def _limit_s(connection: Connection) -> float:
    options = connection.options
    match connection.reading:
        case Reading.HEAD:
            return options.head_timeout_s
        case Reading.BODY:
            return options.body_timeout_s
        case _ if connection.running is not None:  # how long a call may take is the application's to know
            return math.inf
        case Reading.IDLE:
            return options.idle_timeout_s if connection.served else options.head_timeout_s
        case Reading.DEAF:
            return LINGER_S


def _expire(connection: Connection) -> None:
    match connection.reading:
        case Reading.IDLE:
            connection.transport.close()
        case Reading.HEAD:
            connection.refuse(Refused(408, "The head of the request took too long."))
        case Reading.BODY:
            connection.refuse(Refused(408, "The body of the request took too long."))
        case Reading.DEAF:
            connection.transport.abort()


def _check_progress(connection: Connection, now: float) -> None:
    """Aborts when an answer is not read, or so slowly that its reader only holds our memory."""
    left = connection.transport.get_write_buffer_size()
    if connection.progress is None:
        connection.progress = now, left
        return
    since, before = connection.progress
    if now - since >= connection.options.stall_timeout_s:
        if before - left < MIN_PROGRESS_BYTES:
            connection.transport.abort()
        else:
            connection.progress = now, left
