"""Accepts connections, as many at a time as are waiting.

libuv accepts one connection per turn of the loop. A turn is as long as all the calls that are ready in it, so that a
gateway under load would accept some dozens of new callers a second and leave the others in the queue of the kernel.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import uvloop

from gateway.server.options import BACKLOG

ACCEPTED_AT_ONCE = 64  # some 3 ms, after which the calls of those accepted before go on


class Acceptor:
    """Listens on one or more sockets. `tls` holds the options of the loop for encrypted connections, or is empty."""

    def __init__(self, make: Callable[[], asyncio.Protocol], tls: dict[str, Any]) -> None:
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []
        self._accepting: set[asyncio.Task[None]] = set()
        self._is_accepting = False

    async def open(self, **where: Any) -> None:
        """Listens at `host` and `port`, or on a `sock`, beside those opened before. Raises OSError."""
        loop = cast(uvloop.Loop, self._loop)
        server = await loop.create_server(self._accept_first, **where, **self._tls, backlog=BACKLOG)
        self._servers.append(cast(asyncio.Server, server))
        for listening in self._servers[-1].sockets:
            # The loop does not hand out its own; this is a duplicate.
            self._sockets.append(socket.socket(fileno=os.dup(listening.fileno())))
            self._sockets[-1].setblocking(False)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first socket."""
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stops listening; connections stay open."""
        while self._servers:
            self._servers.pop().close()
        while self._sockets:
            self._sockets.pop().close()

    def _accept_first(self) -> asyncio.Protocol:
        """Makes the protocol of a connection that the loop has accepted; others probably wait behind it."""
        if not self._is_accepting:
            self._is_accepting = True
            self._loop.call_soon(self._accept_more)
        return self._make()

    def _accept_more(self) -> None:
        more = [self._accept(listening) for listening in self._sockets]
        self._is_accepting = any(more)
        if self._is_accepting:
            self._loop.call_soon(self._accept_more)

    def _accept(self, listening: socket.socket) -> bool:
        """Accepts what waits. Returns whether there may be more."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except OSError:  # none waits, or no files are left, which the loop's own attempt will report
                return False
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
        return True

    async def _connect(self, accepted: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError):  # the caller has left, or its handshake failed
            await self._loop.connect_accepted_socket(self._make, accepted, **self._tls)
