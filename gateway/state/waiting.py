"""Who in this process waits for which call: one future per waiter, found by the call's key."""

from __future__ import annotations

import asyncio

from gateway.state.port import CallState, Record

Waiter = asyncio.Future[Record | None]


class Waiters(dict[str, dict[Waiter, CallState]]):
    """Futures by the keys of their calls, each with the state that its owner wants to see passed."""

    def threshold(self, key: str) -> CallState:
        """The lowest state that somebody waits to see passed; DONE if nobody waits."""
        return min(self.get(key, {}).values(), default=CallState.DONE)

    def add(self, key: str, beyond: CallState) -> Waiter:
        """A future that gets the record once the call is past `beyond`, or None once it is gone. Whoever adds removes.

        This is no context manager, because thousands may wait for hours, and it would double what each of them weighs.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self.setdefault(key, {})[waiter] = beyond
        return waiter

    def remove(self, key: str, waiter: Waiter) -> None:
        here = self.get(key, {})
        here.pop(waiter, None)
        if not here:
            self.pop(key, None)

    def tell(self, key: str, record: Record | None) -> None:
        """Hands out what has become of a call."""
        for waiter, beyond in self.get(key, {}).items():
            if not waiter.done() and (record is None or record.state > beyond):
                waiter.set_result(record)
