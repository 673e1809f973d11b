"""One method per event. Labels are configured names and fixed words; everything else is counted as `other`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from gateway.metrics.families import (
    AUTH_FAILURES,
    CALLBACKS,
    DROPPED_NOTICES,
    LAST_RELOAD,
    OTHER,
    OVERHEAD,
    OVERHEAD_S,
    RATE_LIMITED,
    RELOADS,
    REQUEST_DURATION,
    REQUEST_S,
    REQUESTS,
    STATE_LOSSES,
    TOOL_CALLS,
    TOOL_DURATION,
    TOOL_S,
    Family,
    Reading,
)
from gateway.metrics.store import Counted, Row, Series, Store
from gateway.model import JsonObject

NONE = "none"  # no dialect, no backend
OPERATIONS = frozenset({
    "call", "list", "poll", "listen", "cancel", "callback", "challenge", "health", "openapi", "metrics", "metadata",
    "preflight",
    "handshake",
})  # fmt: skip
OUTCOMES = frozenset({"ok", "tool_error", "invalid", "refused", "timeout", "unknown"})
CALLBACK_OUTCOMES = {200: "taken", 400: "refused", 404: "unknown", 413: "too_large", 415: "compressed", 503: "no_room"}
# All that this gateway answers with; another status would be counted by its class.
SENT = (200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 413, 414, 415, 422, 429, 431, 499, 500, 501, 503, 505)
STATUSES = {0: NONE} | {status: str(status) for status in SENT}


class LabelValues(Struct, frozen=True, kw_only=True):
    """The values that labels may have. `protocols` maps each backend to its protocol."""

    dialects: frozenset[str]
    protocols: Mapping[str, str]
    reasons: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()


class Metrics:
    """Counts what happens in this process.

    `gauges` returns what the gauges show. The first `max_tools` tools that are called have a label of their own.
    `reloads` counts the configurations that replaced another, and those that could not; `is_current` is whether the
    last one did.
    """

    def __init__(self, values: LabelValues, *, max_tools: int, gauges: Callable[[], Iterable[Reading]]) -> None:
        self.store = Store()
        self.reloads = {"ok": 0, "failed": 0}
        self.is_current = True
        self._gauges = gauges
        self._overhead = self.store.row(OVERHEAD, ())
        self._losses = self.store.row(STATE_LOSSES, ())  # from the start, so that the first is seen as an increase
        # Rows bound at the first use. Their keys are values that labels may have, never a caller's word.
        self._requests: dict[tuple[str | None, str, int], tuple[Row, Row]] = {}
        self._calls: dict[tuple[str, str, str], tuple[Row, Row]] = {}
        self.use_labels(values, max_tools=max_tools)

    def use_labels(self, values: LabelValues, *, max_tools: int) -> None:
        """Allows other label values from here on; what was counted under the old ones stays."""
        self._values = values
        self._max_tools = max_tools
        self._calls.clear()
        for name, protocol in values.protocols.items():
            if protocol == "callback":  # from the start, as those of the state
                self.store.row(DROPPED_NOTICES, (name,))

    def request(
        self, dialect: str | None, operation: str, status: int, duration_s: float, tool_s: float | None = None
    ) -> None:
        """Counts an answered request. Of a call's duration, `tool_s` was spent waiting for a tool server."""
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
        """Counts a request that was refused before its duration could be measured."""
        count, _ = self._requests.get((dialect, operation, status)) or self._bind_request(dialect, operation, status)
        count[0] += 1.0

    def tool_call(self, backend: str, tool: str, outcome: str, tool_s: float) -> None:
        """Counts a run of a tool, or a call that was refused one, by its outcome.

        `tool_s` is 0 when no tool server was asked; `tool` has no version.
        """
        count, durations = self._calls.get((tool, backend, outcome)) or self._bind_call(tool, backend, outcome)
        count[0] += 1.0
        if tool_s > 0.0:
            durations[bisect_left(TOOL_S, tool_s)] += 1.0
            durations[-1] += tool_s

    def auth_failure(self, reason: str) -> None:
        """Counts a caller that could not be identified, by the reason in `UnauthenticatedError`."""
        self._add(AUTH_FAILURES, _of(reason, self._values.reasons))

    def rate_limited(self, rule: str) -> None:
        """Counts a refusal, by the rule with the longest wait."""
        self._add(RATE_LIMITED, _of(rule, self._values.rules))

    def callback(self, backend: str | None, status: int) -> None:
        """Counts a callback of a tool server, by the status it was answered with."""
        self._add(CALLBACKS, self._backend(backend), CALLBACK_OUTCOMES.get(status, OTHER))

    def state_lost(self) -> None:
        """Counts that the state has lost what was remembered."""
        self._losses[0] += 1.0

    def notice_dropped(self, backend: str) -> None:
        """Counts a notice to a callback tool server that is never sent."""
        self._add(DROPPED_NOTICES, self._backend(backend))

    def reload(self, outcome: str) -> None:
        """Counts a reload of the configuration: `ok` or `failed`."""
        self.reloads[outcome] += 1
        self.is_current = outcome == "ok"
        self._add(RELOADS, outcome)

    def about_reloads(self) -> JsonObject:
        """What the detailed health says of reloads."""
        return {"reloads": dict(self.reloads), "last_reload_successful": self.is_current}

    def readings(self) -> list[Reading]:
        """What the gauges show now."""
        return list(self._gauges())

    def series(self) -> list[Series]:
        """Everything that was counted, and what the gauges show now."""
        gauges = (Series(family, labels, (value,)) for family, labels, value in self._gauges())
        return [*self.store.read(), *gauges, Series(LAST_RELOAD, (), (float(self.is_current),))]

    def add(self, taken: Iterable[Counted]) -> None:
        """Adds what another process has counted (see `Store`)."""
        self.store.add(taken, self._max_tools)

    def _add(self, family: Family, *labels: str) -> None:
        self.store.row(family, labels)[0] += 1.0

    def _backend(self, name: str | None) -> str:
        return NONE if name is None else _of(name, self._values.protocols)

    def _bind_request(self, dialect: str | None, operation: str, status: int) -> tuple[Row, Row]:
        spoken = NONE if dialect is None else _of(dialect, self._values.dialects)
        done = _of(operation, OPERATIONS)
        label = STATUSES.get(status) or f"{min(max(status // 100, 1), 5)}xx"
        rows = self.store.row(REQUESTS, (spoken, done, label)), self.store.row(REQUEST_DURATION, (spoken, done))
        if spoken != OTHER and done != OTHER and status in STATUSES:
            self._requests[dialect, operation, status] = rows
        return rows

    def _bind_call(self, tool: str, backend: str, outcome: str) -> tuple[Row, Row]:
        label = _of(outcome, OUTCOMES)
        known = self._backend(backend)
        protocol = self._values.protocols.get(backend, OTHER)
        has_label = backend in self._values.protocols and self.store.has_label(tool, backend, self._max_tools)
        counted = self.store.row(TOOL_CALLS, (known, protocol, tool if has_label else OTHER, label))
        rows = counted, self.store.row(TOOL_DURATION, (known, protocol))
        if has_label and label == outcome:  # there may be any number of the others
            self._calls[tool, backend, outcome] = rows
        return rows


def _of(word: str, known: Collection[str]) -> str:
    return str(word) if word in known else OTHER
