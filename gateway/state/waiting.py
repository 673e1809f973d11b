"""The waiters of this process: one future each, found by the key of the call it waits for."""

from __future__ import annotations

import asyncio

from gateway.state.port import CallState, Record

Waiter = asyncio.Future[Record | None]


class Waiters(dict[str, dict[Waiter, CallState]]):
    """Futures by the keys of their calls, each with the state that its owner waits to see passed."""

    def threshold(self, key: str) -> CallState:
        """The lowest state that a waiter wants to see passed; DONE without waiters."""
        return min(self.get(key, {}).values(), default=CallState.DONE)

    def add(self, key: str, beyond: CallState) -> Waiter:
        """A future that gets the record once the call is past `beyond`, or None once it is gone. The caller removes it.

        This is no context manager, because thousands may wait for hours, and it would double what each of them weighs.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self.setdefault(key, {})[waiter] = beyond
        return waiter

    def remove(self, key: str, waiter: Waiter) -> None:
        """Forgets a future that `add` has made."""
        here = self.get(key, {})
        here.pop(waiter, None)
        if not here:
            self.pop(key, None)

    def notify(self, key: str, record: Record | None) -> None:
        """Wakes the waiters of a call that are to see this record of it."""
        for waiter, beyond in self.get(key, {}).items():
            if not waiter.done() and (record is None or record.state > beyond):
                waiter.set_result(record)
