"""What a program says without an end is logged within bounds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

BURST = 200  # lines at once: what programs say as they start, or a traceback or two
LINES_PER_S = 10.0

log = logging.getLogger("gateway.bridge")


class SparingLog:
    """Logs lines of one kind: BURST of them, then LINES_PER_S. The others are counted in `left_out` of the next one."""

    def __init__(self, level: int, message: str, clock: Callable[[], float] = monotonic) -> None:
        self._level = level
        self._message = message
        self._clock = clock
        self._room, self._since = float(BURST), clock()
        self._left_out = 0

    def write(self, fields: dict[str, Any]) -> None:
        """Logs a line, or counts it."""
        now = self._clock()
        self._room = min(self._room + (now - self._since) * LINES_PER_S, BURST)
        self._since = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        self._log(fields)

    def end(self, fields: dict[str, Any]) -> None:
        """Logs how many were left out last, if any were."""
        if self._left_out:
            self._log(fields)

    def _log(self, fields: dict[str, Any]) -> None:
        if self._left_out:
            fields, self._left_out = {**fields, "left_out": self._left_out}, 0
        log.log(self._level, self._message, extra=fields)
