"""What servers say without being asked is seen before a request is written to them."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Iterator

import pytest

from gateway.net.client import Origin, Pool
from tests.unit.net.client.scripted import (
    DEADLINE_S,
    OK,
    call,
    stats_of,
    until,
)

pytestmark = pytest.mark.anyio


class ByHand:
    """A server driven with blocking calls, so that what it does reaches the kernel while our loop stands still."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.origin = Origin("http", "127.0.0.1", listener.getsockname()[1])

    def accept(self) -> socket.socket:
        peer, _ = self._listener.accept()
        peer.settimeout(DEADLINE_S)
        return peer

    async def serve_one(self, pool: Pool) -> socket.socket:
        """Answers one call on a new connection and returns the server's end of it."""
        calling = asyncio.create_task(call(pool))
        await until(lambda: _is_readable(self._listener))
        peer = self.accept()
        await until(lambda: _is_readable(peer))
        peer.recv(65536)
        peer.sendall(OK)
        assert (await calling).body == b"ok"
        return peer


def _is_readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


@contextlib.contextmanager
def by_hand() -> Iterator[ByHand]:
    with socket.socket() as listener:
        listener.settimeout(DEADLINE_S)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield ByHand(listener)


@pytest.mark.parametrize("what", ["a reply nobody asked for", "the end", "a reset"])
async def test_what_the_loop_has_not_read_yet_is_seen_before_a_request_is_written(what: str) -> None:
    with by_hand() as server:
        pool = Pool(server.origin)
        old = await server.serve_one(pool)
        with old:
            if what == "a reply nobody asked for":
                old.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforeign")
            elif what == "the end":
                old.shutdown(socket.SHUT_WR)
            else:
                old.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                old.close()
            with await server.serve_one(pool):  # answers "ok" on a new connection
                assert stats_of(pool).live == 1
            if what == "the end":
                assert old.recv(65536) == b""  # nothing was written to the old one
        await pool.aclose()
