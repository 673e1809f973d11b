"""The latest lines of the access log, for the page that shows them live."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice

from msgspec import to_builtins

from gateway.console.view import RefusedQuestionError, text_of
from gateway.core.model import JsonObject
from gateway.http.accesslog import AccessLine, AccessLog

MAX_LINES = 500  # some 0.5 KB each


class RecentLines:
    """Holds the latest lines that are written; where they are not, those since somebody has opened the console.

    So who opens the page sees what has just happened. All that a line costs a request is one `append`: it is numbered
    when somebody asks.
    """

    def __init__(self, access: AccessLog) -> None:
        self._access = access
        self._lines: deque[AccessLine] = deque(maxlen=MAX_LINES)
        self._last: AccessLine | None = None  # the last line that has a number
        self._count = 0  # the number of that line
        access.show(self._lines.append)

    def watch(self) -> None:
        """Somebody has opened the console, and may want to see the lines from now on."""
        self._access.watch()

    def since(self, about: JsonObject) -> JsonObject:
        """The lines after a cursor, or all; the cursor says which was the last. Raises RefusedQuestionError."""
        self.watch()
        after = text_of(about, "after") or "0"
        if not (after.isascii() and after.isdigit() and len(after) < 20):
            raise RefusedQuestionError(400, "after must be a cursor.")
        self._number()
        # A cursor beyond the last line is of an earlier process: then all lines are new.
        new = min(self._count - int(after) if int(after) <= self._count else self._count, len(self._lines))
        lines = islice(self._lines, len(self._lines) - new, None)
        shown = [_shown(line) | {"key": str(number)} for number, line in enumerate(lines, self._count - new + 1)]
        return {"lines": shown, "cursor": str(self._count)}

    def _number(self) -> None:
        """Numbers the lines that have come since the last time; those that are gone by now have no number."""
        for line in reversed(self._lines):
            if line is self._last:
                break
            self._count += 1
        self._last = self._lines[-1] if self._lines else None

    def seconds_of(self, tool: str) -> list[float]:
        """How long the latest calls of a tool took."""
        return [line.duration_ms / 1000 for line in self._lines if line.tool == tool and line.operation == "call"]


def _shown(line: AccessLine) -> JsonObject:
    shown: JsonObject = to_builtins(line)
    return shown | {"time": datetime.fromisoformat(line.time).timestamp()}


def quantiles(seconds: Sequence[float]) -> JsonObject | None:
    """Half of these took at most `p50_s`, and 99 of 100 at most `p99_s`; None of none."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    at: Callable[[float], float] = lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # noqa: E731
    return {"count": len(ordered), "p50_s": at(0.5), "p99_s": at(0.99)}
