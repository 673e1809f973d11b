"""Server-sent events, read out of a stream of bytes and written (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator

from msgspec import Struct

EVENT_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold the events back
)
COMMENT = b":\n\n"
IDLE = re.compile(rb"(?:[\r\n]++|:[^\r\n]*+[\r\n]++)++")  # between two events: blank lines and comments
IDLE_BEGINS = b"\r\n:"
IDLE_BYTES_PER_TURN = 4096  # bytes: 0.1 ms
LINES_PER_TURN = 64
MAX_ID_BYTES = 1024  # it goes into a header
MAX_RETRY_DIGITS = 9  # of milliseconds: eleven days


class SseEvent(Struct, frozen=True):
    """One event."""

    data: bytes  # not decoded, so that bytes that are not UTF-8 can be refused and are not replaced
    type: str = "message"


def is_event_stream(content_type: bytes | None) -> bool:
    """Whether an answer with this header is a stream of events."""
    return content_type is not None and content_type.lower().startswith(b"text/event-stream")


def event(data: bytes) -> bytes:
    """An event with one line of data, such as JSON text of ours."""
    return b"event: message\ndata: %b\n\n" % data


class EventParser:
    """Puts the events of one stream together from chunks that may be cut anywhere.

    An event whose lines have more than `max_event_bytes` is left out, and nothing of it is held; `is_too_large` says so
    before it ends. Comments do not count.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self.skipped = 0  # events that were left out
        self.lines = 0  # that have ended
        self.last_id = b""  # what a new connection may send as `Last-Event-ID`; empty: nothing
        self.retry_ms: int | None = None  # how long the server asks to wait before that, if it does
        self._max_event_bytes = max_event_bytes
        self._start: bytes | None = b""  # the first bytes, while they may be a byte order mark; None afterwards
        self._after_cr = False
        self._line = bytearray()
        self._line_bytes = 0
        self._event_bytes = 0  # of the lines before this one
        self._data: list[bytes] = []
        self._type = ""
        self._id = b""

    @property
    def held_bytes(self) -> int:
        """How much it holds of an event that is not complete."""
        return len(self._line) + (self._event_bytes if self._data else 0)

    @property
    def is_too_large(self) -> bool:
        """Whether the event that arrives has passed the limit."""
        size = self._event_bytes + (0 if self._line.startswith(b":") else self._line_bytes)
        return size > self._max_event_bytes

    def clear(self) -> None:
        """Drops what it holds of an event that is not complete."""
        self._line, self._data = bytearray(), []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Takes the next bytes and returns the events that are now complete."""
        return [event for event in self.read(chunk) if event is not None]

    def read(self, chunk: bytes) -> Iterator[SseEvent | None]:
        """Takes the next bytes, and yields the events that are now complete as soon as each is.

        Yields None after some lines without one: there may be many of them, and others want their turn.
        """
        chunk = self._strip_start(chunk)
        at, until = 0, self.lines + LINES_PER_TURN
        ends = _LineEnds(chunk)
        while at < len(chunk):
            if chunk[at] in IDLE_BEGINS and not (self._line_bytes or self._event_bytes):
                at = self._skip_idle(chunk, at)
            line = ends.next(at)
            if line is None:
                break
            end, behind = line
            self._extend_line(chunk[at:end])
            at, self.lines = behind, self.lines + 1
            if (event := self._end_line()) is not None:
                yield event
            if self.lines >= until:
                until = self.lines + LINES_PER_TURN
                yield None
        if at < len(chunk):
            self._extend_line(chunk[at:])

    def _strip_start(self, chunk: bytes) -> bytes:
        """A chunk without the mark at the beginning of a stream, and without the other half of an end of a line."""
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(BOM_UTF8) and BOM_UTF8.startswith(chunk):
                self._start = chunk
                return b""
            chunk, self._start = chunk.removeprefix(BOM_UTF8), None
        if chunk:
            has_half, self._after_cr = self._after_cr, chunk.endswith(b"\r")
            if has_half:
                chunk = chunk.removeprefix(b"\n")
        return chunk

    def _skip_idle(self, chunk: bytes, at: int) -> int:
        """Where the blank lines and comments end that begin there, or a part of them if they are many."""
        idle = IDLE.match(chunk, at, at + IDLE_BYTES_PER_TURN)
        if idle is None:
            return at
        self.lines += max(chunk.count(b"\n", at, idle.end()), chunk.count(b"\r", at, idle.end()))
        return idle.end()

    def _extend_line(self, part: bytes) -> None:
        """Adds to the line; of one that makes its event too large, only the start is kept."""
        self._line_bytes += len(part)
        if self._event_bytes + self._line_bytes <= self._max_event_bytes:
            self._line += part
        elif not self._line:
            self._line += part[:1]  # enough to tell a comment
        elif len(self._line) > 1:
            del self._line[1:]

    def _end_line(self) -> SseEvent | None:
        line, size = self._line, self._line_bytes
        self._line, self._line_bytes = bytearray(), 0
        if not size:
            return self._dispatch()
        if not line.startswith(b":"):
            self._event_bytes += size
            if self._event_bytes <= self._max_event_bytes:
                self._take_field(line)
            else:
                self._data = []
        return None

    def _take_field(self, line: bytearray) -> None:
        colon = line.find(b":")
        name = bytes(line) if colon < 0 else bytes(line[:colon])
        # A value may have megabytes: it is cut off in place, and copied once.
        del line[: len(name) + 1]
        if line.startswith(b" "):
            del line[:1]
        value = bytes(line)
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value if len(value) <= MAX_ID_BYTES else b""
        elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self.retry_ms = int(value)

    def _dispatch(self) -> SseEvent | None:
        """Ends an event at a blank line; one without data is none."""
        data, kind, size = self._data, self._type, self._event_bytes
        self._data, self._type, self._event_bytes = [], "", 0
        self.last_id = self._id
        if size > self._max_event_bytes:
            self.skipped += 1
            return None
        return SseEvent(b"\n".join(data), kind or "message") if data else None


class _LineEnds:
    """Finds the ends of lines in a text one after the other, each kind by itself: a pattern takes ten times as long."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._feed, self._return = text.find(b"\n"), text.find(b"\r")  # the next of each kind, -1 if there is none

    def next(self, at: int) -> tuple[int, int] | None:
        """Where the line ends that begins at `at`, and where the next one begins; None if it does not end."""
        if 0 <= self._feed < at:
            self._feed = self._text.find(b"\n", at)
        if 0 <= self._return < at:
            self._return = self._text.find(b"\r", at)
        feed, carriage = self._feed, self._return
        if carriage < 0 or 0 <= feed < carriage:
            return None if feed < 0 else (feed, feed + 1)
        return carriage, carriage + (2 if feed == carriage + 1 else 1)
