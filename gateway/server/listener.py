"""What the connections of one listening address share, and how they are all brought to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Scope

from gateway.memory import BodyMemory
from gateway.pacing import ParseQueue
from gateway.server.options import BODY_MEMORY_BYTES, ServerOptions
from gateway.server.tls import ServingContext

if TYPE_CHECKING:
    from gateway.server.connection import Connection, UnreadAnswer

ABORT_S = 1.0  # for cancelled applications to end; they have nothing left to say to anyone


class Listener:
    """One listening address: its application, its limits, its connections and the tasks that answer them.

    `refused` is called for requests that the application never sees, with the status, the reason in a fixed sentence,
    and the caller as `client` of an ASGI scope.
    Once it `is_retiring`, answers end their connections, so that no idle one is left for a call when it drains.
    Once it drains, it accepts no connections, unless an answer that is due depends on a request yet to come, such as a
    callback: `is_awaiting` says so. Then it goes on listening and `is_late`: new connections are served only at paths
    for which `is_awaited` is true.
    `memory` counts bodies and answers, for the caller that `holder_of` returns; where `is_awaited`, bodies wait for
    memory instead of being refused.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, max_connections: int) -> None:
        self.app = app
        self.options = options
        self.max_connections = max_connections
        self.is_retiring = self.draining = self.is_late = False
        self.connections: set[Connection] = set()
        self.late: set[Connection] = set()  # those accepted while it `is_late`
        self.tasks: set[asyncio.Task[None]] = set()
        self.memory = BodyMemory(BODY_MEMORY_BYTES)
        self.holder_of: Callable[[Scope], str] = lambda scope: (scope["client"] or ("", 0))[0]
        self.unread: set[UnreadAnswer] = set()
        self.parse_queue = ParseQueue()  # for connections whose requests are expensive to parse
        self.is_awaiting: Callable[[], bool] = lambda: False
        self.is_awaited: Callable[[str], bool] = lambda path: False
        self.refused: Callable[[int, str, tuple[str, int] | None], None] = lambda status, why, client: None
        self._emptied = asyncio.Event()

    def change(self, options: ServerOptions) -> None:
        """Applies other limits; the timeouts are those of new connections only.

        Connections whose certificate would no longer be accepted end after the answers that are due.
        """
        self.options = options
        self.max_connections = options.max_connections
        for connection in list(self.connections):
            if not self.admits(connection.transport):
                connection.dismiss()

    def admits(self, transport: asyncio.Transport) -> bool:
        """Whether the handshake of a connection would succeed today."""
        tls = self.options.tls
        return not isinstance(tls, ServingContext) or tls.admits(transport.get_extra_info("ssl_object"))

    def note_if_empty(self) -> None:
        """Ends the wait of `finish` when the last connection has gone."""
        if self.draining and not self.connections:
            self._emptied.set()

    async def finish(self, grace_s: float, force: asyncio.Event) -> None:
        """Waits for the answers that are due, at most `grace_s` or until `force`; then ends what is left."""
        self.draining = True
        for connection in list(self.connections):
            connection.shutdown()
        self.note_if_empty()
        waits = [asyncio.ensure_future(self._idle()), asyncio.ensure_future(force.wait())]
        try:
            await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await self._abort()

    async def _idle(self) -> None:
        await self._emptied.wait()
        while self.tasks:  # an application may go on after its answer, or without a caller
            await asyncio.wait(self.tasks)

    async def _abort(self) -> None:
        for connection in [*self.connections, *self.late]:
            connection.cut_off()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=ABORT_S)
