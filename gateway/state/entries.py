"""What the state in memory is made of: calls, tombstones, and the quotas of principals.

The script does the same in Redis. Times are seconds of one clock.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct
from msgspec.structs import replace

from gateway.state.port import DONE, SCARCE, CallState, NewCall, Quota, Record, StateLimits

SEEN_BYTES = 384  # counted for a key that is only remembered; about as much was measured
TOMBSTONE_BYTES = 1024  # counted for a tombstone beside its note and outcome
TOMBSTONES_SHARE = 16  # all tombstones together may take one sixteenth of `max_bytes`


class Usage:
    """How many calls of a principal are not over, how many are, and the bytes of them and of used-up keys."""

    __slots__ = ("bytes", "finished", "pending")  # not a Struct, in which counting costs three times as much

    def __init__(self) -> None:
        self.pending = self.finished = self.bytes = 0


class Quotas:
    """The usage of each principal that has any; `size_bytes` is what all have together."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._scarce = (
            SCARCE * limits.max_pending,
            SCARCE * limits.max_records,
            SCARCE * limits.max_bytes_per_caller,
        )
        self._usage: dict[str, Usage] = {}
        self.size_bytes = 0

    def begin(self, principal: str, cost: int) -> Usage | Quota:
        """Counts a call of `cost` bytes that begins; or returns the quota that is used up."""
        limits, usage = self._limits, self._usage.get(principal) or Usage()
        if usage.pending >= limits.max_pending:
            return "pending"
        if usage.finished >= limits.max_records:
            return "records"
        if usage.bytes + cost > limits.max_bytes_per_caller:
            return "bytes"
        if usage.bytes + cost > limits.max_bytes - self.size_bytes:
            return "room"
        if not usage.bytes:
            self._usage[principal] = usage
        usage.pending += 1
        usage.bytes += cost
        self.size_bytes += cost
        return usage

    def scarce(self, usage: Usage) -> Quota | None:
        """A quota that is nearly used, if there is one."""
        pending, records, size_bytes = self._scarce
        if usage.pending > pending:
            return "pending"
        if usage.finished > records:
            return "records"
        return "bytes" if usage.bytes > size_bytes else None

    def has_room(self, usage: Usage, cost: int) -> bool:
        """Whether a call may take `cost` more bytes."""
        limits = self._limits
        return usage.bytes + cost <= min(limits.max_bytes_per_caller, limits.max_bytes - self.size_bytes)

    def count(self, usage: Usage, size_bytes: int) -> None:
        """Counts more bytes of a principal that has some."""
        usage.bytes += size_bytes
        self.size_bytes += size_bytes

    def release(self, principal: str, size_bytes: int) -> None:
        """Gives bytes back."""
        usage = self._usage[principal]
        usage.bytes -= size_bytes
        self.size_bytes -= size_bytes
        if not usage.bytes:
            del self._usage[principal]


class MemoryCall(Struct, eq=False, gc=False):
    """A call, changed in place."""

    new: NewCall
    usage: Usage
    created_s: float
    expires_s: float
    state: CallState
    note: bytes
    outcome: bytes | None = None

    def record(self, replica: str) -> Record:
        """The call as it stands now, in a record that never changes."""
        return Record.of(self.new, replica, self.created_s, self.state, self.note, self.outcome)


class Tombstones:
    """The outcomes of calls of which nothing else is kept: the latest of each principal."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._bytes = 0
        self._tombstones: OrderedDict[str, tuple[float, Record]] = OrderedDict()  # what expires first is first
        self._keys: dict[str, dict[str, None]] = {}  # by principal, in the same order

    def add(self, record: Record, outcome: bytes, now: float) -> Record:
        """Keeps the tombstone of a call and returns it; drops those that have expired or are too many."""
        self._drop(record.key)
        record = replace(record, state=DONE, outcome=outcome)
        self._tombstones[record.key] = now + self._limits.tombstone_ttl_s, record
        self._bytes += _size_bytes(record)
        keys = self._keys.setdefault(record.principal, {})
        keys[record.key] = None
        if len(keys) > self._limits.max_tombstones:
            self._drop(next(iter(keys)))
        while self._tombstones:
            key, (expires_s, _) = next(iter(self._tombstones.items()))
            if expires_s > now and self._bytes <= self._limits.max_bytes // TOMBSTONES_SHARE:
                break
            self._drop(key)
        return record

    def get(self, key: str, now: float) -> Record | None:
        """The tombstone of a call."""
        expires_s, record = self._tombstones.get(key, (now, None))
        return record if expires_s > now else None

    def _drop(self, key: str) -> None:
        if key not in self._tombstones:
            return
        _, record = self._tombstones.pop(key)
        self._bytes -= _size_bytes(record)
        keys = self._keys[record.principal]
        del keys[key]
        if not keys:
            del self._keys[record.principal]


def _size_bytes(tombstone: Record) -> int:
    return TOMBSTONE_BYTES + len(tombstone.note) + len(tombstone.outcome or b"")
