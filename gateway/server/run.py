"""Runs both listeners in one process and one loop, from the first bind to the last answer."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

import uvloop
from starlette.types import ASGIApp

from gateway.server.connection import Connection
from gateway.server.listener import Listener
from gateway.server.options import ADMIN_CONNECTIONS, BACKLOG, SWEEP_BATCH, Addresses, ServerError, ServerOptions

T = TypeVar("T")

log = logging.getLogger("gateway.server")

SETTLE_S = 0.1  # after the signal, for what the kernel has already accepted or received in our name
ADMIN_GRACE_S = 1.0  # a scrape takes milliseconds
OTHER_FILES = 64  # listeners, logs, the event loop, the state store
GARBAGE_OBJECTS = 20_000  # some 2 MB at the most before the collector looks
MANY_FILES = 1 << 20  # in place of "unlimited", which Linux does not grant

BIND_ERRORS = {
    errno.EADDRINUSE: "the port is in use",
    errno.EADDRNOTAVAIL: "the address is not one of this machine",
    errno.EACCES: "ports below 1024 need a privilege",
}


def main_loop(coro: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on uvloop and returns what it returns."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coro)


async def run(
    public: ASGIApp,
    admin: ASGIApp,
    options: ServerOptions,
    *,
    on_ready: Callable[[Addresses], None],
    on_drain: Callable[[], None],
) -> None:
    """Serves both applications until SIGTERM or SIGINT.

    `on_ready` is called when both listen. A signal calls `on_drain`, then closes the public listener; requests under
    way are answered with `Connection: close` for up to `shutdown_grace_s`; a second signal ends that at once. The
    admin listener goes last, so that probes see the whole of it.

    Raises:
        ServerError: it cannot listen where it should.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, uvloop.Loop):
        raise ServerError("The server runs on uvloop only.")
    stop, force = asyncio.Event(), asyncio.Event()
    outside = Listener(public, options, options.max_connections)
    inside = Listener(admin, options, ADMIN_CONNECTIONS)
    public_server = await _listen(outside, options.host, options.port, options.tls)
    try:
        admin_server = await _listen(inside, options.admin_host, options.admin_port, None)
    except ServerError:
        public_server.close()
        raise
    sweeper = Sweeper(loop, (outside, inside), options.sweep_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: (force if stop.is_set() else stop).set())
    try:
        _report_capacity(options.max_connections)
        on_ready(Addresses(_address(public_server), _address(admin_server)))
        gc.collect()
        gc.freeze()  # what was made at start stays; looking through it at every collection costs milliseconds
        # What calls leave behind has no cycles: at Python's own 700 objects, looking for some costs 4 % of a call.
        gc.set_threshold(GARBAGE_OBJECTS, 20, 20)
        await stop.wait()
        log.info("draining", extra={"connections": len(outside.connections), "requests": len(outside.tasks)})
        outside.draining = True
        on_drain()
        await asyncio.sleep(SETTLE_S)
        public_server.close()
        await outside.finish(options.shutdown_grace_s, force)
    finally:
        public_server.close()
        over = asyncio.Event()
        over.set()
        await outside.finish(0, over)  # torn down without a signal, there is something left
        admin_server.close()
        await inside.finish(ADMIN_GRACE_S, force)
        sweeper.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


class Sweeper:
    """Looks at the deadlines of all connections once per period, in batches so that no call waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listeners: Sequence[Listener], period_s: float) -> None:
        self._loop = loop
        self._listeners = listeners
        self._period_s = period_s
        self._due: list[Connection] = []
        self._next = loop.call_later(period_s, self._start)

    def stop(self) -> None:
        """Ends the sweeping."""
        self._next.cancel()

    def _start(self) -> None:
        self._due = [cast(Connection, one) for listener in self._listeners for one in listener.connections]
        self._sweep()

    def _sweep(self) -> None:
        batch = self._due[-SWEEP_BATCH:]
        del self._due[-SWEEP_BATCH:]
        # The next one first: a check that fails is reported by the loop, and the limits go on to hold.
        if self._due:
            self._next = self._loop.call_later(0, self._sweep)
        else:
            self._next = self._loop.call_later(self._period_s, self._start)
        now = self._loop.time()
        for connection in batch:
            connection.check(now)


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


def _report_capacity(max_connections: int) -> None:
    files = raise_open_files()
    fits = max(files - OTHER_FILES, 0) // 2
    log.info("%d open files: room for %d waiting calls with a connection on either side", files, fits)
    if max_connections > fits:
        log.warning(
            "max_connections is %d but only %d waiting calls fit: raise the limit of open files (ulimit -n) to %d",
            max_connections,
            fits,
            max_connections * 2 + OTHER_FILES,
        )


async def _listen(listener: Listener, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    if not 0 <= port <= 65535:  # uvloop would listen on what is left of it in 16 bits
        raise ServerError(f"Cannot listen on {host}:{port}: a port is at most 65535.")
    handshake_s = None if tls is None else listener.options.head_timeout_s
    try:
        return await loop.create_server(
            lambda: Connection(listener),
            host=host,
            port=port,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=handshake_s,
        )
    except socket.gaierror as exc:
        raise ServerError(f"Cannot listen on {host}:{port}: the host is not known.") from exc
    except OSError as exc:
        reason = BIND_ERRORS.get(exc.errno or 0, str(exc))
        raise ServerError(f"Cannot listen on {host}:{port}: {reason}.") from exc


def _address(server: asyncio.Server) -> tuple[str, int]:
    host, port = server.sockets[0].getsockname()[:2]
    return host, port
