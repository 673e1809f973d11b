"""How long callers may take: one sweep over all connections sets the deadline of each, or acts on one that is over.

So deadlines cost a request nothing: a step forward merely clears the one of its connection.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from gateway.server.connection import Connection, Reading
from gateway.server.head import Refused
from gateway.server.listener import Listener
from gateway.server.options import LINGER_S, MIN_PROGRESS_BYTES, SWEEP_BATCH


class Sweeper:
    """Checks all connections again and again, in batches so that no call waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
        self._loop = loop
        self._listener = listener
        self._due: list[Connection] = []
        self._next = loop.call_later(listener.options.sweep_s, self._start)

    def stop(self) -> None:
        """Ends the sweeping."""
        self._next.cancel()

    def _start(self) -> None:
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
