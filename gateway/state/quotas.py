"""What each principal has in the state in memory, and whether it may have more. The script does the same in Redis."""

from __future__ import annotations

from gateway.state.port import Quota, StateLimits


class Usage:
    """How many calls of a principal are not over, how many are, and the bytes of them and of used-up keys."""

    __slots__ = ("bytes", "finished", "pending")  # not a Struct, in which counting costs three times as much

    def __init__(self) -> None:
        self.pending = self.finished = self.bytes = 0


NO_USAGE = Usage()  # never changed


class Quotas:
    """Counts by principal; of one that has nothing, nothing is kept. `size_bytes` is what all have together."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._usage: dict[str, Usage] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._usage)

    def exceeded(self, principal: str, cost: int) -> Quota | None:
        """Which limit keeps a principal from beginning a call of so many bytes."""
        limits, usage = self._limits, self._usage.get(principal, NO_USAGE)
        if usage.pending >= limits.max_pending:
            return "pending"
        if usage.finished >= limits.max_records:
            return "records"
        if usage.bytes + cost > limits.max_bytes_per_caller:
            return "bytes"
        return "room" if usage.bytes + cost > limits.max_bytes - self.size_bytes else None

    def has_room(self, usage: Usage, cost: int) -> bool:
        """Whether a call may take so many bytes more."""
        limits = self._limits
        return usage.bytes + cost <= min(limits.max_bytes_per_caller, limits.max_bytes - self.size_bytes)

    def begin(self, principal: str, cost: int) -> Usage:
        """Counts a call that is not over."""
        usage = self._usage.get(principal)
        if usage is None:
            usage = self._usage[principal] = Usage()
        usage.pending += 1
        usage.bytes += cost
        self.size_bytes += cost
        return usage

    def count(self, usage: Usage, size_bytes: int) -> None:
        """Counts bytes of a principal that has some."""
        usage.bytes += size_bytes
        self.size_bytes += size_bytes

    def release(self, principal: str, size_bytes: int) -> None:
        """Gives bytes back."""
        usage = self._usage[principal]
        self.count(usage, -size_bytes)
        if not usage.bytes:
            del self._usage[principal]
