"""One listening address: its limits, its connections, and what the application tells the server about its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Scope

from gateway.net.body_memory import BodyMemory
from gateway.net.server.options import BODY_MEMORY_BYTES, RESERVED_CONNECTIONS, ServerOptions
from gateway.net.server.refusals import ServerRefusal
from gateway.net.server.tls import ServingContext
from gateway.net.sliced_input import ParseQueue

if TYPE_CHECKING:
    from gateway.net.server.connection import Connection

ABORT_S = 1.0  # for cancelled applications to end; they have nothing left to say to anyone


def _by_address(scope: Scope) -> str:
    return (scope["client"] or ("", 0))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a listener serves."""

    app: ASGIApp
    # Called for a request that the application never sees: the cause, its id, and the caller as `client` of a scope.
    refused: Callable[[ServerRefusal, bytes, tuple[str, int] | None], None] = lambda why, request_id, client: None
    handshake_failed: Callable[[str], None] = lambda reason: None  # with OpenSSL's word for why
    # Whether an answer that is due depends on a request yet to come, such as a callback, and on one at this path. Such
    # bodies wait for memory and are never refused.
    is_awaiting: Callable[[], bool] = lambda: False
    is_awaited: Callable[[str], bool] = lambda path: False
    holder_of: Callable[[Scope], str] = _by_address  # for whom a request counts in memory until its caller is known
    on_stop: Callable[[], None] = lambda: None  # called when the server is to stop, before the delay of that,
    on_drain: Callable[[], None] = lambda: None  # and when no more calls are accepted


class Listener:
    """One listening address with its connections."""

    def __init__(self, options: ServerOptions, max_connections: int | None = None) -> None:
        self.options = options
        self.max_connections = options.max_connections if max_connections is None else max_connections
        self.is_retiring = False  # answers end their connections, so that no idle one is left for a call when it drains
        self.is_late = False  # it drains, and accepts new connections only for what answers wait for
        self.reserved_for: frozenset[str] = (
            frozenset()
        )  # paths that are served when there are too many connections, too
        self.tasks: set[asyncio.Task[Any]] = set()  # that answer requests
        self.memory = BodyMemory(BODY_MEMORY_BYTES)  # counts bodies and answers
        self.parse_queue = ParseQueue()  # for connections whose requests are expensive to parse
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.late: dict[Connection, None] = {}  # those accepted while it `is_late`
        self.reserved: dict[Connection, None] = {}  # those in places that are reserved
        self.unread: set[Connection] = set()  # whose callers do not read their answers
        self.emptied = asyncio.Event()  # the last connection has gone

    def use(self) -> tuple[int, int]:
        """How many callers are connected, and how many may be."""
        return len(self.connections), self.max_connections

    def admits(self, transport: asyncio.Transport) -> bool:
        """Whether the handshake of a connection would succeed today."""
        tls = self.options.tls
        return not isinstance(tls, ServingContext) or tls.admits(transport.get_extra_info("ssl_object"))

    def change(self, options: ServerOptions) -> None:
        """Applies other limits; the timeouts are those of new connections only.

        Connections whose certificate would no longer be accepted end after the answers that are due.
        """
        self.options = options
        self.max_connections = options.max_connections
        for connection in list(self.connections):
            if not self.admits(connection.transport):
                connection.dismiss()

    def make_room(self) -> None:
        """Ends the oldest connection in a reserved place if all of them are taken."""
        if len(self.reserved) >= RESERVED_CONNECTIONS:
            oldest = next(iter(self.reserved))
            del self.reserved[oldest]
            oldest.transport.abort()

    async def finish(self, grace_s: float, force: asyncio.Event) -> None:
        """Waits for the answers that are due, at most `grace_s` or until `force`; then ends what is left."""
        for connection in list(self.connections):
            connection.shutdown()
        try:
            await wait_for_one(self._idle(), force.wait(), timeout_s=grace_s)
        finally:
            for connection in [*self.connections, *self.late, *self.reserved]:
                connection.cut_off()
            for task in self.tasks:
                task.cancel()
            if self.tasks:
                await asyncio.wait(self.tasks, timeout=ABORT_S)

    async def _idle(self) -> None:
        while self.connections:
            self.emptied.clear()
            await self.emptied.wait()
        while self.tasks:  # an application may go on after its answer, or without a caller
            await asyncio.wait(self.tasks)


async def wait_for_one(*waits: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Waits until one of them is over, at most so long; cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
