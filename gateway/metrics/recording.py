"""One method per event. Labels are configured names and fixed words; whatever else comes is counted as `other`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from gateway.metrics.families import (
    AUTH_FAILURES,
    CALLBACKS,
    OVERHEAD,
    OVERHEAD_S,
    RATE_LIMITED,
    RELOADS,
    REQUEST_DURATION,
    REQUEST_S,
    REQUESTS,
    TOOL_CALLS,
    TOOL_DURATION,
    TOOL_S,
    Family,
    Reading,
)
from gateway.metrics.store import Cells, Store

OTHER = "other"
NONE = "none"  # no dialect, no backend
OPERATIONS = frozenset(
    {
        "call",
        "list",
        "poll",
        "cancel",
        "callback",
        "challenge",
        "health",
        "openapi",
        "metrics",
        "preflight",
        "handshake",
    }
)
OUTCOMES = frozenset({"ok", "tool_error", "invalid", "refused", "timeout", "unknown"})
CALLBACK_OUTCOMES = {200: "taken", 400: "refused", 404: "unknown", 413: "too_large", 503: "no_room"}
# All that this gateway answers with; another status would be counted by its class.
SAID = (200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 413, 414, 415, 422, 429, 431, 499, 500, 501, 503, 505)
STATUSES = {0: NONE} | {status: str(status) for status in SAID}


class Known(Struct, frozen=True, kw_only=True):
    """The words that labels may have. `protocols` has each backend's."""

    dialects: frozenset[str]
    protocols: Mapping[str, str]
    reasons: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()


class Metrics:
    """Counts. `gauges` is asked for what gauges show whenever somebody wants to know.

    Of tools, the first `max_tools` that are called are told apart, by all that share the store. `reloads` counts the
    configurations that took the place of another, and those that could not.
    """

    def __init__(self, store: Store, known: Known, *, max_tools: int, gauges: Callable[[], Iterable[Reading]]) -> None:
        self._store = store
        self._known = known
        self._max_tools = max_tools
        self._gauges = gauges
        self.reloads = {"ok": 0, "failed": 0}
        self._shown: dict[tuple[Family, tuple[str, ...]], Cells] = {}
        self._overhead = store.row(OVERHEAD, ())
        # Rows bound on first use. The keys are what was asked for, as far as it is known: never a caller's word.
        self._requests: dict[tuple[str | None, str, int], tuple[Cells, Cells]] = {}
        self._counted: dict[tuple[str, tuple[str, ...]], Cells] = {}
        self._failures: dict[str, Cells] = {}
        self._limited: dict[str, Cells] = {}
        self._calls: dict[tuple[str, str, str], tuple[Cells, Cells]] = {}

    def know(self, known: Known, *, max_tools: int) -> None:
        """Goes by other words from here on; what was counted under the old ones stays."""
        self._known = known
        self._max_tools = max_tools
        for bound in (self._calls, self._failures, self._limited):
            bound.clear()

    def request(
        self, dialect: str | None, operation: str, status: int, duration_s: float, tool_s: float | None = None
    ) -> None:
        """Counts an answered request. For a call, `tool_s` of its duration went by waiting for a tool server."""
        rows = self._requests.get((dialect, operation, status)) or self._bind_request(dialect, operation, status)
        count, durations = rows
        count[0] += 1.0
        durations[bisect_left(REQUEST_S, duration_s)] += 1.0
        durations[-1] += duration_s
        if tool_s is not None:
            own_s, overhead = duration_s - tool_s, self._overhead
            overhead[bisect_left(OVERHEAD_S, own_s)] += 1.0
            overhead[-1] += own_s

    def turned_away(self, dialect: str | None, operation: str, status: int) -> None:
        """Counts a request without its duration: it never got where that is measured."""
        count, _ = self._requests.get((dialect, operation, status)) or self._bind_request(dialect, operation, status)
        count[0] += 1.0

    def tool_call(self, backend: str, tool: str, outcome: str, tool_s: float) -> None:
        """Counts a run of a tool by how it ended, or a call that was refused one.

        `tool_s` is 0 when no tool server was asked; `tool` has no version.
        """
        count, durations = self._calls.get((tool, backend, outcome)) or self._bind_call(tool, backend, outcome)
        count[0] += 1.0
        if tool_s > 0.0:
            durations[bisect_left(TOOL_S, tool_s)] += 1.0
            durations[-1] += tool_s

    def auth_failure(self, reason: str) -> None:
        """Counts a caller nobody knows, by the reason in `UnauthenticatedError`."""
        cells = self._failures.get(reason) or self._bind_reason(
            AUTH_FAILURES, reason, self._known.reasons, self._failures
        )
        cells[0] += 1.0

    def rate_limited(self, rule: str) -> None:
        """Counts a refusal by the limit that has to be waited for longest."""
        cells = self._limited.get(rule) or self._bind_reason(RATE_LIMITED, rule, self._known.rules, self._limited)
        cells[0] += 1.0

    def callback(self, backend: str | None, status: int) -> None:
        """Counts what a tool server has posted, by the status it was answered with."""
        self._add(CALLBACKS, self._backend(backend), CALLBACK_OUTCOMES.get(status, OTHER))

    def reload(self, outcome: str) -> None:
        """Counts a configuration that was read again: `ok` or `failed`."""
        self.reloads[outcome] += 1
        self._add(RELOADS, outcome)

    def publish(self) -> None:
        """Shows what gauges have to show now; those that nobody speaks of any more show nothing."""
        unseen = dict(self._shown)
        for family, labels, value in self._gauges():
            cells = self._shown.get((family, labels))
            if cells is None:
                cells = self._shown[family, labels] = self._store.row(family, labels)
            cells[0] = value
            unseen.pop((family, labels), None)
        for key, cells in unseen.items():
            cells[0] = float("nan")
            del self._shown[key]

    def _add(self, family: Family, *labels: str) -> None:
        cells = self._counted.get((family.name, labels))
        if cells is None:
            cells = self._counted[family.name, labels] = self._store.row(family, labels)
        cells[0] += 1.0

    def _backend(self, name: str | None) -> str:
        return NONE if name is None else _of(name, self._known.protocols)

    def _bind_request(self, dialect: str | None, operation: str, status: int) -> tuple[Cells, Cells]:
        spoken = NONE if dialect is None else _of(dialect, self._known.dialects)
        done = _of(operation, OPERATIONS)
        told = STATUSES.get(status) or f"{min(max(status // 100, 1), 5)}xx"
        rows = self._store.row(REQUESTS, (spoken, done, told)), self._store.row(REQUEST_DURATION, (spoken, done))
        if spoken != OTHER and done != OTHER and status in STATUSES:
            self._requests[dialect, operation, status] = rows
        return rows

    def _bind_reason(self, family: Family, word: str, known: Collection[str], bound: dict[str, Cells]) -> Cells:
        told = _of(word, known)
        cells = self._store.row(family, (told,))
        if told == word:
            bound[told] = cells
        return cells

    def _bind_call(self, tool: str, backend: str, outcome: str) -> tuple[Cells, Cells]:
        told = _of(outcome, OUTCOMES)
        known = self._backend(backend)
        protocol = self._known.protocols.get(backend, OTHER)
        is_told_apart = backend in self._known.protocols and self._store.tell_apart(tool, backend, self._max_tools)
        counted = self._store.row(TOOL_CALLS, (known, protocol, tool if is_told_apart else OTHER, told))
        rows = counted, self._store.row(TOOL_DURATION, (known, protocol))
        if is_told_apart and told == outcome:  # of the others there may be any number
            self._calls[tool, backend, outcome] = rows
        return rows


def _of(word: str, known: Collection[str]) -> str:
    return str(word) if word in known else OTHER
