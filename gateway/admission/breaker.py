"""Whether a replica, or one tool at it, is worth asking: not for a while after so many failures in a row.

Closed: it is asked. Open: it is not, until `probe_at`. Half open: one attempt is under way and decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

BreakerState = Literal["closed", "open", "half_open"]
CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half_open"

JITTER = 0.1  # of the time it stays open, both ways: gateways that lost a server together do not all try it together


class BreakerRules(Struct, frozen=True, kw_only=True):
    """It opens after `failures` in a row (0: never) for about `open_for_s`."""

    failures: int = 5
    open_for_s: float = 10.0


class Breaker:
    """One replica's, or one tool's there. Every attempt is made in a `generation`, and counts only while that lasts.

    So an attempt from before it opened can neither close it again nor open it once more, and none but the probe
    decides while it is half open.
    """

    __slots__ = ("_clock", "_rules", "_uniform", "checked", "failures", "generation", "probe_at", "state")

    def __init__(
        self, rules: BreakerRules, clock: Callable[[], float], uniform: Callable[[float, float], float]
    ) -> None:
        self.state: BreakerState = CLOSED
        self.failures = 0  # in a row
        self.generation = 0
        self.probe_at = 0.0
        self.checked = False  # while open: it has answered something other than a call since
        self._rules = rules
        self._clock = clock
        self._uniform = uniform

    @property
    def can_open(self) -> bool:
        """Whether it counts at all."""
        return self._rules.failures > 0

    def admits(self, now: float) -> bool:
        """Whether an attempt may be made, be it as the probe."""
        return self.state is CLOSED or (self.state is OPEN and self.probe_at <= now)

    def succeeded(self, since: int) -> bool:
        """An attempt of that generation got an answer. Returns whether that closed a breaker that was not."""
        if since != self.generation:
            return False
        self.failures = 0
        if self.state is CLOSED:
            return False
        self.state = CLOSED
        return True

    def failed(self, since: int) -> bool:
        """An attempt of that generation got no answer. Returns whether that opened a breaker that was closed."""
        if since != self.generation or not self._rules.failures:
            return False
        self.failures += 1
        if self.state is CLOSED and self.failures < self._rules.failures:
            return False
        was_closed = self.state is CLOSED
        self._open(self._clock() + self._rules.open_for_s * self._uniform(1 - JITTER, 1 + JITTER))
        return was_closed

    def came_to_nothing(self, since: int) -> None:
        """An attempt of that generation ended without telling anything; if it was the probe, the next attempt is."""
        if since == self.generation and self.state is HALF_OPEN:
            self._open(self._clock())

    def probe(self) -> int:
        """Makes it half open. Returns the generation of the one attempt that decides."""
        self.state = HALF_OPEN
        self.generation += 1
        return self.generation

    def vouched_for(self) -> None:
        """The replica answers something, if not calls: if it is open, the next attempt may find out about those."""
        if self.state is OPEN:
            self._open(self._clock())
            self.checked = True

    def _open(self, probe_at: float) -> None:
        self.state = OPEN
        self.probe_at = probe_at
        self.checked = False
        self.generation += 1
