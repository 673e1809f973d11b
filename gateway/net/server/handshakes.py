"""TLS handshakes under way: each takes some 50 KB before its caller has shown who it is, so there are only so many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.net.server.options import SPARE_CONNECTIONS

MOST = 2048
SHARE = 4  # one network gets a quarter,
LEAST = 256  # or so many: a crowd behind one address may come back at once, and 64 are accepted in a row


class Handshakes:
    """The callers that have connected and whose handshakes are not over.

    A new one is always let in. Where there are too many, the oldest gives way: of its own network, else of the network
    that has most. A regular handshake takes two round trips, so the oldest is one that hangs. `max_connections` says
    how many callers may be connected; there are few more handshakes than that.
    """

    def __init__(self, max_connections: Callable[[], int]) -> None:
        self._max_connections = max_connections
        self._by_network: dict[str, dict[asyncio.Task[None], None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begin(self, network: str, task: asyncio.Task[None]) -> None:
        """Counts a handshake until its task is over, and cancels the one that gives way."""
        most = min(MOST, self._max_connections() + SPARE_CONNECTIONS)
        if len(self._by_network.get(network, ())) >= max(most // SHARE, LEAST):
            self._end_oldest(network)
        elif self._count >= most:
            self._end_oldest(max(self._by_network, key=lambda name: len(self._by_network[name])))
        self._by_network.setdefault(network, {})[task] = None
        self._count += 1
        task.add_done_callback(partial(self._forget, network))

    def _end_oldest(self, network: str) -> None:
        oldest = next(iter(self._by_network[network]))
        self._forget(network, oldest)
        oldest.cancel()

    def _forget(self, network: str, task: asyncio.Task[None]) -> None:
        """Counts it no more; a second call does nothing."""
        of_network = self._by_network.get(network, {})
        if task in of_network:
            del of_network[task]
            self._count -= 1
            if not of_network:
                del self._by_network[network]
