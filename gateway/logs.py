"""Log lines for operators: one JSON object each, or text for a terminal.

A record is a constant message plus `extra` fields. Secrets, arguments, values and the paths of challenges are never
among them.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from gateway import jsontext
from gateway.model import Json, JsonObject

MAX_DEPTH = 4  # of an extra; ours are scalars and flat lists, whatever goes deeper is somebody else's
MAX_ITEMS = 100  # of one collection in an extra

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure(level: str, form: str) -> None:
    """Sends everything from `level` up to standard error; `form` is `json` or `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It logs the URL of every request at INFO, and the paths of challenges are credentials.
    logging.getLogger("httpx").setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "message", ...extras, "exception"?}`; time is RFC 3339 in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: JsonObject = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= {key: value for key, value in _extras(record).items() if key not in line}
        return jsontext.encode(_plain(line)).decode()


class TextLines(logging.Formatter):
    """`12:00:00 WARNING message (key=value, ...)`, the exception on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        extras = ", ".join(f"{key}={printable(_text(value))}" for key, value in _extras(record).items())
        text = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname:<7} {printable(record.getMessage())}"
        text += f" ({extras})" if extras else ""
        if not record.exc_info:
            return text
        return "\n".join([text, *map(printable, self.formatException(record.exc_info).splitlines())])


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, forge a line or fail to be encoded."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _extras(record: logging.LogRecord) -> JsonObject:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _plain(value: object, depth: int = MAX_DEPTH) -> Json:
    """The value as JSON has it: whatever is not JSON becomes text."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:  # of larger ones most readers of logs make something else
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping() if depth:
            items = list(value.items())[:MAX_ITEMS]
            return {_text(key): _plain(item, depth - 1) for key, item in items}
        case list() | tuple() | set() | frozenset() if depth:
            return [_plain(item, depth - 1) for item in list(value)[:MAX_ITEMS]]
        case _:
            return _text(value)


def _text(value: object) -> str:
    """A text that UTF-8 can hold; a line must come out whatever it is about."""
    try:
        text = value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text.encode(errors="backslashreplace").decode()
