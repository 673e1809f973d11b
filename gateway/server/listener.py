"""What the connections of one listening address share, and how they all come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from typing import Protocol, cast

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn._types import HTTPScope
from uvicorn.server import ServerState

from gateway.memory import BodyMemory
from gateway.pacing import ParseQueue
from gateway.server.options import BACKLOG, BODY_MEMORY_BYTES, ServerOptions
from gateway.server.tls import ServingContext

ABORT_S = 1.0  # how long cancelled applications may take to let go; they have nothing left to say to anyone


class Dismissed(Protocol):
    """A connection, as far as it is brought to its end."""

    transport: asyncio.Transport

    def dismiss(self) -> None: ...

    def cut_off(self) -> None: ...


class Reader(Protocol):
    """A connection whose caller has an answer to read."""

    slow_since: float

    @property
    def unread_of(self) -> str:
        """For whom the answer is held in memory."""
        ...

    def note_taken(self, now: float) -> None:
        """Looks how much its caller has taken."""
        ...

    def drop_unread(self) -> None:
        """Ends the connection at once, and its answer with it."""
        ...


class Listener(ServerState):
    """One listening address: its application, its limits, its connections and the tasks that answer them.

    `refused` hears of the requests that the application never sees: with what status, why in a fixed sentence, and from
    whom, as `client` of an ASGI scope.
    Once it `is_retiring`, answers end their connections, so that none is left idle for a call to come when it drains.
    Once it drains nobody is let in any more, unless an answer that is owed depends on a request yet to come, such as a
    callback: `is_awaiting` tells. Then it goes on listening and `is_late`: new connections are served only at the paths
    for which `is_awaited` is true.

    `memory` counts bodies and answers, for whom `holder_of` says; what `is_awaited` is never refused for want of it.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, max_connections: int) -> None:
        super().__init__()
        self.options = options
        self.max_connections = max_connections
        self.is_retiring = self.draining = self.is_late = False
        self.memory = BodyMemory(BODY_MEMORY_BYTES)
        self.holder_of: Callable[[HTTPScope], str] = lambda scope: (scope["client"] or ("", 0))[0]
        self.unread: set[Reader] = set()  # connections with an answer that waits to be read
        self.parse_queue = ParseQueue()  # for connections whose requests are expensive to parse
        self.late: set[Dismissed] = set()  # connections made since
        self.is_awaiting: Callable[[], bool] = lambda: False
        self.is_awaited: Callable[[str], bool] = lambda path: False
        self.refused: Callable[[int, str, tuple[str, int] | None], None] = lambda status, why, client: None
        self._emptied = asyncio.Event()
        self.config = Config(
            app,
            http="httptools",
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # the application knows which of them to believe
            server_header=False,
            date_header=False,
            workers=1,  # else read from the environment
            backlog=BACKLOG,
        )
        self.config.load()

    def change(self, options: ServerOptions) -> None:
        """Goes by other limits; connections that are open already keep the times they have.

        Connections whose certificate would not be accepted any more end with the answers they are owed.
        """
        self.options = options
        self.max_connections = options.max_connections
        for connection in list(cast(Set[Dismissed], self.connections)):
            if not self.admits(connection.transport):
                connection.dismiss()

    def admits(self, transport: asyncio.Transport) -> bool:
        """Whether the connection's caller would get through the handshake as it is now."""
        tls = self.options.tls
        return not isinstance(tls, ServingContext) or tls.admits(transport.get_extra_info("ssl_object"))

    def note_if_empty(self) -> None:
        """Ends the wait for connections to go if the last one has gone."""
        if self.draining and not self.connections:
            self._emptied.set()

    async def finish(self, grace_s: float, force: asyncio.Event) -> None:
        """Waits for the answers that are owed, at most `grace_s` or until `force`; then ends what is left."""
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
        for connection in [*cast(Set[Dismissed], self.connections), *self.late]:
            connection.cut_off()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=ABORT_S)
