"""The last 15 minutes, in steps: calls, failures, refusals by reason, and how long calls took.

What was counted is read every few seconds, and a step is the difference of two readings.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, NoReturn

from gateway.core.model import JsonObject
from gateway.metrics import Metrics
from gateway.metrics.families import ACCOUNT_CALLS, ACCOUNT_REFUSALS, OVERHEAD, REQUEST_DURATION, Family

STEP_S = 10.0
STEPS = 90
FAILURES = frozenset({"tool_error", "timeout", "unknown"})  # outcomes of calls that may have run; others were refused

Counts = list[float]


class _Reading(NamedTuple):
    """What was counted up to one moment."""

    calls: float
    failures: float
    refusals: Mapping[str, float]
    durations: Counts
    own: Counts


class History:
    """Keeps the readings of `metrics`. `clock` gives seconds since 1970."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.time) -> None:
        self.began_at = clock()
        self._metrics = metrics
        self._clock = clock
        self._ends_at = self.began_at
        self._readings = deque([self._read()], STEPS + 1)

    async def run(self) -> NoReturn:
        """Reads the metrics once a step until it is cancelled."""
        while True:
            await asyncio.sleep(STEP_S)
            self.step()

    def step(self) -> None:
        """Ends a step."""
        self._ends_at = self._clock()
        self._readings.append(self._read())

    def _read(self) -> _Reading:
        calls = failures = 0.0
        refusals: dict[str, float] = {}
        durations, own = _empty(REQUEST_DURATION), _empty(OVERHEAD)
        for family, labels, values in self._metrics.store.read():
            if family is ACCOUNT_CALLS:
                calls += values[0]
                failures += values[0] if labels[1] in FAILURES else 0.0
            elif family is ACCOUNT_REFUSALS:
                refusals[labels[1]] = refusals.get(labels[1], 0.0) + values[0]
            elif family is REQUEST_DURATION and labels[1] == "call":
                durations = _sum(durations, values)
            elif family is OVERHEAD:
                own = list(values)
        return _Reading(calls, failures, refusals, durations, own)

    def as_json(self) -> JsonObject:
        """The steps, oldest first; times in milliseconds, null where there was no call."""
        steps = list(pairwise(self._readings))
        reasons = sorted(self._readings[-1].refusals)
        durations = [_less(after.durations, before.durations) for before, after in steps]
        own = [_less(after.own, before.own) for before, after in steps]
        refusals = {
            reason: [after.refusals.get(reason, 0.0) - before.refusals.get(reason, 0.0) for before, after in steps]
            for reason in reasons
        }
        return {
            "step_s": STEP_S,
            "steps": STEPS,
            "ends_at": self._ends_at,
            "calls": [after.calls - before.calls for before, after in steps],
            "failures": [after.failures - before.failures for before, after in steps],
            "refusals": {reason: counts for reason, counts in refusals.items() if any(counts)},
            "p50_ms": [_quantile_ms(REQUEST_DURATION, counts, 0.5) for counts in durations],
            "p99_ms": [_quantile_ms(REQUEST_DURATION, counts, 0.99) for counts in durations],
            "own_p50_ms": [_quantile_ms(OVERHEAD, counts, 0.5) for counts in own],
            "own_p99_ms": [_quantile_ms(OVERHEAD, counts, 0.99) for counts in own],
        }


def _empty(family: Family) -> Counts:
    return [0.0] * family.width


def _sum(one: Sequence[float], other: Sequence[float]) -> Counts:
    return [a + b for a, b in zip(one, other, strict=True)]


def _less(one: Sequence[float], other: Sequence[float]) -> Counts:
    return [a - b for a, b in zip(one, other, strict=True)]


def _quantile_ms(family: Family, counts: Sequence[float], share: float) -> float | None:
    """A quantile, interpolated in its bucket as Prometheus does; at most the last bound. None without any count."""
    *within, above, _ = counts
    wanted = share * (sum(within) + above)
    if not wanted:
        return None
    seen, lower_s = 0.0, 0.0
    for upper_s, count in zip(family.buckets, within, strict=True):
        if count and seen + count >= wanted:
            return round((lower_s + (upper_s - lower_s) * (wanted - seen) / count) * 1000, 4)
        seen, lower_s = seen + count, upper_s
    return lower_s * 1000
