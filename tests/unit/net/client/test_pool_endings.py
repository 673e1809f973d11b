"""How things end: each wait at its time, calls whose callers leave, and the pool itself."""

from __future__ import annotations

import asyncio

import pytest

from gateway.net.client import Kind, Limits, Origin, Pool
from tests.unit.net.client.scripted import (
    DEADLINE_S,
    Gate,
    Peer,
    Script,
    acquire,
    call,
    echo_target,
    failure,
    listening,
    pooled,
    serving,
    start,
    stats_of,
    then,
    until,
)

pytestmark = pytest.mark.anyio


async def test_a_timeout_in_the_queue_has_sent_nothing() -> None:
    gate = Gate()
    async with serving(gate.script) as server, pooled(server, Limits(connections=1)) as pool:
        first = start(pool, b"/first")
        await until(lambda: len(gate.waiting) == 1)
        error = await failure(call(pool, b"/late", timeout_s=0.02))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert stats_of(pool).waiting == 0
        gate.open()
        assert await first == b"/first"
        assert gate.waiting == [b"/first"]


async def quiet(peer: Peer) -> None:
    await peer.until_closed()


async def unread(peer: Peer) -> None:
    await peer.wait_for_input()
    await peer.stay()


async def stalled_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200")
    await peer.until_closed()


async def stalled_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
    await peer.until_closed()


async def trickling(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await peer.send(b"1\r\nx\r\n")
        await asyncio.sleep(0.002)


@pytest.mark.parametrize(
    ("late", "size"), [(quiet, 1), (unread, 2**24), (stalled_head, 1), (stalled_body, 1), (trickling, 1)]
)
async def test_the_timeout_covers_everything_after_the_request_says_sent_and_costs_the_connection(
    late: Script, size: int
) -> None:
    async with serving(then(late)) as server, pooled(server) as pool:
        await call(pool)
        error = await failure(call(pool, body=bytes(size), timeout_s=0.05))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)
        assert (stats_of(pool).live, server.connections) == (0, 1)


async def test_the_time_spent_in_the_queue_counts() -> None:
    async with serving(listening) as server, pooled(server, Limits(connections=1)) as pool:
        connection = await acquire(pool)
        calling = start(pool, b"/")
        await until(lambda: stats_of(pool).waiting == 1)
        latest = asyncio.get_running_loop().time() + DEADLINE_S
        await asyncio.sleep(0.02)
        pool.release(connection)
        await until(lambda: len(server.requests) == 1)
        assert connection.deadline <= latest
        calling.cancel()


# Callers who leave.


async def test_a_connection_outlives_the_caller_it_was_opened_for() -> None:
    async with serving(echo_target) as server, pooled(server) as pool:
        task = start(pool, b"/gone")
        await asyncio.sleep(0)
        assert stats_of(pool).connecting == 1
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: stats_of(pool).idle == 1)
        assert (await call(pool, b"/next")).body == b"/next"
        assert server.connections == 1
        assert len(server.requests) == 1


async def test_a_caller_whose_connection_died_keeps_its_place_even_in_a_full_queue() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(connections=1, waiters=1)) as pool:
        await call(pool)
        connection = await acquire(pool)
        first = start(pool, b"/first")
        await until(lambda: stats_of(pool).waiting == 1)
        second = start(pool, b"/second")  # runs before the first does again
        pool.release(connection)
        connection.drop()
        assert await first == b"/first"
        assert await second == b"/second"
        assert b" ".join(server.requests).index(b"/first") < b" ".join(server.requests).index(b"/second")


# The end.


async def test_closing_twice_or_unused_does_no_harm() -> None:
    pool = Pool(Origin("http", "127.0.0.1", 9))
    await pool.aclose()
    await pool.aclose()
    assert (await failure(call(pool))).sent is False
