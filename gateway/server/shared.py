"""What the connections of one listening address share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import ASGIApp, Scope

from gateway.memory import BodyMemory
from gateway.pacing import ParseQueue
from gateway.server.options import BODY_MEMORY_BYTES, ServerOptions
from gateway.server.refusals import Refusal
from gateway.server.tls import ServingContext


class Shared:
    """The application of a listening address, its limits, and the tasks that answer requests.

    `refused` is called for requests that the application never sees, with the cause, the request's id, and the caller
    as `client` of an ASGI scope.
    Once it `is_retiring`, answers end their connections, so that no idle one is left for a call when it drains.
    Once it drains, it accepts no connections, unless an answer that is due depends on a request yet to come, such as a
    callback: `is_awaiting` says so. Then it goes on listening and `is_late`: new connections are served only at paths
    for which `is_awaited` is true.
    When there are too many connections, further ones are still served at the paths of `reserved_for`; the oldest of
    these gives way to the next.
    `memory` counts bodies and answers, for the caller that `holder_of` returns; where `is_awaited`, bodies wait for
    memory instead of being refused.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, max_connections: int) -> None:
        self.app = app
        self.options = options
        self.max_connections = max_connections
        self.is_retiring = self.is_late = False
        self.reserved_for: frozenset[str] = frozenset()
        self.tasks: set[asyncio.Task[None]] = set()
        self.memory = BodyMemory(BODY_MEMORY_BYTES)
        self.holder_of: Callable[[Scope], str] = lambda scope: (scope["client"] or ("", 0))[0]
        self.parse_queue = ParseQueue()  # for connections whose requests are expensive to parse
        self.is_awaiting: Callable[[], bool] = lambda: False
        self.is_awaited: Callable[[str], bool] = lambda path: False
        self.refused: Callable[[Refusal, bytes, tuple[str, int] | None], None] = lambda why, request_id, client: None

    def admits(self, transport: asyncio.Transport) -> bool:
        """Whether the handshake of a connection would succeed today."""
        tls = self.options.tls
        return not isinstance(tls, ServingContext) or tls.admits(transport.get_extra_info("ssl_object"))


async def wait_for_one(*waits: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Waits until one of them is over, at most so long; cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
