"""Binds the sockets of listeners: for each address of each host one, and all of them to the same port."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.net.server.options import ListenError

ATTEMPTS = 10  # with a port that the system chooses for the first socket, and may have given away for the next
# `::` means every address of the machine; a socket of each family, so that callers over IPv4 are seen with their own.
EVERY_ADDRESS = {"::": ("::", "0.0.0.0")}  # noqa: S104 - the operator wants that
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # of a machine without IPv6

BIND_ERRORS = {
    errno.EADDRINUSE: "the port is in use",
    errno.EADDRNOTAVAIL: "the address is not one of this machine",
    errno.EACCES: "ports below 1024 need a privilege",
}
Place = tuple[int, tuple[Any, ...]]  # the family, and the address as the system writes it, without the port


def bind_hosts(hosts: str | Sequence[str], port: int, *, shared: bool = False) -> list[socket.socket]:
    """Binds all addresses of these hosts; for port 0 the system chooses one. Raises ListenError.

    With `shared` other sockets may be bound to the same addresses, if they are shared, too.
    """
    names = (hosts,) if isinstance(hosts, str) else tuple(hosts)
    if not 0 <= port <= 65535:
        raise ListenError(names[0], port, "a port is at most 65535")
    attempts = 1 if port else ATTEMPTS
    while True:
        attempts -= 1
        try:
            return _bind_all(names, port, shared=shared)
        except ListenError:
            if not attempts:
                raise


def _bind_all(hosts: Sequence[str], port: int, *, shared: bool) -> list[socket.socket]:
    sockets: dict[Place, socket.socket] = {}
    host = hosts[0]
    try:
        for host in hosts:
            for place in _places(host):
                if place not in sockets:
                    family, (address, *scope) = place
                    sockets[place] = bind_one(family, (address, port, *scope), shared=shared)
                    port = sockets[place].getsockname()[1]  # for 0 the one of the first, which all others use
    except OSError as exc:
        for sock in sockets.values():
            sock.close()
        raise cannot_listen(host, port, exc) from exc
    return list(sockets.values())


def _places(host: str) -> Iterator[Place]:
    """The addresses of a host. Raises OSError."""
    for name in EVERY_ADDRESS.get(host, (host,)):
        if name != host or host not in EVERY_ADDRESS or _has_family(socket.AF_INET6):
            entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            yield from ((family, (at[0], *at[2:])) for family, _, _, _, at in entries)


def _has_family(family: socket.AddressFamily) -> bool:
    """Whether the machine has addresses of that family; it may be switched off."""
    try:
        bind_one(family, ("::1", 0, 0, 0), shared=False).close()
    except OSError as exc:
        return exc.errno not in NO_SUCH_FAMILY
    return True


def bind_one(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    """Binds one socket, an IPv6 one to IPv6 alone. Raises OSError."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def cannot_listen(host: str, port: int, exc: OSError) -> ListenError:
    """Why the system does not let us listen there, in one sentence for the operator."""
    unknown = isinstance(exc, socket.gaierror)
    reason = "the host is not known" if unknown else BIND_ERRORS.get(exc.errno or 0, str(exc))
    return ListenError(host, port, reason, by_host=unknown or exc.errno in NO_SUCH_FAMILY)
