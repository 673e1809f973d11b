"""Remembers the calls that ended last, for a Redis that loses its data.

A Redis that restarts without its data gets back the calls under way from the replicas that run them. A call that had
just ended would be restored as running for ever, or it would be missing and run once more; in a snapshot from before
its end it would run for ever, too. So the replica that ran a call remembers its record, and the one that received its
outcome remembers that, for as long as the result is kept, if there is room.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from gateway.state.port import Record

SWEEP_EVERY_S = 1.0  # between two looks for what is not recent any more
MAX_COUNT = 5000  # so many are restored and reported again in a quarter of a second; there are some seconds for that
MAX_BYTES = 16 << 20
ENTRY_BYTES = 1024  # counted for an ending beside its note and its outcome


class Ending(Struct, frozen=True, gc=False):
    """How a call ended: its `record` if this process owned it, its `outcome` if that was stored from here.

    `when_s` is a time of the clock. `is_reduced`: the outcome is all that is kept of the call.
    """

    key: str
    when_s: float
    record: Record | None
    outcome: bytes | None
    size_bytes: int
    is_reduced: bool = False


class RecentEndings:
    """The latest endings, in order, each kept for `kept_s` at most."""

    def __init__(self, kept_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._endings: OrderedDict[str, Ending] = OrderedDict()
        self._bytes = 0
        self._sweep_at = 0.0

    def reduce(self, key: str, outcome: bytes) -> None:
        """Replaces the outcome of a call by the only one that is kept of it."""
        if key in self._endings:
            self.add(key, None, outcome, is_reduced=True)

    def add(self, key: str, record: Record | None, outcome: bytes | None = None, *, is_reduced: bool = False) -> None:
        """Remembers the record of a call that ended, its outcome, or both, beside what is known of it already."""
        if key in self._endings:
            known = self._endings.pop(key)
            self._bytes -= known.size_bytes
            record, outcome = record or known.record, known.outcome if outcome is None else outcome
        now = self._clock()
        size_bytes = ENTRY_BYTES + len(record.note if record else b"") + len(outcome or b"")
        self._endings[key] = Ending(key, now, record, outcome, size_bytes, is_reduced)
        self._bytes += size_bytes
        if now >= self._sweep_at or self._bytes > MAX_BYTES or len(self._endings) > MAX_COUNT:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Drops what is not recent any more, and the oldest until there is room for the others."""
        self._sweep_at = now + SWEEP_EVERY_S
        while self._endings:
            oldest = next(iter(self._endings.values()))
            if len(self._endings) <= MAX_COUNT and self._bytes <= MAX_BYTES and now - oldest.when_s < self._kept_s:
                return
            del self._endings[oldest.key]
            self._bytes -= oldest.size_bytes

    def all(self) -> list[Ending]:
        """Those whose results have not expired."""
        oldest_s = self._clock() - self._kept_s
        return [ending for ending in self._endings.values() if ending.when_s > oldest_s]
