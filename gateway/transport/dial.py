"""Where a pool connects to, and how: name lookup, TCP to whichever address answers first, TLS.

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
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.transport.connection import Connection
from gateway.transport.errors import Kind, TransportError

DEFAULT_PORTS = {"http": 80, "https": 443}
Address = tuple[socket.AddressFamily, Any]

STAGGER_S = 0.25  # RFC 8305, section 5: the recommended Connection Attempt Delay
NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")  # by the version of OpenSSL
MAX_ADDRESSES = 8  # of one name: hundreds of records must not open hundreds of sockets


@dataclass(frozen=True, slots=True)
class Origin:
    """`scheme` is http or https; `host` a lower-case name or an address, an IPv6 one without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> Self:
        """Takes the origin of an absolute URL; path and query are left out. Raises ValueError."""
        # urlsplit silently removes tabs and line ends, and strips: a URL with them is not what it looks like.
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("a URL holds printable ASCII characters only; write other host names in their xn-- form")
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError("a URL starts with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL here must not hold a user name or password")
        if not parts.hostname:
            raise ValueError("a URL needs a host")
        port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
        if port == 0:
            raise ValueError("a port lies between 1 and 65535")
        return cls(parts.scheme, parts.hostname, port)

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> bytes:
        """What the Host field says: brackets around IPv6, the port unless it is the scheme's own (RFC 9110, 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}").encode("ascii")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority.decode('ascii')}"


class Dialler:
    """Opens connections to one origin. An interruption at any point leaves no socket open."""

    def __init__(self, origin: Origin, ssl_context: ssl.SSLContext | None, timeout_s: float) -> None:
        self._origin = origin
        self._ssl_context = ssl_context
        self._timeout_s = timeout_s
        self._lookup: asyncio.Future[list[Address]] | None = None

    async def dial(self, make: Callable[[], Connection]) -> Connection:
        """Opens one connection. Raises CONNECT, TLS or TIMEOUT; nothing has been sent then."""
        try:
            async with asyncio.timeout(self._timeout_s):
                sock = await first_connected(await self._addresses())
                return await self._wrap(sock, make)
        except TimeoutError as exc:
            message = f"{self._origin} did not take a connection within {self._timeout_s:g} s."
            # Its traceback leads to the task of this, which leads to the error.
            raise TransportError(Kind.TIMEOUT, message, sent=False) from exc.with_traceback(None)
        except (OSError, UnicodeError) as exc:  # UnicodeError: a name that no DNS query can hold
            raise TransportError(Kind.CONNECT, f"{self._origin} cannot be reached: {_why(exc)}.", sent=False) from exc

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
        found = await loop.getaddrinfo(self._origin.host, self._origin.port, type=socket.SOCK_STREAM)
        return interleave([(family, address) for family, _, _, _, address in found])[:MAX_ADDRESSES]

    async def _wrap(self, sock: socket.socket, make: Callable[[], Connection]) -> Connection:
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
