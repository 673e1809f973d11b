"""What memory keeps of calls that are gone: how some of them ended, and that there were others."""

from __future__ import annotations

from collections import OrderedDict, deque

from msgspec import Struct
from msgspec.structs import replace

from gateway.state.port import DONE, Record, StateLimits

ENDING_BYTES = 1024  # counted for one beside its note and outcome
SHARE = 16  # of all bytes there may be, this part is for endings without their calls


class Seen(dict[str, None]):
    """Keys that must not be used again, each for its time, in seconds of one clock."""

    def __init__(self) -> None:
        super().__init__()
        self._until: deque[tuple[float, str]] = deque()

    def add(self, key: str, until_s: float) -> None:
        """Remembers one that is forgotten after all others here."""
        self[key] = None
        self._until.append((until_s, key))

    def sweep(self, now: float, limit: int) -> int:
        """Drops at most `limit` of those whose time is over; returns how many."""
        count, until = 0, self._until
        while count < limit and until and until[0][0] <= now:
            del self[until.popleft()[1]]
            count += 1
        return count


class Ending(Struct, frozen=True, gc=False):
    """Of one call; it is told until `expires_s`."""

    record: Record
    expires_s: float
    size_bytes: int


class Parted:
    """The latest endings of each principal's calls of which nothing else is kept. Times are seconds of one clock."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._bytes = 0
        self._endings: OrderedDict[str, Ending] = OrderedDict()  # what expires first is first
        self._keys: dict[str, dict[str, None]] = {}  # by principal, in the same order

    def add(self, record: Record, outcome: bytes, now: float) -> Record:
        """Remembers that one ended so, and drops what has expired or is one too many; returns how it is told."""
        self._drop(record.key)
        record = replace(record, state=DONE, outcome=outcome)
        size_bytes = ENDING_BYTES + len(record.note) + len(outcome)
        self._endings[record.key] = Ending(record, now + self._limits.parted_ttl_s, size_bytes)
        self._bytes += size_bytes
        keys = self._keys.setdefault(record.principal, {})
        keys[record.key] = None
        if len(keys) > self._limits.max_parted:
            self._drop(next(iter(keys)))
        while self._endings:
            key, first = next(iter(self._endings.items()))
            if first.expires_s > now and self._bytes <= self._limits.max_bytes // SHARE:
                break
            self._drop(key)
        return record

    def get(self, key: str, now: float) -> Record | None:
        """How a call ended."""
        ending = self._endings.get(key)
        return None if ending is None or ending.expires_s <= now else ending.record

    def _drop(self, key: str) -> None:
        ending = self._endings.pop(key, None)
        if ending is None:
            return
        self._bytes -= ending.size_bytes
        keys = self._keys[ending.record.principal]
        del keys[key]
        if not keys:
            del self._keys[ending.record.principal]
