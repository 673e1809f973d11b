"""The public sockets of several workers, all bound to the same address (SO_REUSEPORT).

The kernel distributes connections by a hash, so that each worker gets its share of those that stay open (202 and 198
of 400). With one socket for all workers, the first to wake up accepts everything (4, 23 and 40 of 100 were left to the
other). The supervisor keeps the sockets open: callers of a worker that died wait in the queue for the next one.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

from gateway.net.server import ServerError
from gateway.net.server.binding import bind_hosts, bind_one


def bind(hosts: str | Sequence[str], port: int, count: int) -> list[list[socket.socket]]:
    """Binds the addresses of hosts so many times; returns a group of sockets for each time. Raises ServerError."""
    if port:
        # Another gateway of ours on that port would let us share it, and get some of our callers.
        close_all([bind_hosts(hosts, port)])
    groups: list[list[socket.socket]] = []
    try:
        for _ in range(count):
            groups.append(bind_hosts(hosts, port, shared=True))
            port = groups[0][0].getsockname()[1]  # the system chooses one for 0, which all others use
    except ServerError:
        close_all(groups)
        raise
    return groups


def renew(sockets: list[socket.socket]) -> None:
    """Replaces sockets by new ones that do not listen yet; callers in the queues of the old ones are cut off."""
    for index, old in enumerate(sockets):
        with suppress(OSError):  # too many open files; then the old one stays
            sockets[index] = bind_one(old.family, old.getsockname(), shared=True)
            old.close()


def close_all(sockets: Sequence[Sequence[socket.socket]]) -> None:
    for group in sockets:
        for sock in group:
            sock.close()


def address_of(sockets: Sequence[Sequence[socket.socket]]) -> tuple[str, int]:
    host, port = sockets[0][0].getsockname()[:2]
    return host, port
