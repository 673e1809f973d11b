"""What this process knows of the calls that ended last, for a Redis that loses its data.

A Redis that restarts without its data gets back the calls under way from the replicas that run them. A call that had
just ended would be put back as running for ever, or it would be missing and run once more; in a snapshot from before
its end it would run for ever, too. So the replica that ran a call remembers its record, and the one that its outcome
came to remembers that, for as long as the result is kept, if there is room.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from gateway.state.port import Record

LOOK_S = 1.0  # between two looks for what is not recent any more
MAX_COUNT = 5000  # so many are put back and told again in a quarter of a second; there are some seconds for that
MAX_BYTES = 16 << 20
ENTRY_BYTES = 1024  # what an ending weighs besides its note and its outcome


class Ended(Struct, frozen=True, gc=False):
    """How a call ended: its `record` if this process held it, its `outcome` if it ended here.

    `when` is in seconds of the clock. `is_reduced`: the outcome is all that is kept of the call.
    """

    key: str
    when: float
    record: Record | None
    outcome: bytes | None
    size_bytes: int
    is_reduced: bool = False


class Recent:
    """The latest endings, in order, each kept for `kept_s` at most."""

    def __init__(self, kept_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._bytes = 0
        self._look_at = 0.0

    def reduce(self, key: str, outcome: bytes) -> None:
        """From now on no more than this outcome is kept of a call."""
        if key in self._ended:
            self.note(key, None, outcome, is_reduced=True)

    def note(self, key: str, record: Record | None, outcome: bytes | None = None, *, is_reduced: bool = False) -> None:
        """Remembers the record of a call that ended, its outcome, or both; what is known of it already is kept."""
        if key in self._ended:
            known = self._ended.pop(key)
            self._bytes -= known.size_bytes
            record, outcome = record or known.record, known.outcome if outcome is None else outcome
        now = self._clock()
        size_bytes = ENTRY_BYTES + len(record.note if record else b"") + len(outcome or b"")
        self._ended[key] = Ended(key, now, record, outcome, size_bytes, is_reduced)
        self._bytes += size_bytes
        if now >= self._look_at or self._bytes > MAX_BYTES or len(self._ended) > MAX_COUNT:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Drops what is not recent any more, and the oldest until there is room for the others."""
        self._look_at = now + LOOK_S
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if len(self._ended) <= MAX_COUNT and self._bytes <= MAX_BYTES and now - oldest.when < self._kept_s:
                return
            del self._ended[oldest.key]
            self._bytes -= oldest.size_bytes

    def all(self) -> list[Ended]:
        """Those that are to be told again: their results have not expired."""
        oldest = self._clock() - self._kept_s
        return [ended for ended in self._ended.values() if ended.when > oldest]
