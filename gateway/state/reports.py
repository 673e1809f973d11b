"""What becomes of the partitions, for the log and for the rest of the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from gateway.state.port import Quota

log = logging.getLogger("gateway.state")

TOGETHER_S = 0.25  # within which the same of several partitions is one line: those of one server come and go together

T = TypeVar("T")


class Reports:
    """Logs what befalls partitions. The state sets the callbacks."""

    def __init__(self, place: str, partitions: int) -> None:
        self._place = place
        self._partitions = partitions
        self._away = _Together(partitions, self._say_away)
        self._reached = _Together(partitions, self._say_reached)
        self._emptied = _Together(partitions, self._say_emptied)
        self.on_changed: Callable[[str], None] = lambda key: None  # another replica has changed the call of that key
        self.on_lost: Callable[[], None] = lambda: None  # data were lost
        self.on_quota: Callable[[Quota, bool], None] = lambda quota, is_full: None  # as in `port.State`
        self.on_reached: Callable[[], None] = lambda: None  # partitions can be used (again)

    def away(self, reason: str) -> None:
        """A partition cannot be reached any more."""
        self._away.add(reason)

    def reached(self) -> None:
        """A partition can be used."""
        self._reached.add(None)

    def emptied(self, restored: int) -> None:
        """A partition has lost its data; so many calls were put back."""
        self._emptied.add(restored)

    def _say_away(self, reasons: Sequence[str]) -> None:
        log.warning("the state cannot be reached", extra={"detail": reasons[0], **self._how_many(reasons)})

    def _say_reached(self, reached: Sequence[None]) -> None:
        log.info("the state is reached", extra=self._how_many(reached))
        self.on_reached()

    def _say_emptied(self, restored: Sequence[int]) -> None:
        detail = (
            f"{self._place} was emptied, or came up without its data; calls under way are put back, "
            "but a call that is over may run again when it is repeated"
        )
        extra = {"detail": detail, "restored": sum(restored), **self._how_many(restored)}
        log.warning("the state has lost its data", extra=extra)
        self.on_lost()

    def _how_many(self, events: Sequence[object]) -> dict[str, str]:
        return {} if self._partitions == 1 else {"partitions": f"{len(events)} of {self._partitions}"}


class _Together(Generic[T]):
    """Collects what befalls partitions at about the same time. A single partition waits for no other."""

    def __init__(self, partitions: int, say: Callable[[Sequence[T]], None]) -> None:
        self._partitions = partitions
        self._say = say
        self._events: list[T] = []

    def add(self, event: T) -> None:
        self._events.append(event)
        if self._partitions == 1:
            self._flush()
        elif len(self._events) == 1:
            asyncio.get_running_loop().call_later(TOGETHER_S, self._flush)

    def _flush(self) -> None:
        events, self._events = self._events, []
        self._say(events)
