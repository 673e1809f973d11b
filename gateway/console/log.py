"""The latest lines of the access log, for the page that shows them live."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gateway.console.view import RefusedQuestionError, text_of
from gateway.core.model import JsonObject
from gateway.http.accesslog import MAX_WORD, AccessLine, AccessLog
from gateway.logs.output import printable

KEPT = 500  # lines, some 0.5 KB each
SHOWN = (
    "time", "operation", "route", "status", "dialect", "revision", "principal", "tool", "version", "backend", "outcome",
    "reason", "client", "call_id", "toolgate_call_id", "bytes_in", "bytes_out",
)  # fmt: skip


class RecentLines:
    """Keeps lines as they are written; where they are not, once somebody has opened the console."""

    def __init__(self, access: AccessLog) -> None:
        self._access = access
        self._lines: deque[AccessLine] = deque(maxlen=KEPT)
        self._last = 0
        access.keep(self._keep)

    def _keep(self, line: AccessLine) -> None:
        self._lines.append(line)
        self._last += 1

    def look(self) -> None:
        """Somebody has opened the console, and may want to see the lines from now on."""
        self._access.look()

    def since(self, about: JsonObject) -> JsonObject:
        """The lines after a cursor, or all; the cursor says which was the last. Raises RefusedQuestionError."""
        self.look()
        after = text_of(about, "after") or "0"
        if not (after.isascii() and after.isdigit() and len(after) < 20):
            raise RefusedQuestionError(400, "after must be a cursor.")
        # A cursor beyond the last line is of an earlier process: then all lines are new.
        new = self._last - int(after) if int(after) <= self._last else self._last
        first = self._last - min(new, len(self._lines))
        lines = list(self._lines)[len(self._lines) - min(new, len(self._lines)) :]
        shown = [_shown(line) | {"key": str(number)} for number, line in enumerate(lines, first + 1)]
        return {"lines": shown, "cursor": str(self._last)}

    def seconds_of(self, tool: str) -> list[float]:
        """How long the latest calls of a tool took."""
        return [line.duration_s for line in self._lines if line.tool == tool and line.operation == "call"]


def _shown(line: AccessLine) -> JsonObject:
    shown = {name: getattr(line, name) for name in SHOWN}
    for name in ("principal", "call_id"):
        if shown[name]:
            shown[name] = printable(shown[name][:MAX_WORD])
    shown = {name: value for name, value in shown.items() if value not in (None, "")}
    shown["request_id"] = line.request_id.decode("ascii", "replace")
    shown["duration_ms"] = round(line.duration_s * 1000, 3)
    if line.tool_s:
        shown["tool_ms"] = round(line.tool_s * 1000, 3)
    return shown


def quantiles(seconds: Sequence[float]) -> JsonObject | None:
    """Half of these took at most `p50_s`, and 99 of 100 at most `p99_s`; None of none."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    at: Callable[[float], float] = lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # noqa: E731
    return {"count": len(ordered), "p50_s": at(0.5), "p99_s": at(0.99)}
