"""One method per event. Labels are configured names and fixed words; everything else is counted as `other`."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from gateway.core.errors import ErrorCode
from gateway.core.model import JsonObject
from gateway.metrics.families import (
    ACCOUNT_BYTES,
    ACCOUNT_CALLS,
    ACCOUNT_REFUSALS,
    AUTH_FAILURES,
    AUTHORIZATION_DURATION,
    AUTHORIZATIONS,
    CALL_QUOTAS,
    CALLBACKS,
    DROPPED_NOTICES,
    LAST_RELOAD,
    LAST_RELOAD_TIME,
    LIMIT_USED,
    OTHER,
    OVERHEAD,
    OVERHEAD_S,
    RATE_LIMITED,
    RELOADS,
    REQUEST_DURATION,
    REQUEST_S,
    REQUESTS,
    SPANS,
    STATE_LOSSES,
    TOOL_CALLS,
    TOOL_DURATION,
    TOOL_S,
    USED_SHARES,
    WORKER_DEATHS,
    Family,
    GaugeSample,
)
from gateway.metrics.store import Counted, MetricStore, Row, Series

Key = TypeVar("Key")
Rows = TypeVar("Rows")

MAX_BOUND = 50_000  # keys with their rows, some 200 bytes each; with many tools and accounts there may be more of them
NONE = "none"  # no dialect, no backend
OPERATIONS = frozenset({
    "call", "list", "poll", "listen", "cancel", "callback", "challenge", "health", "openapi", "metrics", "metadata",
    "preflight", "console",
    "handshake",
})  # fmt: skip
OUTCOMES = frozenset({"ok", "tool_error", "invalid", "refused", "timeout", "unknown"})
CODES = frozenset(map(str, ErrorCode))
QUOTAS = frozenset({"pending", "records", "bytes", "room"})
CALLBACK_OUTCOMES = {
    200: "taken",
    400: "refused",
    404: "unknown",
    410: "late",
    413: "too_large",
    415: "compressed",
    503: "no_room",
}
# All that this gateway answers with; another status would be counted by its class.
SENT = (200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 410, 413, 414, 415, 422, 429, 431, 499, 500, 501, 503, 505)
STATUSES = {0: NONE} | {status: str(status) for status in SENT}


class LabelValues(Struct, frozen=True, kw_only=True):
    """The values that labels may have. `protocols` maps each backend to its protocol."""

    dialects: frozenset[str]
    protocols: Mapping[str, str]
    reasons: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()


class Metrics:
    """Counts what happens in this process.

    `gauges` returns what the gauges show. The first `max_tools` tools that are called have a label of their own.
    `reloads` counts the configurations that replaced another, and those that could not; `is_current` is whether the
    last one did, and `reload_problems` are why not. The one in use was `read_at`, in seconds since 1970.
    """

    def __init__(self, values: LabelValues, *, max_tools: int, gauges: Callable[[], Iterable[GaugeSample]]) -> None:
        self.store = MetricStore()
        self.reloads = {"ok": 0, "failed": 0}
        self.is_current = True
        self.reload_problems: Sequence[str] = ()
        self.read_at = time.time()
        self._gauges = gauges
        self._overhead = self.store.row(OVERHEAD, ())
        self._losses = self.store.row(STATE_LOSSES, ())  # from the start, so that the first is seen as an increase
        self.store.row(WORKER_DEATHS, ("died",))
        self.store.row(WORKER_DEATHS, ("hung",))
        # Rows bound at the first use. Their keys are values that labels may have, never a caller's word.
        self._requests: dict[tuple[str | None, str, int, str], tuple[Row, Row, Row, Row]] = {}
        self._calls: dict[tuple[str, str, str, str], tuple[Row, Row, Row]] = {}
        self._limits: dict[str, Row] = {}
        self.use_labels(values, max_tools=max_tools)

    def use_labels(self, values: LabelValues, *, max_tools: int) -> None:
        """Allows other label values from here on; what was counted under the old ones stays."""
        self._values = values
        self._max_tools = max_tools
        for bound in (self._requests, self._calls, self._limits):
            bound.clear()
        for name, protocol in values.protocols.items():
            if protocol == "callback":  # from the start, as those of the state
                self.store.row(DROPPED_NOTICES, (name,))

    def request(
        self,
        dialect: str | None,
        operation: str,
        status: int,
        duration_s: float,
        tool_s: float | None = None,
        account: str = "",
        bytes_in: int = 0,
        bytes_out: int = 0,
    ) -> None:
        """Counts an answered request, and the bytes of its body and its answer for its caller's account, if it has one.

        Of a call's duration, `tool_s` was spent waiting for a tool server.
        """
        key = dialect, operation, status, account
        count, durations, received, sent = self._requests.get(key) or self._bind_request(*key)
        count[0] += 1.0
        durations[bisect_left(REQUEST_S, duration_s)] += 1.0
        durations[-1] += duration_s
        received[0] += bytes_in
        sent[0] += bytes_out
        if tool_s is not None:
            own_s, overhead = duration_s - tool_s, self._overhead
            overhead[bisect_left(OVERHEAD_S, own_s)] += 1.0
            overhead[-1] += own_s

    def turned_away(self, dialect: str | None, operation: str, status: int) -> None:
        """Counts a request that was refused before its duration could be measured."""
        self._bind_request(dialect, operation, status, "")[0][0] += 1.0

    def tool_call(self, backend: str, tool: str, outcome: str, tool_s: float, account: str) -> None:
        """Counts a run of a tool, or a call that was refused one, by its outcome, and for its caller's account.

        `tool_s` is 0 when no tool server was asked; `tool` has no version.
        """
        key = tool, backend, outcome, account
        count, durations, of_account = self._calls.get(key) or self._bind_call(*key)
        count[0] += 1.0
        of_account[0] += 1.0
        if tool_s > 0.0:
            durations[bisect_left(TOOL_S, tool_s)] += 1.0
            durations[-1] += tool_s

    def refused(self, account: str, code: str) -> None:
        """Counts a refusal for its caller's account, by its `ErrorCode`."""
        self._add(ACCOUNT_REFUSALS, self._account(account), _of(code, CODES))

    def auth_failure(self, reason: str) -> None:
        """Counts a caller that could not be identified, by the reason in `UnauthenticatedError`."""
        self._add(AUTH_FAILURES, _of(reason, self._values.reasons))

    def authorization(self, outcome: str) -> None:
        """Counts a call by what the authorization service decided: `allowed`, `denied` or `unavailable`."""
        self._add(AUTHORIZATIONS, outcome)

    def authorization_asked(self, duration_s: float) -> None:
        """Counts a question to the authorization service, answered or not."""
        durations = self.store.row(AUTHORIZATION_DURATION, ())
        durations[bisect_left(REQUEST_S, duration_s)] += 1.0
        durations[-1] += duration_s

    def rate_limited(self, rule: str) -> None:
        """Counts a refusal, by the rule with the longest wait."""
        self._add(RATE_LIMITED, _of(rule, self._values.rules))

    def limit_used(self, rule: str, share: float) -> None:
        """Counts a request that has met a limit, by the share of it that is used now."""
        row = self._limits.get(rule)
        if row is None:
            row = self._limits[rule] = self.store.row(LIMIT_USED, (_of(rule, self._values.rules),))
        row[bisect_left(USED_SHARES, share)] += 1.0
        row[-1] += share

    def quota_met(self, quota: str, is_full: bool) -> None:
        """Counts a call that has found a quota of stored calls nearly or entirely used."""
        self._add(CALL_QUOTAS, _of(quota, QUOTAS), "full" if is_full else "scarce")

    def callback(self, backend: str | None, status: int) -> None:
        """Counts a callback of a tool server, by the status it was answered with."""
        self._add(CALLBACKS, self._backend(backend), CALLBACK_OUTCOMES.get(status, OTHER))

    def state_lost(self) -> None:
        """Counts that the state has lost what was remembered."""
        self._losses[0] += 1.0

    def notice_dropped(self, backend: str) -> None:
        """Counts a notice to a callback tool server that is never sent."""
        self._add(DROPPED_NOTICES, self._backend(backend))

    def worker_died(self, cause: str) -> None:
        """Counts a worker that has ended without being asked to: it `died`, or `hung` and was killed."""
        self._add(WORKER_DEATHS, cause)

    def spans(self, outcome: str, count: int) -> None:
        """Counts spans: `exported`, `failed` to be, or `dropped` because too many waited."""
        self.store.row(SPANS, (outcome,))[0] += count

    def reload(self, outcome: str, problems: Sequence[str] = ()) -> None:
        """Counts a reload of the configuration: `ok` or `failed`. `problems` are why it failed."""
        self.reloads[outcome] += 1
        self.is_current, self.reload_problems = outcome == "ok", problems
        if self.is_current:
            self.read_at = time.time()
        self._add(RELOADS, outcome)

    def about_reloads(self) -> JsonObject:
        """What the detailed health says of reloads."""
        return {"reloads": dict(self.reloads), "last_reload_successful": self.is_current}

    def samples(self) -> list[GaugeSample]:
        """What the gauges show now."""
        return list(self._gauges())

    def series(self) -> list[Series]:
        """Everything that was counted, and what the gauges show now."""
        gauges = (Series(family, labels, (value,)) for family, labels, value in self._gauges())
        reloads = Series(LAST_RELOAD, (), (float(self.is_current),)), Series(LAST_RELOAD_TIME, (), (self.read_at,))
        return [*self.store.read(), *gauges, *reloads]

    def add(self, counts: Iterable[Counted]) -> None:
        """Adds what another process has counted (see `Store`)."""
        self.store.add(counts, self._max_tools)

    def _add(self, family: Family, *labels: str) -> None:
        self.store.row(family, labels)[0] += 1.0

    def _backend(self, name: str | None) -> str:
        return NONE if name is None else _of(name, self._values.protocols)

    def _account(self, name: str) -> str:
        return _of(name, self._values.accounts) if name else NONE

    def _bind_request(
        self, dialect: str | None, operation: str, status: int, account: str
    ) -> tuple[Row, Row, Row, Row]:
        dialect_label = NONE if dialect is None else _of(dialect, self._values.dialects)
        operation_label = _of(operation, OPERATIONS)
        label = STATUSES.get(status) or f"{min(max(status // 100, 1), 5)}xx"
        counted = (
            self.store.row(REQUESTS, (dialect_label, operation_label, label)),
            self.store.row(REQUEST_DURATION, (dialect_label, operation_label)),
        )
        rows = *counted, *self._account_bytes(account)
        if dialect_label != OTHER and operation_label != OTHER and status in STATUSES and self._is_known(account):
            _remember(self._requests, (dialect, operation, status, account), rows)
        return rows

    def _account_bytes(self, account: str) -> tuple[Row, Row]:
        if not account:
            return [0.0], [0.0]  # which nobody reads
        label = self._account(account)
        return self.store.row(ACCOUNT_BYTES, (label, "in")), self.store.row(ACCOUNT_BYTES, (label, "out"))

    def _bind_call(self, tool: str, backend: str, outcome: str, account: str) -> tuple[Row, Row, Row]:
        label = _of(outcome, OUTCOMES)
        backend_label = self._backend(backend)
        protocol = self._values.protocols.get(backend, OTHER)
        has_label = backend in self._values.protocols and self.store.has_label(tool, backend, self._max_tools)
        counted = self.store.row(TOOL_CALLS, (backend_label, protocol, tool if has_label else OTHER, label))
        of_account = self.store.row(ACCOUNT_CALLS, (self._account(account), label))
        rows = counted, self.store.row(TOOL_DURATION, (backend_label, protocol)), of_account
        if has_label and label == outcome and self._is_known(account):  # there may be any number of the others
            _remember(self._calls, (tool, backend, outcome, account), rows)
        return rows

    def _is_known(self, account: str) -> bool:
        return not account or account in self._values.accounts


def _remember(bound: dict[Key, Rows], key: Key, rows: Rows) -> None:
    if len(bound) >= MAX_BOUND:
        bound.clear()
    bound[key] = rows


def _of(word: str, allowed: Collection[str]) -> str:
    return str(word) if word in allowed else OTHER
