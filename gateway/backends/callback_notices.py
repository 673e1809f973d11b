"""Small messages to a callback tool server that nobody waits for: cancellations, closures, choices.

Reactive Agent Protocol: Tool Cancellation and Thread Closure. Best effort, and never sent a second time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque

from gateway.backends.credentials import Credentials
from gateway.backends.server import USER_AGENT
from gateway.dialects.fields import JSON_TYPE
from gateway.transport import Pool, TransportError

log = logging.getLogger("gateway.backends")

MAX_WAITING = 1000  # messages, a few hundred bytes each; a tool server that takes none must not cost more
AT_ONCE = 8  # of the connections of the pool, which calls need
TIMEOUT_S = 5.0  # a tool server only has to note them
MAX_REPLY_BYTES = 64 * 1024  # nobody reads it
REMEMBERED = 10_000  # the latest notices, so that none goes twice
CLOSE_WITHIN_S = 1.0  # what is under way may arrive, but ours is not the time to wait for it

Notice = tuple[str, Pool, bytes, bytes]  # what it is, where to, its body


class Notices:
    """Posts messages behind the backs of calls; what becomes of them is only logged."""

    def __init__(self, backend: str, credentials: Credentials) -> None:
        self._backend = backend
        self._credentials = credentials
        self._waiting: deque[Notice] = deque()
        self._senders: set[asyncio.Task[None]] = set()  # stay once they are there: a new task costs as much as a notice
        self._resting: list[asyncio.Future[None]] = []  # of the senders, for what wakes them
        self._sent: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._has_room = True
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None  # asked for once: each time would be a system call

    def first_time(self, *notice: str) -> bool:
        """Whether a notice has not been given yet; from now on it has."""
        if notice in self._sent:
            return False
        if len(self._sent) >= REMEMBERED:
            self._sent.popitem(last=False)
        self._sent[notice] = None
        return True

    def post(self, what: str, pool: Pool, target: bytes, body: bytes) -> None:
        """Sends a message when it is its turn; `what` names it in the log. Drops it when too many wait.

        Nothing is sent before those have gone on whom this turn of the event loop wakes, and what they write has left:
        of a call that is over, the caller comes first.
        """
        if len(self._waiting) >= MAX_WAITING:
            if self._has_room:  # once, until it has caught up: there may be one for each call
                log.warning("notices are dropped", extra={"backend": self._backend, "notice": what})
            self._has_room = False
            return
        self._has_room = self._has_room or not self._waiting
        self._waiting.append((what, pool, target, body))
        self._loop = self._loop or asyncio.get_running_loop()
        self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Has one more sender look at what waits, if there is one."""
        if self._resting:
            rest = self._resting.pop()
            if not rest.done():  # as of one who was cancelled together with everything
                rest.set_result(None)
        elif self._waiting and len(self._senders) < AT_ONCE:
            task = asyncio.create_task(self._send_all())
            self._senders.add(task)
            task.add_done_callback(self._senders.discard)

    async def _send_all(self) -> None:
        """Sends what waits, in order, for as long as the backend is open."""
        loop = asyncio.get_running_loop()
        while True:
            while self._waiting:
                await self._send(*self._waiting.popleft())
            if self._is_closing:
                return
            rest = loop.create_future()
            self._resting.append(rest)
            await rest

    async def _send(self, what: str, pool: Pool, target: bytes, body: bytes) -> None:
        headers = (USER_AGENT, JSON_TYPE, *self._credentials.headers("anonymous"))
        try:
            reply = await pool.request(b"POST", target, headers, body, timeout_s=TIMEOUT_S, max_body=MAX_REPLY_BYTES)
            outcome = str(reply.status)
        except TransportError as exc:
            outcome = str(exc.kind)
        extra = {"backend": self._backend, "notice": what, "outcome": outcome}
        log.debug("a notice was sent", extra=extra)  # real tool servers lack some of the paths, and may

    async def aclose(self) -> None:
        """Lets what waits or is under way arrive, for a moment, and drops the rest."""
        self._is_closing = True
        for _ in range(AT_ONCE):
            self._wake()
        if self._senders:
            _, late = await asyncio.wait(self._senders, timeout=CLOSE_WITHIN_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
