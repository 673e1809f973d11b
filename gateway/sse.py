"""Server-sent events, read out of a stream of bytes and written (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from codecs import BOM_UTF8

from msgspec import Struct

EVENT_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold the events back
)
COMMENT = b":\n\n"
LINE_END = re.compile(rb"\r\n|\n|\r")
MAX_ID_BYTES = 1024  # it goes into a header
MAX_RETRY_DIGITS = 9  # of milliseconds: eleven days


class Event(Struct, frozen=True):
    """One event. `data` is not decoded, so that bytes that are not UTF-8 can be refused and are not replaced."""

    data: bytes
    type: str = "message"


def is_event_stream(content_type: bytes | None) -> bool:
    """Whether an answer with this header is a stream of events."""
    return content_type is not None and content_type.lower().startswith(b"text/event-stream")


def event(data: bytes) -> bytes:
    """An event with one line of data, such as JSON text of ours."""
    return b"event: message\ndata: %b\n\n" % data


class EventParser:
    """Puts the events of one stream together from chunks that may be cut anywhere.

    An event whose lines have more than `max_event_bytes` is left out and counted in `skipped`. Comments do not count.
    `last_id` is what a new connection may send as `Last-Event-ID`, empty if there is none; `retry_ms` is how long the
    server asks to wait before that, None if it has not.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self.skipped = 0
        self.last_id = b""
        self.retry_ms: int | None = None
        self._max_event_bytes = max_event_bytes
        self._start: bytes | None = b""  # the first bytes, while they may be a byte order mark; None afterwards
        self._after_cr = False
        self._line = bytearray()
        self._line_bytes = 0
        self._event_bytes = 0  # of the lines before this one
        self._data: list[bytes] = []
        self._type = ""
        self._id = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """Takes the next bytes and returns the events that are now complete."""
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(BOM_UTF8) and BOM_UTF8.startswith(chunk):
                self._start = chunk
                return []
            chunk, self._start = chunk.removeprefix(BOM_UTF8), None
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        events = []
        *ends, rest = LINE_END.split(chunk)
        for end in ends:
            self._extend_line(end)
            if (event := self._end_line()) is not None:
                events.append(event)
        self._extend_line(rest)
        return events

    def _extend_line(self, part: bytes) -> None:
        """Adds to the line; of one that makes its event too large, only the start is kept."""
        self._line_bytes += len(part)
        if self._event_bytes + self._line_bytes <= self._max_event_bytes:
            self._line += part
        elif not self._line:
            self._line += part[:1]  # enough to tell a comment

    def _end_line(self) -> Event | None:
        line, size = bytes(self._line), self._line_bytes
        self._line, self._line_bytes = bytearray(), 0
        if not size:
            return self._dispatch()
        if not line.startswith(b":"):
            self._event_bytes += size
            if self._event_bytes <= self._max_event_bytes:
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if name == b"data":
                    self._data.append(value)
                elif name == b"event":
                    self._type = value.decode("utf-8", "replace")
                elif name == b"id":
                    if b"\0" not in value:
                        self._id = value if len(value) <= MAX_ID_BYTES else b""
                elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
                    self.retry_ms = int(value)
        return None

    def _dispatch(self) -> Event | None:
        """Ends an event at a blank line; one without data is none."""
        data, kind, size = self._data, self._type, self._event_bytes
        self._data, self._type, self._event_bytes = [], "", 0
        self.last_id = self._id
        if size > self._max_event_bytes:
            self.skipped += 1
            return None
        return Event(b"\n".join(data), kind or "message") if data else None
