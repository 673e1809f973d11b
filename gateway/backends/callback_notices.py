"""Small messages to a callback tool server that nobody waits for: cancellations, closures, choices.

Reactive Agent Protocol: Tool Cancellation and Thread Closure. Best effort, and never sent a second time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from gateway.transport import Pool, TransportError
from gateway.wire import Headers

log = logging.getLogger("gateway.backends")

MAX_WAITING = 1000  # messages, a few hundred bytes each; a tool server that takes none must not cost more
AT_ONCE = 8  # of the connections of the pool, which calls need
TIMEOUT_S = 5.0  # a tool server only has to note them
MAX_REPLY_BYTES = 64 * 1024  # nobody reads it
REMEMBERED = 10_000  # the latest notices, so that none goes twice
CLOSE_WITHIN_S = 1.0  # what is under way may arrive, but ours is not the time to wait for it


class Notices:
    """Posts messages behind the backs of calls; what becomes of them is only logged."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._has_room = True

    def first_time(self, *notice: str) -> bool:
        """Whether a notice has not been given yet; from now on it has."""
        if notice in self._sent:
            return False
        if len(self._sent) >= REMEMBERED:
            self._sent.popitem(last=False)
        self._sent[notice] = None
        return True

    def post(self, what: str, pool: Pool, target: bytes, headers: Headers, body: bytes) -> None:
        """Sends a message as soon as it is its turn; `what` names it in the log. Drops it when too many wait."""
        if len(self._tasks) >= MAX_WAITING:
            if self._has_room:  # once, until it has caught up: there may be one for each call
                log.warning("notices are dropped", extra={"backend": self._backend, "notice": what})
            self._has_room = False
            return
        self._has_room = self._has_room or not self._tasks
        task = asyncio.create_task(self._send(what, pool, target, headers, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, what: str, pool: Pool, target: bytes, headers: Headers, body: bytes) -> None:
        try:
            async with self._turns:
                reply = await pool.request(
                    b"POST", target, headers, body, timeout_s=TIMEOUT_S, max_body=MAX_REPLY_BYTES
                )
            outcome = str(reply.status)
        except TransportError as exc:
            outcome = str(exc.kind)
        extra = {"backend": self._backend, "notice": what, "outcome": outcome}
        log.debug("a notice was sent", extra=extra)  # real tool servers lack some of the paths, and may

    async def aclose(self) -> None:
        """Lets what is under way arrive, for a moment, and drops the rest."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_WITHIN_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
