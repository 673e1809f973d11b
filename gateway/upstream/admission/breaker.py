"""A circuit breaker: after several failures in a row, no calls for a while, then one to find out.

Closed: calls are sent. Open: none until `probe_at`. Half open: one attempt, the probe, is under way and decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

BreakerState = Literal["closed", "open", "half_open"]
CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half_open"

JITTER = 0.1  # of the time it stays open, both ways, so that gateways which lost a server together spread their probes


class BreakerRules(Struct, frozen=True, kw_only=True):
    """It opens after `failures` in a row (0: never) for about `open_for_s`."""

    failures: int = 5
    open_for_s: float = 10.0


class Breaker:
    """The breaker of a replica, or of one tool there.

    Each attempt belongs to the `generation` in which it began, and counts only during that. So an attempt from before
    the breaker opened can neither close nor reopen it, and only the probe decides while it is half open.
    """

    __slots__ = (
        "_changed_at",
        "_clock",
        "_rules",
        "_uniform",
        "checked",
        "failures",
        "generation",
        "probe_at",
        "state",
    )

    def __init__(
        self, rules: BreakerRules, clock: Callable[[], float], uniform: Callable[[float, float], float]
    ) -> None:
        self.state: BreakerState = CLOSED
        self.failures = 0  # in a row
        self.generation = 0
        self.probe_at = 0.0
        self.checked = False  # while open: the server has answered something other than a call since
        self._rules = rules
        self._clock = clock
        self._uniform = uniform
        self._changed_at = clock()

    @property
    def changed_ago_s(self) -> float:
        """The seconds since it last opened or closed, or was made."""
        return self._clock() - self._changed_at

    @property
    def can_open(self) -> bool:
        """Whether failures count at all."""
        return self._rules.failures > 0

    @property
    def admits(self) -> bool:
        """Whether an attempt may be made, if only as the probe."""
        return self.state is CLOSED or (self.state is OPEN and self.probe_at <= self._clock())

    def record_success(self, generation: int) -> bool:
        """Counts an attempt that was answered. Returns whether that closed the breaker."""
        if generation != self.generation:
            return False
        self.failures = 0
        if self.state is CLOSED:
            return False
        self.state, self._changed_at = CLOSED, self._clock()
        return True

    def record_failure(self, generation: int) -> bool:
        """Counts an attempt that failed. Returns whether that opened a breaker that was closed."""
        if generation != self.generation or not self._rules.failures:
            return False
        self.failures += 1
        if self.state is CLOSED and self.failures < self._rules.failures:
            return False
        was_closed = self.state is CLOSED
        self._open(self._clock() + self._rules.open_for_s * self._uniform(1 - JITTER, 1 + JITTER))
        return was_closed

    def record_nothing(self, generation: int) -> None:
        """Ends an attempt that showed nothing; if it was the probe, the next attempt becomes the probe."""
        if generation == self.generation and self.state is HALF_OPEN:
            self._open(self._clock())

    def begin_probe(self) -> int:
        """Becomes half open. Returns the generation of the probe."""
        self.state = HALF_OPEN
        self.generation += 1
        return self.generation

    def note_alive(self) -> None:
        """Lets the next attempt be the probe at once: the server has answered something other than a call."""
        if self.state is OPEN:
            self._open(self._clock())
            self.checked = True

    def _open(self, probe_at: float) -> None:
        if self.state is CLOSED:
            self._changed_at = self._clock()
        self.state = OPEN
        self.probe_at = probe_at
        self.checked = False
        self.generation += 1
