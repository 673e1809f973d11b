"""The books of a pool at one moment."""

from __future__ import annotations

from typing import NamedTuple

from gateway.transport import Pool


class Stats(NamedTuple):
    """Connections being opened, open, open and unused; callers without one."""

    connecting: int
    live: int
    idle: int
    waiting: int

    @property
    def slots(self) -> int:
        """How many connections count against the limit."""
        return self.connecting + self.live

    @property
    def is_unused(self) -> bool:
        """Whether no caller has, opens or waits for a connection."""
        return self.live == self.idle and not self.connecting and not self.waiting


def stats_of(pool: Pool) -> Stats:
    return Stats(len(pool._connecting), len(pool._live), len(pool._idle), len(pool._waiters))
