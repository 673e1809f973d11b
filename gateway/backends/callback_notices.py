"""Small messages to a callback tool server that nobody waits for: cancellations, closures, choices.

Reactive Agent Protocol: Tool Cancellation, Thread Closure, User Choice. Best effort, and never sent a second time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping

from gateway.backends.callback_discovery import place_of
from gateway.backends.credentials import Credentials
from gateway.backends.server import USER_AGENT, Server
from gateway.dialects import callback
from gateway.dialects.fields import JSON_TYPE
from gateway.model import ONCE
from gateway.transport import Origin, Pool, TransportError
from gateway.wire import WireRequest

log = logging.getLogger("gateway.backends")

MAX_WAITING = 1000  # messages, a few hundred bytes each; a tool server that takes none must not cost more
AT_ONCE = 8  # of the connections of the pool, which calls need
TIMEOUT_S = 5.0  # a tool server only has to note them
MAX_REPLY_BYTES = 64 * 1024  # nobody reads it
REMEMBERED = 10_000  # the latest notices, so that none goes twice
CLOSE_WITHIN_S = 1.0  # what is under way may arrive, but ours is not the time to wait for it

Notice = tuple[str, Pool, bytes, bytes]  # what it is, where to, its body


class Notices:
    """Tells one tool server; choices are answered wherever it wants, so long as that is in `pools`."""

    def __init__(self, backend: str, server: Server, pools: Mapping[Origin, Pool], credentials: Credentials) -> None:
        self._server = server
        self._pools = pools
        self._outbox = Outbox(backend, credentials)
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def cancel(self, id_: str, group: str) -> None:
        """Nobody waits for a call any more. Here it is named as in its invocation."""
        if self.first_time("cancel", id_):
            self._tell("cancel", callback.cancel_notice(id_, group))
        self.close_if_over(group)

    def close_if_over(self, group: str) -> None:
        """The conversation of one call is over with it; others may go on for ever.

        Where a call was not even taken there is no conversation to close.
        """
        if group.startswith(ONCE) and self.first_time("close", group):
            self._tell("close", callback.close_notice(group))

    def choose(self, id_: str, choice: callback.Choice) -> bool:
        """Answers with the default; False if the answer is wanted where we do not go."""
        place = place_of(choice.response_url, self._pools)
        if place is None:
            return False
        self._outbox.post("choice", *place, callback.encode_choice(id_, choice.default))
        return True

    def first_time(self, what: str, of: str) -> bool:
        """Whether a notice has not been given yet; from now on it has."""
        notice = what, of
        if notice in self._told:
            return False
        if len(self._told) >= REMEMBERED:
            self._told.popitem(last=False)
        self._told[notice] = None
        return True

    def _tell(self, what: str, request: WireRequest) -> None:
        self._outbox.post(what, self._server.pool, self._server.target(request.path), request.body)

    async def aclose(self) -> None:
        await self._outbox.aclose()


class Outbox:
    """Posts messages behind the backs of calls; what becomes of them is only logged."""

    def __init__(self, backend: str, credentials: Credentials) -> None:
        self._backend = backend
        self._credentials = credentials
        self._waiting: deque[Notice] = deque()
        self._senders: set[asyncio.Task[None]] = set()  # stay once they are there: a new task costs as much as a notice
        self._resting: list[asyncio.Future[None]] = []  # of the senders, for what wakes them
        self._has_room = True
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None  # asked for once: each time would be a system call

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
