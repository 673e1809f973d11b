"""Server-sent events out of a stream of bytes (WHATWG HTML, section 9.2), as far as RCRT uses them: their data."""

from __future__ import annotations

import re
from codecs import BOM_UTF8

LINE_END = re.compile(rb"\r\n|\n|\r")


class EventParser:
    """Puts events together from chunks cut anywhere, in the middle of a character too. Belongs to one stream.

    An event of more than `max_bytes` is left out and counted in `skipped`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.skipped = 0
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0  # of the event so far
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the data of each event that is now complete."""
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        events = []
        *ends, rest = LINE_END.split(chunk)
        for end in ends:
            self._extend(end)
            line, self._line = bytes(self._line), bytearray()
            if line:
                self._take(line)
            elif (event := self._finish()) is not None:
                events.append(event)
        self._extend(rest)
        return events

    def _extend(self, part: bytes) -> None:
        """Adds to the line, unless its event is too large already; then what is kept no longer matters."""
        self._size += len(part)
        if self._size <= self._max_bytes:
            self._line += part
        elif part and not self._line:
            self._line += b":"  # something was here: the line is not the blank one that ends an event

    def _take(self, line: bytes) -> None:
        if self._at_start:
            line = line.removeprefix(BOM_UTF8)
            self._at_start = False
        name, _, value = line.partition(b":")
        if not name and self._size <= self._max_bytes:
            self._size -= len(line)  # a comment, which need not be followed by a blank line
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))  # the space may be missing

    def _finish(self) -> bytes | None:
        data, size = self._data, self._size
        self._data, self._size = [], 0
        if size > self._max_bytes:
            self.skipped += 1
            return None
        return b"\n".join(data) if data else None
