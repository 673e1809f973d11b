"""The public sockets of several workers, all bound to the same address (SO_REUSEPORT).

The kernel distributes connections by a hash, so that each worker gets its share of those that stay open (202 and 198
of 400). With one socket for all workers, the first to wake up accepts everything (4, 23 and 40 of 100 were left to the
other). The supervisor keeps the sockets open: callers of a worker that died wait in the queue for the next one.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

from gateway.server import ListenError, cannot_listen


def bind(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """Binds the addresses of a host so many times; returns a group of sockets for each time. Raises ServerError."""
    if not 0 <= port <= 65535:
        raise ListenError(host, port, "a port is at most 65535")
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
        for family, address in places if port else ():
            # Another gateway of ours on that port would let us share it, and get some of our callers.
            _bound(family, address, shared=False).close()
        groups = []
        for _ in range(count):
            group = []
            for family, address in places:
                sock = _bound(family, (address[0], port, *address[2:]), shared=True)
                opened.append(sock)
                group.append(sock)
                port = sock.getsockname()[1]  # the system chooses one for 0, which all others use
            groups.append(group)
    except OSError as exc:
        close_all([opened])
        raise cannot_listen(host, port, exc) from exc
    return groups


def _bound(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
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


def renew(sockets: list[socket.socket]) -> None:
    """Replaces sockets by new ones that do not listen yet; callers in the queues of the old ones are cut off."""
    for index, old in enumerate(sockets):
        with suppress(OSError):  # too many open files; then the old one stays
            sockets[index] = _bound(old.family, old.getsockname(), shared=True)
            old.close()


def close_all(sockets: Sequence[Sequence[socket.socket]]) -> None:
    for group in sockets:
        for sock in group:
            sock.close()


def address_of(sockets: Sequence[Sequence[socket.socket]]) -> tuple[str, int]:
    host, port = sockets[0][0].getsockname()[:2]
    return host, port
