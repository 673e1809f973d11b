"""How a pool connects: name lookup, TCP to whichever address answers first, the tunnel of a proxy's, TLS.

Happy Eyeballs (RFC 8305) in its simple form: addresses of both families in turn, each tried a quarter of a second after
the one before. Written here because uvloop's `create_connection` does not offer it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Any

from gateway.net.client.connection import PooledConnection
from gateway.net.client.errors import Kind, TransportError
from gateway.net.client.origin import Origin
from gateway.net.client.proxies import Proxy, open_tunnel

Address = tuple[socket.AddressFamily, Any]

STAGGER_S = 0.25  # RFC 8305, section 5: the recommended Connection Attempt Delay
NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")  # by the version of OpenSSL
MAX_ADDRESSES = 8  # of one name: hundreds of records must not open hundreds of sockets


class Dialler:
    """Opens connections to one origin. An interruption at any point leaves no socket open."""

    def __init__(
        self, origin: Origin, ssl_context: ssl.SSLContext | None, timeout_s: float, proxy: Proxy | None = None
    ) -> None:
        self._origin = origin
        self._proxy = proxy
        self._target = str(origin) if proxy is None else f"{origin} through the proxy {proxy}"
        self._ssl_context = ssl_context
        self._timeout_s = timeout_s
        self._lookup: asyncio.Future[list[Address]] | None = None

    async def dial(self, make: Callable[[], PooledConnection]) -> PooledConnection:
        """Opens one connection. Raises CONNECT, TLS or TIMEOUT; nothing has been sent then."""
        try:
            async with asyncio.timeout(self._timeout_s):
                sock = await first_connected(await self._addresses())
                if self._proxy is not None and self._origin.is_tls:
                    await self._tunnel(sock, self._proxy)
                return await self._wrap(sock, make)
        except TimeoutError as exc:
            message = f"{self._target} did not take a connection within {self._timeout_s:g} s."
            # Its traceback leads to the task of this, which leads to the error.
            raise TransportError(Kind.TIMEOUT, message, sent=False) from exc.with_traceback(None)
        except (OSError, UnicodeError) as exc:  # UnicodeError: a name that no DNS query can hold
            message = f"{self._origin} cannot be reached"
            if self._proxy is not None:
                message += f" through the proxy {self._proxy}, which cannot be reached itself"
            message += f": {_why(exc)}."
            raise TransportError(Kind.CONNECT, message, sent=False) from exc

    async def _addresses(self) -> list[Address]:
        """Looks the host up; concurrent callers share one lookup.

        A lookup holds one of the loop's few threads until the resolver gives up, and cannot be cancelled. A dead name
        server of one host must not occupy them all.
        """
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.ensure_future(self._look_up())
            self._lookup.add_done_callback(self._looked_up)
        return await asyncio.shield(self._lookup)

    def _looked_up(self, lookup: asyncio.Future[list[Address]]) -> None:
        """Forgets the lookup. Its error counts as retrieved even if every caller has gone."""
        if self._lookup is lookup:
            self._lookup = None
        if not lookup.cancelled():
            lookup.exception()

    async def _look_up(self) -> list[Address]:
        loop = asyncio.get_running_loop()
        place = self._proxy or self._origin
        entries = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        return interleave([(family, address) for family, _, _, _, address in entries])[:MAX_ADDRESSES]

    async def _tunnel(self, sock: socket.socket, proxy: Proxy) -> None:
        with contextlib.ExitStack() as undo:
            undo.enter_context(sock)
            await open_tunnel(sock, proxy, self._origin)
            undo.pop_all()

    async def _wrap(self, sock: socket.socket, make: Callable[[], PooledConnection]) -> PooledConnection:
        """Puts the loop's transport, and TLS, on a connected socket."""
        connection = make()
        server_hostname = self._origin.host if self._ssl_context is not None else None
        with contextlib.ExitStack() as undo:
            undo.enter_context(sock)
            undo.callback(connection.drop)
            try:
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, sock=sock, ssl=self._ssl_context, server_hostname=server_hostname
                )
            except OSError as exc:
                if self._ssl_context is None or isinstance(exc, TimeoutError):
                    raise
                message = f"The TLS handshake with {self._origin} failed{_why_no_tls(exc)}."
                raise TransportError(Kind.TLS, message, sent=False) from exc
            undo.pop_all()
        return connection


def _why(error: OSError | UnicodeError) -> str:
    """What the system says of a connection that was not made."""
    if isinstance(error, UnicodeError):
        return "its host is no name that can be looked up"
    if isinstance(error, socket.gaierror):
        return f"its host cannot be looked up ({error.strerror})"
    return os.strerror(error.errno).lower() if error.errno else "its host has no address"


def _why_no_tls(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f": {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return ": what answers there does not speak TLS, so its URL should begin with http:"
    return ""


async def first_connected(addresses: list[Address]) -> socket.socket:
    """Returns a socket to the first address that answers. Raises the last OSError when none does."""
    outcome = await _race(addresses)
    if isinstance(outcome, socket.socket):
        return outcome
    try:
        raise outcome
    finally:
        del outcome  # its traceback leads to this frame


async def _race(addresses: list[Address]) -> socket.socket | BaseException:
    """Tries the addresses, each some time after the one before. Returns the first socket, or the last failure."""
    waiting = deque(addresses)
    attempts: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("the name has no address")
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_connect(*waiting.popleft())))
            done, _ = await asyncio.wait(
                attempts, timeout=STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                attempts.remove(attempt)
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                failure = error
        return failure
    finally:
        for attempt in attempts:  # some may have connected in this same turn
            attempt.cancel()
            attempt.add_done_callback(close_loser)


async def _connect(family: socket.AddressFamily, address: Any) -> socket.socket:
    with contextlib.ExitStack() as undo:
        sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
        undo.pop_all()
    return sock


def close_loser(attempt: asyncio.Task[socket.socket]) -> None:
    """Closes the socket of an attempt that was not the first to succeed."""
    if not attempt.cancelled():
        with contextlib.suppress(OSError):
            attempt.result().close()


def interleave(addresses: list[Address]) -> list[Address]:
    """Takes address families in turn, each in the resolver's order (RFC 8305, section 4)."""
    families: dict[socket.AddressFamily, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [address for address in chain.from_iterable(zip_longest(*families.values())) if address is not None]
