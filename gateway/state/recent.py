"""What this process knows of the calls that ended last, for a Redis that loses it.

A restarted Redis without its data gets back the calls under way from the replicas that run them. A call that had just
ended would be put back as running, for ever, or be forgotten and run once more, and one that ended since the snapshot a
Redis comes back with would run for ever, too: whoever ran it and whoever heard of its end therefore remember their half
for as long as its result is kept, if there is room.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from gateway.state.port import Record

LOOK_S = 1.0  # between two looks for what is recent no longer
MAX_COUNT = 5000  # put back and told again in a quarter of a second, of the seconds there are for that
MAX_BYTES = 16 << 20
ENTRY_BYTES = 1024  # what one weighs besides its note and its outcome


class Ended(Struct, frozen=True, gc=False):
    """`record` if the call was ours, `outcome` if it ended here, `when` in seconds of the clock.

    `is_parted`: no more than that outcome is kept of it.
    """

    key: str
    when: float
    record: Record | None
    outcome: bytes | None
    size_bytes: int
    is_parted: bool = False


class Recent:
    """The latest endings, in order, each for `kept_s` at the most."""

    def __init__(self, kept_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._bytes = 0
        self._look_at = 0.0

    def part(self, key: str, outcome: bytes) -> None:
        """No more than this is kept of a call any longer."""
        if key in self._ended:
            self.note(key, None, outcome, is_parted=True)

    def note(self, key: str, record: Record | None, outcome: bytes | None = None, *, is_parted: bool = False) -> None:
        """Remembers one half of an ending, or both; what is known of it already stays known."""
        if key in self._ended:
            known = self._ended.pop(key)
            self._bytes -= known.size_bytes
            record, outcome = record or known.record, known.outcome if outcome is None else outcome
        now = self._clock()
        size_bytes = ENTRY_BYTES + len(record.note if record else b"") + len(outcome or b"")
        self._ended[key] = Ended(key, now, record, outcome, size_bytes, is_parted)
        self._bytes += size_bytes
        if now >= self._look_at or self._bytes > MAX_BYTES or len(self._ended) > MAX_COUNT:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Drops what has had its time, and the oldest until there is room for the others."""
        self._look_at = now + LOOK_S
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if len(self._ended) <= MAX_COUNT and self._bytes <= MAX_BYTES and now - oldest.when < self._kept_s:
                return
            del self._ended[oldest.key]
            self._bytes -= oldest.size_bytes

    def all(self) -> list[Ended]:
        """Those that are to be told again; a result that has expired is not."""
        oldest = self._clock() - self._kept_s
        return [ended for ended in self._ended.values() if ended.when > oldest]
