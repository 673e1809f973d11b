"""Small messages to a callback tool server, sent in the background: cancellations, closures, choices.

Reactive Agent Protocol: Tool Cancellation, Thread Closure, User Choice. Best effort, and never sent a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

from gateway.core.model import SINGLE_CALL_GROUP
from gateway.core.wire import WireRequest
from gateway.net.client import Pool, TransportError
from gateway.protocols.common.fields import JSON_TYPE
from gateway.protocols.rap import messages as callback
from gateway.protocols.rap.targets import CallbackTargets
from gateway.upstream.credentials import Credentials
from gateway.upstream.replica_url import USER_AGENT, Server

log = logging.getLogger("gateway.backends")

MAX_WAITING = 1000  # messages, a few hundred bytes each; a tool server that takes none must not cost more
SENDERS = 8  # of the connections of the pool, which calls need
TIMEOUT_S = 5.0  # a tool server only has to note them
MAX_REPLY_BYTES = 64 * 1024  # it is not read
REMEMBERED = 10_000  # the latest notices, so that none goes twice
CLOSE_WITHIN_S = 1.0  # for those under way at the end

Notice = tuple[str, Pool, bytes, bytes]  # what it is, where to, its body


class Notices:
    """Notices for one tool server: about a run to the replica that got it, choices to where it wants them answered.

    `count_dropped` is called for each notice that is never sent.
    """

    def __init__(
        self, backend: str, targets: CallbackTargets, credentials: Credentials, count_dropped: Callable[[], None]
    ) -> None:
        self._backend = backend
        self._targets = targets
        self._credentials = credentials
        self._count_dropped = count_dropped
        self._sent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._waiting: asyncio.Queue[Notice] = asyncio.Queue(MAX_WAITING)
        self._senders: list[asyncio.Task[None]] = []  # kept until the end: a new task costs as much as a notice
        self._has_room = True
        self._is_closed = False

    def cancel(self, id_: str, group: str) -> None:
        """Says that a result is not wanted any more; `id_` is that of the invocation."""
        servers = self._targets.release(id_)
        self._post_once("cancel", id_, callback.cancel_notice(id_, group), servers)
        self._close_if_over(group, servers)

    def end(self, id_: str, group: str) -> None:
        """Notes that a run is over, which closes a conversation that has only one call."""
        self._close_if_over(group, self._targets.release(id_))

    def choose(self, id_: str, choice: callback.Choice) -> bool:
        """Answers with the default; False if the answer is wanted at an origin that is not allowed."""
        target = self._targets.find(choice.response_url)
        if target is None:
            return False
        self._queue("choice", *target, callback.encode_choice(id_, choice.default))
        return True

    def _close_if_over(self, group: str, servers: Sequence[Server]) -> None:
        """Conversations of more than one call may go on for ever."""
        if group.startswith(SINGLE_CALL_GROUP):
            self._post_once("close", group, callback.close_notice(group), servers)

    def _post_once(self, what: str, of: str, request: WireRequest, servers: Sequence[Server]) -> None:
        if (what, of) in self._sent:
            return
        if len(self._sent) >= REMEMBERED:
            self._sent.popitem(last=False)
        self._sent[what, of] = None
        for server in servers:
            self._queue(what, server.pool, server.target(request.path), request.body)

    def _queue(self, what: str, pool: Pool, target: bytes, body: bytes) -> None:
        """Queues a message; `what` names it in the log. Drops it when too many wait, or the backend is closed."""
        if self._is_closed or self._waiting.full():
            self._drop(what)
            return
        self._has_room = self._has_room or self._waiting.empty()
        self._waiting.put_nowait((what, pool, target, body))
        if not self._senders:
            self._senders = [asyncio.create_task(self._send_all()) for _ in range(SENDERS)]

    def _drop(self, what: str) -> None:
        self._count_dropped()
        if self._has_room:  # once, until the queue is empty: there may be one for each call
            log.warning("notices are dropped", extra={"backend": self._backend, "notice": what})
        self._has_room = False

    async def _send_all(self) -> None:
        while True:
            notice = await self._waiting.get()
            await asyncio.sleep(0)  # the caller of a call that is over is answered first
            await self._send(*notice)
            self._waiting.task_done()

    async def _send(self, what: str, pool: Pool, target: bytes, body: bytes) -> None:
        headers = (USER_AGENT, JSON_TYPE, *self._credentials("anonymous"))
        try:
            reply = await pool.request(b"POST", target, headers, body, timeout_s=TIMEOUT_S, max_body=MAX_REPLY_BYTES)
            outcome = str(reply.status)
        except TransportError as exc:
            outcome = str(exc.kind)
        extra = {"backend": self._backend, "notice": what, "outcome": outcome}
        log.debug("a notice was sent", extra=extra)  # real tool servers lack some of the paths, and may

    async def aclose(self) -> None:
        """Lets what waits or is under way arrive, for a moment, and drops the rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._waiting.join()
        self._is_closed = True
        while not self._waiting.empty():
            self._drop(self._waiting.get_nowait()[0])
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
