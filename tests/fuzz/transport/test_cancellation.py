"""Cancellation at every await, of callers and of connections in the making: the pool serves on, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from random import Random
from typing import Any

import pytest

from gateway.net.client import Limits, Origin, Pool, Reply
from gateway.net.client.dial import Dialler
from tests.fuzz.transport.loops import DEADLINE_S, Leftovers, run, set_resolver, turns, until
from tests.fuzz.transport.plans import LONG_S, Plan
from tests.fuzz.transport.rounds import NAME, Contexts, assert_balanced, exchange
from tests.fuzz.transport.server import Server, listening
from tests.unit.net.client.scripted import Stats, stats_of

HOST = "127.0.0.1"
MOST_POINTS = 400  # more awaits than any exchange here has
BEFORE, AFTER = 3, 3  # calls around the one that is cancelled
MORE_THAN_ROOM = bytes(5_000_000)  # what a socket does not take at once; Linux lets its buffer grow to 4 MiB


class Stepped:
    """Awaits a coroutine, counts where it is suspended, and cancels the task at one of these points.

    `at_once`: the cancellation is there when it begins to wait; else it comes a turn of the loop later.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], cancel_at: int, *, at_once: bool) -> None:
        self.points = 0
        self._coroutine = coroutine
        self._cancel_at = cancel_at
        self._at_once = at_once

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            try:
                waited = resume(value)
            except StopIteration as stop:
                return stop.value
            self._count()
            try:
                resume, value = self._coroutine.send, (yield waited)
            except BaseException as exc:
                resume, value = self._coroutine.throw, exc

    def _count(self) -> None:
        self.points += 1
        if self.points == self._cancel_at:
            task = asyncio.current_task()
            assert task is not None
            if self._at_once:
                task.cancel()
            else:
                asyncio.get_running_loop().call_soon(task.cancel)


Cancel = Callable[[Coroutine[Any, Any, Any]], Awaitable[int]]


def at_point(number: int, *, at_once: bool) -> Cancel:
    """Cancels where the coroutine is suspended for that time. Returns how often it was."""

    async def cancel(coroutine: Coroutine[Any, Any, Any]) -> int:
        stepped = Stepped(coroutine, number, at_once=at_once)

        async def step() -> Any:
            return await stepped

        task = asyncio.create_task(step())
        await asyncio.wait([task], timeout=DEADLINE_S)
        assert task.done()
        assert task.cancelled() or task.exception() is None  # the reply may come in the same turn
        return stepped.points

    return cancel


async def numeric(name: str) -> list[str]:
    assert name == NAME
    await turns(2)
    return ["127.0.0.3", HOST]  # the first refuses


def plan(key: int, **more: Any) -> Plan:
    """A call whose reply comes in five segments, so that a reader waits several times."""
    body = b"%d" % key + b"." * 50
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return Plan(key=key, raw=raw, cuts=(0.2, 0.5, 0.6, 0.8), pause=2, **more)


@contextlib.asynccontextmanager
async def served(tls: Contexts | None) -> AsyncIterator[Server]:
    """A server for a few plans; in the end it has no complaint, and nothing is left."""
    leftovers = Leftovers()
    set_resolver(numeric)
    server = Server(NAME, tls.server if tls else None, strict=False)
    async with listening(server, (HOST,)):
        yield server
    assert server.faults == []
    assert max(server.seen.values(), default=0) <= 1
    await leftovers.assert_none()


def pool_to(server: Server, tls: Contexts | None, connections: int) -> Pool:
    limits = Limits(connections=connections, connect_timeout_s=LONG_S)
    return Pool(Origin("https" if tls else "http", NAME, server.port), limits, tls.trusting if tls else None)


MOMENTS = pytest.mark.parametrize(
    ("tls", "at_once"),
    [
        pytest.param(False, False, id="plain-a turn later"),
        pytest.param(False, True, id="plain-at once"),
        pytest.param(True, False, id="tls-a turn later"),
        pytest.param(True, True, id="tls-at once", marks=pytest.mark.soak),
    ],
)
VICTIMS = {
    "whole": plan(BEFORE, body=b"x"),
    "streamed": plan(BEFORE, body=b"x", streamed=True),
    "held up": plan(BEFORE, body=MORE_THAN_ROOM),
}


async def scene(victim: Plan, tls: Contexts | None, connections: int, warm: bool, cancel: Cancel) -> int:
    """Makes calls, of which one is cancelled; all others must be served. Returns what `cancel` does."""
    async with served(tls) as server:
        server.plans = {key: plan(key) for key in range(BEFORE + 1 + AFTER)} | {victim.key: victim}
        pool = pool_to(server, tls, connections)
        before, after = range(BEFORE), range(BEFORE + 1, BEFORE + 1 + AFTER)
        if warm:
            await asyncio.gather(*(answered(pool, server, key) for key in before))
        beside = [] if warm else [asyncio.create_task(answered(pool, server, key)) for key in before]
        points = await cancel(exchange(pool, victim, Random(0)))
        assert_balanced(pool)
        await asyncio.gather(*beside, *(answered(pool, server, key) for key in after))
        await until(lambda: stats_of(pool).connecting == 0, "connected")
        assert_balanced(pool)
        assert stats_of(pool).waiting == 0
        assert stats_of(pool).live == stats_of(pool).idle
        await pool.aclose()
        assert stats_of(pool) == Stats(0, 0, 0, 0)
        return points


async def answered(pool: Pool, server: Server, key: int) -> None:
    """A call that must get its own reply."""
    reply: Reply = await exchange(pool, server.plans[key], Random(0))
    assert reply.body == b"%d" % key + b"." * 50


async def leave_everywhere(name: str, tls: Contexts | None, *, warm: bool, at_once: bool) -> int:
    """Leaves at each await of that call in turn, on a connection that is there (`warm`) or has yet to be opened."""
    number = 1
    while number < MOST_POINTS:
        cancel = at_point(number, at_once=at_once)
        if await scene(VICTIMS[name], tls, 1 if warm else 2, warm, cancel) < number:
            break
        number += 1
    return number - 1


@MOMENTS
@pytest.mark.parametrize("name", ["whole", "streamed", pytest.param("held up", marks=pytest.mark.soak)])
def test_a_caller_may_leave_at_every_await(contexts: Contexts, name: str, tls: bool, at_once: bool) -> None:
    both = contexts if tls else None
    # A new connection and a reply are two waits at least; a connection that is there leaves the reply.
    assert run(leave_everywhere(name, both, warm=False, at_once=at_once)) >= 2
    assert run(leave_everywhere(name, both, warm=True, at_once=at_once)) >= 1


@MOMENTS
def test_a_dial_cancelled_at_any_await_leaves_no_socket(contexts: Contexts, tls: bool, at_once: bool) -> None:
    context: ssl.SSLContext | None = contexts.trusting if tls else None

    async def dial_and_drop(dialler: Dialler) -> None:
        connection = await dialler.dial(Pool(Origin("http", NAME, 1))._make_connection)
        connection.drop()

    async def every_point() -> int:
        number = 1
        while number < MOST_POINTS:
            async with served(contexts if tls else None) as server:
                dialler = Dialler(Origin("https" if tls else "http", NAME, server.port), context, LONG_S)
                if await at_point(number, at_once=at_once)(dial_and_drop(dialler)) < number:
                    break
            number += 1
        return number - 1

    assert run(every_point()) >= 3  # the name, the socket, the transport


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_pool_may_close_at_any_turn_of_the_loop(contexts: Contexts, tls: bool) -> None:
    async def closed_after(number: int) -> bool:
        async with served(contexts if tls else None) as server:
            server.plans = {key: plan(key, streamed=key % 2 == 0) for key in range(4)}
            pool = pool_to(server, contexts if tls else None, 2)
            calls = [asyncio.create_task(exchange(pool, one, Random(0))) for one in server.plans.values()]
            await turns(number)
            were_over = all(call.done() for call in calls)
            await pool.aclose()
            assert stats_of(pool) == Stats(0, 0, 0, 0)
            await asyncio.wait(calls, timeout=DEADLINE_S)
            for key, call in enumerate(calls):
                error = call.exception()
                assert error is None or getattr(error, "sent", None) or not server.seen[key]
            return not were_over

    async def every_turn() -> int:
        number = 0
        while await closed_after(number):
            number += 1
        return number

    assert run(every_turn()) > 5
