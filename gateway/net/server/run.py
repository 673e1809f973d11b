"""Runs both listeners in one process and one loop, from the first bind to the last answer.

`uvicorn.Server` could not: it closes its sockets before calls drain, leaves connections open when the grace is over,
sets no limits of time for TLS, and handles signals for itself alone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import uvloop
from starlette.types import ASGIApp

from gateway.net.body_memory import limit_heap
from gateway.net.server.acceptor import Acceptor, Handshakes
from gateway.net.server.binding import bind_hosts, cannot_listen
from gateway.net.server.connection import Connection
from gateway.net.server.listener import Listener, Service, wait_for_one
from gateway.net.server.options import (
    ADMIN_ALWAYS,
    ADMIN_CONNECTIONS,
    LINGER_S,
    MANY_CONNECTIONS,
    Addresses,
    ServerError,
    ServerOptions,
)
from gateway.net.server.sweeper import Sweeper
from gateway.net.server.tls import ServingContext

T = TypeVar("T")

log = logging.getLogger("gateway.server")

SETTLE_S = 0.1  # after the signal, for what the kernel has already accepted or received in our name
ADMIN_GRACE_S = 1.0  # a scrape takes milliseconds
OTHER_FILES = 64  # listeners, logs, the event loop, the state store
GARBAGE_OBJECTS = 20_000  # some 2 MB at the most before the collector looks
MANY_FILES = 1 << 20  # in place of "unlimited", which Linux does not grant


def main_loop(coro: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on uvloop and returns what it returns."""
    limit_heap()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coro)


class Stop:
    """When a server is to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()  # after the answers that are due, and the delay before them
        self.skipped = asyncio.Event()  # ends that delay
        self.forced = asyncio.Event()  # at once
        self.is_delayed = False

    def ask(self) -> None:
        """Asks the server to stop. The second time forces it, or ends the delay if that is running."""
        if not self.asked.is_set():
            self.asked.set()
        elif self.is_delayed:
            self.is_delayed = False
            self.skipped.set()
        else:
            self.forced.set()

    async def delay(self, delay_s: float) -> None:
        """Waits while calls are still accepted."""
        if delay_s <= 0:
            return
        self.is_delayed = True
        try:
            await wait_for_one(self.skipped.wait(), self.forced.wait(), timeout_s=delay_s)
        finally:
            self.is_delayed = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handles SIGTERM and SIGINT by `ask` for the length of the block."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def run(listener: Listener, service: Service, admin: ASGIApp, *, on_ready: Callable[[Addresses], None]) -> None:
    """Serves callers, and operators by `admin`, until SIGTERM or SIGINT.

    `on_ready` is called when both listen. A signal calls `on_stop` of the service; `drain_delay_s` later, or at a
    second signal, `on_drain` is called. Then the public listener closes, or accepts only what answers wait for;
    requests under way are answered with `Connection: close` for up to `shutdown_grace_s`; one more signal ends that at
    once. The admin listener closes last, so that probes see all of it.

    Raises:
        ServerError: it cannot listen where it should.
    """
    stop, options = Stop(), listener.options
    with closing(await listen(listener, service)) as acceptor:
        async with admin_listener(admin, options, stop) as where:
            with stop.on_signals():
                report_capacity(options.max_connections)
                on_ready(Addresses(acceptor.address, where))
                await serve(listener, service, acceptor, stop)


async def listen(listener: Listener, service: Service, sockets: Sequence[socket.socket] = ()) -> Acceptor:
    """Opens the listener where its options say, or on sockets that are bound already. Raises ServerError."""
    options = listener.options
    if not isinstance(asyncio.get_running_loop(), uvloop.Loop):
        raise ServerError("The server runs on uvloop only.")
    encrypted = {
        "ssl": options.tls,
        "ssl_handshake_timeout": options.head_timeout_s,
        # Without it uvloop waits half a minute for a caller to say goodbye.
        "ssl_shutdown_timeout": LINGER_S,
    }
    if isinstance(options.tls, ServingContext):
        options.tls.refused = service.handshake_failed
    handshakes = Handshakes(lambda: listener.max_connections)
    acceptor = Acceptor(lambda: Connection(listener, service), {} if options.tls is None else encrypted, handshakes)
    sockets = sockets or bind_hosts(options.host, options.port)
    host, port = sockets[0].getsockname()[:2]
    try:
        for sock in sockets:
            await acceptor.open(sock=sock)
    except OSError as exc:
        acceptor.close()
        raise cannot_listen(host, port, exc) from exc
    return acceptor


async def serve(listener: Listener, service: Service, acceptor: Acceptor, stop: Stop) -> None:
    """Answers callers until it is to stop, and then those whose answers are due. Its caller closes the acceptor."""
    sweeper = Sweeper(asyncio.get_running_loop(), listener)
    try:
        _calm_collector()
        await stop.asked.wait()
        service.on_stop()
        listener.is_retiring = True
        await stop.delay(listener.options.drain_delay_s)
        log.info("draining", extra={"connections": len(listener.connections), "requests": len(listener.tasks)})
        service.on_drain()
        await asyncio.sleep(SETTLE_S)
        listener.is_late = service.is_awaiting()
        if not listener.is_late:
            acceptor.close()
        await listener.finish(listener.options.shutdown_grace_s, stop.forced)
    finally:
        await listener.finish(0, stop.forced)  # cancelled without being asked to stop, there is something left
        sweeper.stop()


def _calm_collector() -> None:
    """Makes Python look for garbage less often, and not among what was made at the start."""
    gc.collect()
    gc.freeze()  # what was made at the start stays; looking through it at every collection costs milliseconds
    # What calls leave behind has no cycles: at Python's own 700 objects, looking for some costs 4 % of a call.
    gc.set_threshold(GARBAGE_OBJECTS, 20, 20)


@asynccontextmanager
async def admin_listener(admin: ASGIApp, options: ServerOptions, stop: Stop) -> AsyncIterator[tuple[str, int]]:
    """Serves operators for the length of the block; yields where. Raises ServerError."""
    options = replace(options, host=options.admin_host, port=options.admin_port, tls=None)
    listener = Listener(options, ADMIN_CONNECTIONS)
    listener.reserved_for = ADMIN_ALWAYS
    acceptor = await listen(listener, Service(app=admin))
    sweeper = Sweeper(asyncio.get_running_loop(), listener)
    try:
        yield acceptor.address
    finally:
        acceptor.close()
        await listener.finish(ADMIN_GRACE_S, stop.forced)
        sweeper.stop()


def raise_open_files() -> int:
    """Raises the limit of open files as far as the process may, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MANY_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (ValueError, OSError):  # some kernels promise more than they grant
            return soft
        return most
    return soft if soft != resource.RLIM_INFINITY else most


def connections_for(files: int) -> int:
    """How many callers may wait, each with a connection on either side, while so many files may be open."""
    return max(files - OTHER_FILES, 2) // 2


def most_connections(limit: int | None) -> int:
    """How many callers may be connected: `limit`, else MANY_CONNECTIONS or as many as open files allow."""
    return limit or min(MANY_CONNECTIONS, connections_for(raise_open_files()))


def report_capacity(max_connections: int) -> None:
    """Raises the limit of open files, and logs whether it is enough for so many callers."""
    files = raise_open_files()
    fits = connections_for(files)
    if max_connections <= fits:
        log.info("each process takes up to %d callers and %d open files", max_connections, files)
    else:
        log.warning(
            "server.max_connections is %d but only %d waiting calls fit: raise the limit of open files (ulimit -n) "
            "to %d, or leave max_connections out",
            max_connections,
            fits,
            max_connections * 2 + OTHER_FILES,
        )
