"""How things end: each wait at its time, calls whose callers leave, and the pool itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.transport import Kind, Limits, Origin, Pool
from tests.unit.transport.gate import Gate, start
from tests.unit.transport.scripted import (
    DEADLINE_S,
    Peer,
    acquire,
    answering,
    assert_balanced,
    call,
    echo_target,
    failure,
    listening,
    pooled,
    serving,
    until,
)
from tests.unit.transport.stats import Stats, stats_of


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_timeout_while_waiting_for_the_reply_says_sent_and_costs_the_connection() -> None:
    async with serving(answering()) as server, pooled(server) as pool:
        started = time.monotonic()
        error = await failure(call(pool, timeout_s=0.05))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)
        assert 0.04 < time.monotonic() - started < DEADLINE_S
        assert stats_of(pool).live == 0


@pytest.mark.anyio
@pytest.mark.parametrize("part", [b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"])
async def test_the_timeout_covers_a_reply_that_stalls(part: bytes) -> None:
    async with serving(answering(part)) as server, pooled(server) as pool:
        error = await failure(call(pool, timeout_s=0.05))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)


@pytest.mark.anyio
async def test_the_timeout_covers_a_reply_that_trickles_for_ever() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.002)

    async with serving(script) as server, pooled(server) as pool:
        assert (await failure(call(pool, timeout_s=0.05))).kind is Kind.TIMEOUT


@pytest.mark.anyio
async def test_the_timeout_covers_a_server_that_does_not_read() -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_input()
        await peer.stay()

    async with serving(script) as server, pooled(server) as pool:
        error = await failure(call(pool, body=b"x" * 2**24, timeout_s=0.1))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)


@pytest.mark.anyio
async def test_the_time_spent_in_the_queue_counts() -> None:
    async with serving(listening) as server, pooled(server, Limits(connections=1)) as pool:
        connection = await acquire(pool)
        started = time.monotonic()
        calling = asyncio.ensure_future(failure(call(pool, timeout_s=1.0)))
        asyncio.get_running_loop().call_later(0.8, pool.release, connection)
        error = await calling
        assert (error.kind, error.sent) == (Kind.TIMEOUT, True)
        assert 0.9 < time.monotonic() - started < 1.6  # and not 0.8 + 1.0


# Callers who leave.


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_caller_cancelled_after_it_was_served_hands_the_connection_on() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(connections=1)) as pool:
        connection = await acquire(pool)
        first, second = start(pool, b"/first"), start(pool, b"/second")
        await until(lambda: stats_of(pool).waiting == 2)
        pool.release(connection)
        first.cancel()
        assert await second == b"/second"
        assert server.connections == 1


@pytest.mark.anyio
async def test_a_cancelled_call_costs_its_connection_because_its_reply_may_still_come() -> None:
    gate = Gate()
    async with serving(gate.script) as server, pooled(server) as pool:
        task = start(pool, b"/gone")
        await until(lambda: gate.waiting == [b"/gone"])
        task.cancel()
        await asyncio.wait([task])
        assert stats_of(pool).slots == 0
        gate.open(2)
        assert await start(pool, b"/next") == b"/next"
        assert server.connections == 2


@pytest.mark.anyio
async def test_a_connection_that_dies_between_two_callers_sends_the_second_to_a_new_one() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(connections=1)) as pool:
        await call(pool)
        connection = await acquire(pool)
        waiting = start(pool, b"/next")
        await until(lambda: stats_of(pool).waiting == 1)
        pool.release(connection)
        connection.drop()
        assert await waiting == b"/next"
        assert_balanced(pool)
        assert server.connections == 2


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_connection_that_dies_with_the_caller_it_was_handed_to_is_not_kept() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(connections=1, idle_s=0.01)) as pool:
        await call(pool)
        connection = await acquire(pool)
        waiting = start(pool, b"/gone")
        await until(lambda: stats_of(pool).waiting == 1)
        pool.release(connection)
        connection.drop()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        assert await start(pool, b"/next") == b"/next"


# The end.


@pytest.mark.anyio
async def test_closing_breaks_off_what_is_under_way() -> None:
    async with serving(listening) as server:
        pool = Pool(server.origin, Limits(connections=1))
        running = asyncio.ensure_future(failure(call(pool, b"/running")))
        await until(lambda: len(server.requests) == 1)
        waiting = asyncio.ensure_future(failure(call(pool, b"/waiting")))
        await until(lambda: stats_of(pool).waiting == 1)
        await pool.aclose()
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        assert ((await running).kind, (await running).sent) == (Kind.CLOSED, True)
        assert ((await waiting).kind, (await waiting).sent) == (Kind.CLOSED, False)
        await until(lambda: server.open == 0)


@pytest.mark.anyio
async def test_two_who_close_at_once_are_both_done_when_the_sockets_are_closed() -> None:
    async with serving(listening) as server:
        pool = Pool(server.origin)
        running = asyncio.ensure_future(failure(call(pool)))
        await until(lambda: len(server.requests) == 1)
        await asyncio.wait_for(asyncio.gather(pool.aclose(), pool.aclose()), 1.0)
        assert not pool._closing
        assert (await running).kind is Kind.CLOSED


@pytest.mark.anyio
async def test_closing_twice_or_unused_does_no_harm() -> None:
    pool = Pool(Origin("http", "127.0.0.1", 9))
    await pool.aclose()
    await pool.aclose()
    assert (await failure(call(pool))).sent is False
