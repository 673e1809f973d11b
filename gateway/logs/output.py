"""Log lines for operators: one JSON object each, or text for a terminal, all written by the one thread of `lines`.

A record is a constant message plus `extra` fields. Secrets, arguments, values and the paths of challenges are never
among them.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.logs.lines import Lines

MAX_DEPTH = 4  # of an extra; ours are scalars and flat lists, deeper ones come from libraries
MAX_ITEMS = 100  # of one collection in an extra

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure(level: str, form: str, who: Mapping[str, int] | None = None) -> Lines | None:
    """Sends everything from `level` up to standard error; `form` is `json` or `text`.

    `who` says in each line which of several processes writes it.

    Returns the writer for further lines at INFO: None if the level is higher, or if standard error is not a file. What
    is queued is written when the process ends, or when this is called again.
    """
    formatter = JsonLines() if form == "json" else TextLines()
    fd = _descriptor()
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    lines = None
    if fd is not None:
        lines = Lines(fd, lambda count: _encoded(formatter, _dropped(count)), _marker(who, form) if who else None)
        handler = LineHandler(lines)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It logs the URL of every request at INFO, and the paths of challenges are credentials.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return lines if logging.getLogger("gateway").isEnabledFor(logging.INFO) else None


class LineHandler(logging.Handler):
    """Queues each record; `logging` closes it, and its writer, when the interpreter ends."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put(_encoded(self.formatter or TextLines(), record))
        except (TypeError, ValueError):  # arguments that do not fit the message
            self.handleError(record)

    def close(self) -> None:
        self._lines.close()
        super().close()


def _marker(who: Mapping[str, int], form: str) -> Callable[[bytes], bytes]:
    """Adds `who` to the beginning of a line."""
    if form == "json":
        members = jsontext.encode(dict(who))[:-1] + b","
        return lambda line: members + line[1:]
    words = " ".join(f"{name}={value}" for name, value in who.items())
    return lambda line: f"[{words}] ".encode() + line


def _encoded(formatter: logging.Formatter, record: logging.LogRecord) -> bytes:
    return formatter.format(record).encode(errors="backslashreplace") + b"\n"


def _dropped(count: int) -> logging.LogRecord:
    message = "log lines were dropped, because they were not read fast enough"
    record = logging.LogRecord("gateway.logs.output", logging.WARNING, __file__, 0, message, (), None)
    record.count = count
    return record


def _descriptor() -> int | None:
    """The descriptor of standard error; None where something else stands in its place, as in tests."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def stamp(seconds: float) -> str:
    """A time in seconds as RFC 3339 in UTC, with milliseconds."""
    return _millisecond(int(seconds * 1000))


@lru_cache(maxsize=8)  # lines come in order, and when time matters many in the same millisecond
def _millisecond(milliseconds: int) -> str:
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def clock(seconds: float) -> str:
    """A time in seconds as local hours, minutes and seconds."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


class JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "message", ...extras, "exception"?}`; time is RFC 3339 in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line: JsonObject = {
            "time": stamp(record.created),
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
        text = f"{clock(record.created)} {record.levelname:<7} {printable(record.getMessage())}"
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
    """The value as JSON; what JSON has not becomes text."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:  # most readers of logs change larger ones
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
