"""Where connections come in: as many at a time as are waiting.

libuv accepts one connection per turn of the loop. A turn is as long as all the calls that are ready in it, so that a
gateway under load would take in some dozens of new callers a second and leave the others standing in the kernel.
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

ACCEPTED_AT_ONCE = 64  # some 3 ms, after which the calls of those who are in already go on


class Door:
    """A listening server. `tls` holds what the loop is to be told of encrypted connections, nothing for plain ones."""

    def __init__(self, make: Callable[[], asyncio.Protocol], tls: dict[str, Any]) -> None:
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._sockets: list[socket.socket] = []
        self._entering: set[asyncio.Task[None]] = set()
        self._is_looking = False

    async def open(self, **where: Any) -> None:
        """Listens at `host` and `port`, or on a `sock`. Raises OSError."""
        loop = cast(uvloop.Loop, self._loop)
        server = await loop.create_server(self._first, **where, **self._tls, backlog=BACKLOG)
        self._server = cast(asyncio.Server, server)
        for listening in self._server.sockets:
            # The loop keeps its own to itself; this is another name for the same.
            self._sockets.append(socket.socket(fileno=os.dup(listening.fileno())))
            self._sockets[-1].setblocking(False)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first socket."""
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Listens no more; connections stay."""
        if self._server is not None:
            self._server.close()
        while self._sockets:
            self._sockets.pop().close()

    def _first(self) -> asyncio.Protocol:
        """One connection that the loop has accepted, and probably not the only one that waits."""
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)
        return self._make()

    def _look(self) -> None:
        more = [self._accept(listening) for listening in self._sockets]
        self._is_looking = any(more)
        if self._is_looking:
            self._loop.call_soon(self._look)

    def _accept(self, listening: socket.socket) -> bool:
        """Takes in what waits. Returns whether there may be more."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except OSError:  # nobody waits, or no files are left, which the loop's own attempt will tell of
                return False
            accepted.setblocking(False)
            task = self._loop.create_task(self._enter(accepted))
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)
        return True

    async def _enter(self, accepted: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError):  # the caller has left, or did not get through the handshake
            await self._loop.connect_accepted_socket(self._make, accepted, **self._tls)
