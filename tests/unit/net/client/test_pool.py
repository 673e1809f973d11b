"""The pool: which caller gets which connection, and what becomes of those that cannot be had."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from gateway.net.client import Kind, Limits, Origin, Pool
from tests.unit.net.client.scripted import (
    DEADLINE_S,
    OK,
    Gate,
    Stats,
    answering,
    call,
    echo_target,
    failure,
    pooled,
    serving,
    start,
    stats_of,
    until,
)

pytestmark = pytest.mark.anyio


async def test_a_request_goes_out_as_written_with_host_and_length() -> None:
    async with serving(answering(OK)) as server, pooled(server) as pool:
        headers = ((b"Content-Type", b"application/json"),)
        await pool.request(b"POST", b"/tools/call", headers, b"{}", timeout_s=DEADLINE_S, max_body=10)
        assert server.requests == [
            b"POST /tools/call HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\n"
            b"Content-Type: application/json\r\ncontent-length: 2\r\n\r\n{}" % server.origin.authority
        ]


async def test_an_invalid_request_is_refused_before_a_connection_is_made() -> None:
    async with serving(answering()) as server, pooled(server) as pool:
        error = await failure(call(pool, b"/a\r\nX: y"))
        assert (error.kind, error.sent) == (Kind.INVALID, False)
        assert stats_of(pool) == Stats(0, 0, 0, 0)


async def test_tcp_does_not_wait_to_fill_packets() -> None:
    async with serving(echo_target) as server, pooled(server) as pool:
        await call(pool)
        transport = pool._idle[0]._transport
        assert transport is not None
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_callers_beyond_the_cap_are_served_in_the_order_they_came() -> None:
    gate = Gate()
    async with serving(gate.script) as server, pooled(server, Limits(connections=2)) as pool:
        calls = [start(pool, b"/%d" % i) for i in range(8)]
        await until(lambda: len(gate.waiting) == 2)
        assert stats_of(pool) == Stats(connecting=0, live=2, idle=0, waiting=6)
        for served in range(3, 9):
            gate.open()
            await until(lambda served=served: len(gate.waiting) == served)  # type: ignore[misc]
        gate.open(2)
        assert await asyncio.gather(*calls) == [b"/%d" % i for i in range(8)]
        assert sorted(gate.waiting[:2]) + gate.waiting[2:] == [b"/%d" % i for i in range(8)]
        assert server.connections == 2


async def test_a_full_queue_says_busy_at_once() -> None:
    gate = Gate()
    async with serving(gate.script) as server, pooled(server, Limits(connections=1, waiters=2)) as pool:
        calls = [start(pool, b"/0")]
        await until(lambda: len(gate.waiting) == 1)
        calls += [start(pool, b"/%d" % i) for i in (1, 2)]
        await until(lambda: stats_of(pool).waiting == 2)
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.BUSY, False)
        gate.open(3)
        assert await asyncio.gather(*calls) == [b"/0", b"/1", b"/2"]


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with serving(echo_target) as server, pooled(server, Limits(idle_s=0.3)) as pool:
        await call(pool)
        assert stats_of(pool).idle == 1
        await until(lambda: stats_of(pool).live == 0)
        await until(lambda: server.open == 0)
        await call(pool)
        assert server.connections == 2


async def test_only_the_connections_nobody_needs_grow_old() -> None:
    gate = Gate()
    async with serving(gate.script) as server, pooled(server, Limits(idle_s=0.5)) as pool:
        calls = [start(pool, b"/%d" % i) for i in range(3)]
        await until(lambda: len(gate.waiting) == 3)
        gate.open(1000)
        await asyncio.gather(*calls)
        give_up = time.monotonic() + DEADLINE_S
        while stats_of(pool).live > 1:
            assert time.monotonic() < give_up
            await call(pool)
            await asyncio.sleep(0.01)
        assert server.connections == 3


# What cannot be reached: nothing has been sent.


async def test_a_refused_connection_is_an_error_of_one_caller_and_its_slot_is_for_the_next() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        pool = Pool(Origin("http", "127.0.0.1", unused.getsockname()[1]), Limits(connections=1))
        errors = await asyncio.gather(*(failure(call(pool)) for _ in range(5)))
        assert [(error.kind, error.sent) for error in errors] == [(Kind.CONNECT, False)] * 5
        assert str(errors[0]).endswith("cannot be reached: connection refused.")
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        await pool.aclose()


@pytest.mark.parametrize("host", ["tools.invalid", "x" * 64 + ".example"])
async def test_an_unknown_name_is_a_connect_error_with_nothing_sent(host: str) -> None:
    pool = Pool(Origin("http", host, 80), Limits(connect_timeout_s=DEADLINE_S))
    error = await failure(call(pool))
    assert (error.kind, error.sent) == (Kind.CONNECT, False)
    assert "cannot be reached: its host " in str(error)
    await pool.aclose()


@contextlib.contextmanager
def unanswering() -> Iterator[int]:
    """A port whose backlog is full: the kernel leaves further connections unanswered."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_server_that_takes_no_connection_costs_the_connect_timeout_with_nothing_sent() -> None:
    with unanswering() as port:
        pool = Pool(Origin("http", "127.0.0.1", port), Limits(connect_timeout_s=0.05))
        error = await failure(call(pool))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        await pool.aclose()


async def test_a_caller_does_not_wait_longer_for_a_connection_than_its_own_timeout() -> None:
    with unanswering() as port:
        pool = Pool(Origin("http", "127.0.0.1", port), Limits(connect_timeout_s=DEADLINE_S))
        error = await failure(call(pool, timeout_s=0.05))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert stats_of(pool) == Stats(connecting=1, live=0, idle=0, waiting=0)  # it may still succeed
        await pool.aclose()
        assert stats_of(pool) == Stats(0, 0, 0, 0)
