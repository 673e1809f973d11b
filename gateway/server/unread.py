"""Answers that wait for their callers to read them: counted in memory, and dropped when others need it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.server.listener import Listener
from gateway.server.options import MIN_PROGRESS_BYTES, PRESSED_S

if TYPE_CHECKING:
    from gateway.server.connection import Connection

log = logging.getLogger("gateway.server")


class UnreadAnswer:
    """What a connection holds of an answer, counted for `holder` until it is released.

    `slow_since` is when its caller last had read MIN_PROGRESS_BYTES more of it.
    """

    def __init__(self, connection: Connection, holder: str, now: float) -> None:
        self.holder = holder
        self.slow_since = now
        self._connection = connection
        self._counted = self._left = connection.unread_bytes()
        connection.memory.take(holder, self._counted)

    def note_progress(self, now: float) -> None:
        """Looks how much its caller has read."""
        left = self._connection.unread_bytes()
        if self._left - left >= MIN_PROGRESS_BYTES:
            self._left, self.slow_since = left, now

    def drop(self) -> None:
        """Ends its connection."""
        self._connection.drop_unread()

    def release(self) -> None:
        """Counts it no more."""
        self._connection.memory.give(self.holder, self._counted)


class Relief:
    """Makes room in memory when there is too little."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._full_since: float | None = None  # since when there is no room and none can be made

    def look(self, now: float) -> None:
        """Ends connections whose callers read too little of their answers, the slowest first, while room is needed.

        When memory is full, all give way until half of it is free: answers of tool servers wait for it, and would be
        lost otherwise. A caller who holds more than a share gives way down to it. Where that does not help in time,
        calls are refused before they run.
        """
        memory, unread, dropped = self._listener.memory, self._listener.unread, 0
        for answer in unread:
            answer.note_progress(now)
        is_full = memory.is_full
        slow = [answer for answer in unread if now - answer.slow_since >= PRESSED_S]
        for answer in sorted(slow, key=lambda answer: answer.slow_since):
            if (is_full and not memory.fits_bodies(0)) or not memory.fits_share(answer.holder, 0):
                answer.drop()
                dropped += 1
        if dropped:
            log.warning("callers who did not read their answers were cut off to make room", extra={"callers": dropped})
        if dropped or not memory.is_full:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        memory.trim_heap()
        memory.refuses = self._full_since is not None and now - self._full_since >= 2 * PRESSED_S
