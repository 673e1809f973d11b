"""Who in this process waits for which call: a future for each, found by the call's key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.state.port import CallState, Record

Waiter = asyncio.Future[Record | None]


class Waiters:
    """The futures `by_key` of their calls, each with the state its owner wants to see passed."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[Waiter, CallState]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def keys(self) -> Sequence[str]:
        """Every call somebody waits for."""
        return list(self.by_key)

    def threshold(self, key: str) -> CallState:
        """The earliest state that somebody waits to see passed; DONE if nobody waits."""
        return min(self.by_key.get(key, {}).values(), default=CallState.DONE)

    def add(self, key: str, beyond: CallState) -> Waiter:
        """A future that gets the record once it is past `beyond`, or None once it is gone; to be removed in any case.

        No context manager, because thousands may wait for hours, and that would double what each of them weighs here.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self.by_key.setdefault(key, {})[waiter] = beyond
        return waiter

    def remove(self, key: str, waiter: Waiter) -> None:
        here = self.by_key.get(key, {})
        here.pop(waiter, None)
        if not here:
            self.by_key.pop(key, None)

    def tell(self, key: str, record: Record | None) -> None:
        """Hands out what has become of a call."""
        for waiter, beyond in self.by_key.get(key, {}).items():
            if not waiter.done() and (record is None or record.state > beyond):
                waiter.set_result(record)
