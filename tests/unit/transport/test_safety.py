"""What a pool must survive: callers who leave at any moment, and servers that say more or less than they were asked.

Slots are never lost, no reply reaches another's call, and no request is sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import struct
from collections.abc import Awaitable, Iterator

import pytest

from gateway.transport import Kind, Limits, Origin, Pool, Reply, TransportError
from tests.unit.transport.scripted import (
    DEADLINE_S,
    OK,
    Peer,
    assert_balanced,
    call,
    failure,
    pooled,
    serving,
    stats_of,
    until,
)

pytestmark = pytest.mark.anyio

CANCELLATIONS = 3500  # pools that lose slots have been seen to die after 440 to 2,700


class Storm:
    """Rounds of calls most of which are cancelled at any moment, and what became of the others."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self.pool = pool
        self.cancelled = 0
        self.wrong: list[object] = []
        self._dice = random.Random(seed)
        self._sent = 0

    async def round(self) -> None:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(self._call()) for _ in range(120)]
        for task in tasks:
            if self._dice.random() < 0.8:
                loop.call_later(self._dice.random() * 0.008, task.cancel)
        await asyncio.wait(tasks)
        self.cancelled += sum(task.cancelled() for task in tasks)

    async def _call(self) -> None:
        self._sent += 1
        target = b"/%d" % self._sent
        outcome = await outcome_of(call(self.pool, target))
        hung_up = isinstance(outcome, TransportError) and outcome.kind is Kind.CLOSED
        if not hung_up and not (isinstance(outcome, Reply) and outcome.body == target):
            self.wrong.append((target, outcome))


async def outcome_of(calling: Awaitable[Reply]) -> Reply | TransportError:
    try:
        return await calling
    except TransportError as error:
        return error


async def test_thousands_of_random_cancellations_lose_no_slot_and_mix_no_replies() -> None:
    dice = random.Random(20)
    calm = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1]
            await asyncio.sleep(dice.random() * 0.003)
            fate = 1.0 if calm.is_set() else dice.random()
            close = b"Connection: close\r\n" if fate < 0.1 else b""
            await peer.send(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (close, len(target), target))
            if fate < 0.15:
                return  # with and without a warning

    async with serving(script) as server, pooled(server, Limits(connections=20, connect_timeout_s=60.0)) as pool:
        storm = Storm(pool, 20)
        while storm.cancelled < CANCELLATIONS:
            await storm.round()
            assert_balanced(pool)
            assert stats_of(pool).waiting == 0
        assert storm.wrong == []
        calm.set()
        await until(lambda: stats_of(pool).connecting == 0)
        assert stats_of(pool).live == stats_of(pool).idle
        targets = [b"/after/%d" % i for i in range(200)]
        replies = await asyncio.gather(*(call(pool, target) for target in targets))
        assert [reply.body for reply in replies] == targets
        assert stats_of(pool).slots == stats_of(pool).live == stats_of(pool).idle <= 20


async def test_a_reply_that_no_request_asked_for_closes_the_idle_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await asyncio.sleep(0.01)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforeign")
        await peer.until_closed()

    async with serving(script) as server, pooled(server) as pool:
        for _ in range(5):
            assert (await call(pool)).body == b"ok"
            await until(lambda: stats_of(pool).live == 0)
        assert server.connections == 5


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


async def test_a_post_is_never_sent_twice() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()  # and closes without an answer

    async with serving(script) as server, pooled(server) as pool:
        for number in range(10):
            assert (await call(pool, b"/first/%d" % number)).body == b"ok"
            error = await failure(call(pool, b"/second/%d" % number))
            assert (error.kind, error.sent) == (Kind.CLOSED, True)
        targets = [request.split(b" ")[1] for request in server.requests]
        assert len(targets) == len(set(targets)) == 20
