"""Accepts connections, as many at a time as are waiting, and bounds the handshakes that are under way.

libuv accepts one connection per turn of the loop. A turn is as long as all the calls that are ready in it, so that a
gateway under load would accept some dozens of new callers a second and leave the others in the queue of the kernel.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvloop

from gateway.net.networks import network
from gateway.net.server.options import BACKLOG, SPARE_CONNECTIONS

ACCEPTS_PER_TURN = 64  # some 3 ms, after which the calls of those accepted before go on
NO_FILES_PAUSE_S = 1.0  # before the next attempt, when no files are left: the kernel would report it in every turn

log = logging.getLogger("gateway.server")
MOST = 2048
SHARE = 4  # one network gets a quarter,
LEAST = 256  # or so many: a crowd behind one address may come back at once, and 64 are accepted in a row


class Acceptor:
    """Listens on one or more sockets. `tls` holds the options of the loop for encrypted connections, or is empty."""

    def __init__(self, make: Callable[[], asyncio.Protocol], tls: dict[str, Any], handshakes: Handshakes) -> None:
        self._make = make
        self._tls = tls
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []
        self._accepting: set[asyncio.Task[None]] = set()

    async def open(self, **where: Any) -> None:
        """Listens at `host` and `port`, or on a `sock`, beside those opened before. Raises OSError."""
        loop = cast(uvloop.Loop, self._loop)
        server = await loop.create_server(self._make, **where, start_serving=False)
        self._servers.append(cast(asyncio.Server, server))
        for own in self._servers[-1].sockets:
            # The loop does not hand out its own; this is a duplicate.
            self._sockets.append(socket.socket(fileno=os.dup(own.fileno())))
            self._sockets[-1].setblocking(False)
            self._sockets[-1].listen(BACKLOG)
            self._watch(self._sockets[-1])

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first socket."""
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stops listening; connections stay open."""
        while self._sockets:
            listening = self._sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()
        while self._servers:
            self._servers.pop().close()

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accepts what waits; the loop calls again in its next turn if there is more."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                log.warning("no caller can be accepted", extra={"reason": exc.strerror})
                self._loop.remove_reader(listening)
                self._loop.call_later(NO_FILES_PAUSE_S, self._watch, listening)
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._connect(sock))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
            if self._tls:
                self._handshakes.begin(network(address[0]), task)

    async def _connect(self, sock: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError):  # the caller has left, or its handshake failed
            await self._loop.connect_accepted_socket(self._make, sock, **self._tls)


class Handshakes:
    """The callers that have connected and whose handshakes are not over.

    A new one is always let in. Where there are too many, the oldest gives way: of its own network, else of the network
    that has most. A regular handshake takes two round trips, so the oldest is one that hangs. `max_connections` says
    how many callers may be connected; there are few more handshakes than that.
    """

    def __init__(self, max_connections: Callable[[], int]) -> None:
        self._max_connections = max_connections
        self._by_network: dict[str, dict[asyncio.Task[None], None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begin(self, network: str, task: asyncio.Task[None]) -> None:
        """Counts a handshake until its task is over, and cancels the one that gives way."""
        most = min(MOST, self._max_connections() + SPARE_CONNECTIONS)
        if len(self._by_network.get(network, ())) >= max(most // SHARE, LEAST):
            self._end_oldest(network)
        elif self._count >= most:
            self._end_oldest(max(self._by_network, key=lambda name: len(self._by_network[name])))
        self._by_network.setdefault(network, {})[task] = None
        self._count += 1
        task.add_done_callback(partial(self._forget, network))

    def _end_oldest(self, network: str) -> None:
        oldest = next(iter(self._by_network[network]))
        self._forget(network, oldest)
        oldest.cancel()

    def _forget(self, network: str, task: asyncio.Task[None]) -> None:
        """Counts it no more; a second call does nothing."""
        of_network = self._by_network.get(network, {})
        if task in of_network:
            del of_network[task]
            self._count -= 1
            if not of_network:
                del self._by_network[network]
