"""Growing pauses between attempts at something that fails."""

from __future__ import annotations

import random

JITTER = 0.25  # of a pause, added at most


def jittered(pause_s: float) -> float:
    """A pause made longer by chance: replicas that were cut off together do not come back together."""
    return pause_s * (1 + random.uniform(0, JITTER))  # noqa: S311 - no secret


class Backoff:
    """Doubles the pause with each failed attempt, from `first_s` up to `longest_s`, both in seconds."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._pause_s = min(first_s, longest_s)

    def next_s(self) -> float:
        """Returns the pause before the next attempt, and doubles the one after it."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Starts again with the first pause, after a success."""
        self._pause_s = min(self._first_s, self._longest_s)
