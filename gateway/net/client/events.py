"""Streams of events that a server sends, read so that one that floods holds up nobody else and ends soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from msgspec import Struct

from gateway.core.sse import EventParser, SseEvent
from gateway.net.client.errors import Kind, TransportError
from gateway.net.client.replies import StreamedReply
from gateway.net.sliced_input import ParseQueue

# What is read of a stream before it rests, in lines; then all streams of its server take turns. An event costs whoever
# reads it as much as some lines, and bytes cost little.
MAX_LOAD = 256
EVENT_LOAD = 16
BYTES_OF_LOAD = 4096


class EventBudget:
    """What one stream may bring: so many bytes and lines at once, and so many more per second.

    An event has two or three lines; a comment is a line, and so is an empty one. A stream that resumes another goes on
    with its budget.
    """

    def __init__(self, *, most_bytes: float, bytes_per_s: float, most_lines: float, lines_per_s: float) -> None:
        self._bytes = _Allowance("bytes", most_bytes, bytes_per_s)
        self._lines = _Allowance("lines", most_lines, lines_per_s)

    def spend(self, size: int, lines: int, now: float) -> None:
        """Takes bytes and lines at a time in seconds. Raises TransportError when there were too many."""
        self._bytes.spend(size, now)
        self._lines.spend(lines, now)


class _Allowance(Struct):
    """What is left of an amount that grows again, by so much per second."""

    unit: str
    most: float
    per_s: float
    spent: float = 0.0
    at: float = 0.0

    def spend(self, amount: int, now: float) -> None:
        self.spent = max(self.spent - self.per_s * (now - self.at), 0.0) + amount
        self.at = now
        if self.spent > self.most:
            more = f" and {self.per_s:.0f} more per second" if self.per_s else ""
            message = f"The stream of events passes {self.most:.0f} {self.unit}{more}."
            raise TransportError(Kind.TOO_LARGE, message, sent=True)


class EventReader:
    """The events of a streamed reply, one after the other; `close` it when no more of them are wanted.

    What it holds of an event that is not complete counts as memory. `queue` is that of the server's pool. An event of
    more than `max_event_bytes` is left out and `on_skipped` called; without that it ends the stream.
    """

    def __init__(
        self,
        reply: StreamedReply,
        max_event_bytes: int,
        budget: EventBudget,
        queue: ParseQueue,
        on_skipped: Callable[[], None] | None = None,
    ) -> None:
        self._reply = reply
        self._parser = EventParser(max_event_bytes)
        self._budget = budget
        self._queue = queue
        self._on_skipped = on_skipped
        self._events: Iterator[SseEvent | None] = iter(())
        self._load = self._lines = 0

    @property
    def last_id(self) -> bytes:
        """As `EventParser.last_id`."""
        return self._parser.last_id

    @property
    def retry_ms(self) -> int | None:
        """As `EventParser.retry_ms`."""
        return self._parser.retry_ms

    def __aiter__(self) -> EventReader:
        return self

    async def __anext__(self) -> SseEvent:
        """Waits for the next event. Raises TransportError, also for a stream that passes its budget."""
        while True:
            if self._load > MAX_LOAD:
                await self._rest()
            event = next(self._events, self)
            if event is self:
                await self._read()
                continue
            self._count_lines(0)
            if event is not None:
                self._load += EVENT_LOAD
                return event  # type: ignore[return-value]

    async def _read(self) -> None:
        """Waits for more of the reply."""
        self._count_lines(0)
        parser = self._parser
        if self._on_skipped is None and (parser.is_too_large or parser.skipped):
            raise TransportError(Kind.TOO_LARGE, "An event of the stream is too large.", sent=True)
        if self._on_skipped is not None and parser.skipped:
            parser.skipped = 0
            self._on_skipped()
        self._reply.keep(parser.held_bytes)
        chunk = await anext(self._reply)
        self._load += len(chunk) // BYTES_OF_LOAD
        self._count_lines(len(chunk))
        self._events = parser.read(chunk)

    def _count_lines(self, size: int) -> None:
        lines = self._parser.lines - self._lines
        self._lines += lines
        self._load += lines
        if lines or size:
            self._budget.spend(size, lines, asyncio.get_running_loop().time())

    async def _rest(self) -> None:
        """Waits for a turn among all streams of the server that bring much."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.join(lambda: None if turn.done() else turn.set_result(None))
        await turn
        self._load = 0
        self._reply.check_deadline()

    def close(self) -> None:
        """Drops what it holds. The reply has to be closed as well."""
        self._events = iter(())
        self._parser.clear()
        self._reply.keep(0)
