"""What the state in memory is made of: calls, keys that are used up, and remnants."""

from __future__ import annotations

from collections import OrderedDict, deque

from msgspec import Struct
from msgspec.structs import replace

from gateway.state.port import DONE, RECORD_BYTES, CallState, NewCall, Record, StateLimits
from gateway.state.quotas import Usage

SEEN_BYTES = 384  # counted for a key that is only remembered; about 340 were measured
REMNANT_BYTES = 1024  # counted for a remnant beside its note and outcome
REMNANTS_SHARE = 16  # all remnants together may take one sixteenth of `max_bytes`


class Entry(Struct, eq=False, gc=False):
    """A call, changed in place; whoever asks for it is given a record of it, which never changes."""

    new: NewCall
    usage: Usage
    created_s: float
    expires_s: float
    state: CallState
    note: bytes
    outcome: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """What is counted for it."""
        return RECORD_BYTES + len(self.note) + len(self.outcome or b"")

    def record(self, replica: str) -> Record:
        """The call as it stands now."""
        return Record.of(self.new, replica, self.created_s, self.state, self.note, self.outcome)


class Seen(dict[str, str]):
    """Keys that are used up for a while, each with its principal. Times are seconds of one clock."""

    def __init__(self) -> None:
        super().__init__()
        self._until: deque[tuple[float, str]] = deque()

    def add(self, key: str, principal: str, until_s: float) -> None:
        """Remembers a key `until_s`, which is not before that of any other here."""
        self[key] = principal
        self._until.append((until_s, key))

    def sweep(self, now: float, limit: int) -> list[str]:
        """Drops at most `limit` of those whose time is over; returns the principal of each."""
        dropped: list[str] = []
        until = self._until
        while len(dropped) < limit and until and until[0][0] <= now:
            dropped.append(self.pop(until.popleft()[1]))
        return dropped


class Remnant(Struct, frozen=True, gc=False):
    """What is told of a call until `expires_s`."""

    record: Record
    expires_s: float
    size_bytes: int


class Remnants:
    """How calls ended of which nothing else is kept: the latest of each principal. Times are seconds of one clock."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._bytes = 0
        self._remnants: OrderedDict[str, Remnant] = OrderedDict()  # what expires first is first
        self._keys: dict[str, dict[str, None]] = {}  # by principal, in the same order

    def add(self, record: Record, outcome: bytes, now: float) -> Record:
        """Keeps what is left of a call, and drops what has expired or is too much; returns the record that is told."""
        self._drop(record.key)
        record = replace(record, state=DONE, outcome=outcome)
        size_bytes = REMNANT_BYTES + len(record.note) + len(outcome)
        self._remnants[record.key] = Remnant(record, now + self._limits.remnant_ttl_s, size_bytes)
        self._bytes += size_bytes
        keys = self._keys.setdefault(record.principal, {})
        keys[record.key] = None
        if len(keys) > self._limits.max_remnants:
            self._drop(next(iter(keys)))
        while self._remnants:
            key, first = next(iter(self._remnants.items()))
            if first.expires_s > now and self._bytes <= self._limits.max_bytes // REMNANTS_SHARE:
                break
            self._drop(key)
        return record

    def get(self, key: str, now: float) -> Record | None:
        """What is left of a call."""
        remnant = self._remnants.get(key)
        return None if remnant is None or remnant.expires_s <= now else remnant.record

    def _drop(self, key: str) -> None:
        remnant = self._remnants.pop(key, None)
        if remnant is None:
            return
        self._bytes -= remnant.size_bytes
        keys = self._keys[remnant.record.principal]
        del keys[key]
        if not keys:
            del self._keys[remnant.record.principal]
