"""Redis killed, restarted empty, emptied and frozen, while calls are under way and many wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import pytest

from gateway.core.errors import StateUnavailable
from gateway.redisclient.connections import BATCH_TIMEOUT_S
from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, REGISTERED, Created, Exists
from gateway.state.redis import RedisState
from tests.live.state.conftest import Replicas
from tests.live.state.replica import replica_at
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import DEADLINE_S, began, begins, call, found, is_in, joined, outcome_of, until

pytestmark = pytest.mark.anyio

OFTEN = 50  # questions to a server that is away; who asked it each time would need as many flights
AT_ONCE_S = OFTEN / 5 * BATCH_TIMEOUT_S  # for all of them, on a busy machine
LONG_S = 60.0  # for what takes a second or two on an idle machine
T = TypeVar("T")


async def back(*states: RedisState) -> None:
    """Waits until replicas have noticed that Redis was away, and have it again."""
    noticed: set[str] = set()  # one may have it back before the other has missed it

    def all_have_noticed() -> bool:
        noticed.update(state.replica for state in states if not state.is_up)
        return len(noticed) == len(states)

    await until(all_have_noticed, "every replica has noticed")
    await until(lambda: all(state.is_up for state in states), "every replica has Redis again")


async def once_reached(method: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Asks again until the state is there to answer."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await method(*arguments)
            except StateUnavailable:
                await asyncio.sleep(0.02)


async def refuses_at_once(state: RedisState) -> None:
    """Checks that calls are refused without asking Redis."""
    start = time.monotonic()
    for _ in range(OFTEN):
        with pytest.raises(StateUnavailable):
            await state.begin(call())
    assert time.monotonic() - start < AT_ONCE_S


async def test_a_dead_redis_is_reported_at_once_and_costs_nothing(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    state = await replicas.open()
    redis_server.kill()
    await refuses_at_once(state)
    assert not state.is_up
    for ask in (lambda: state.get("k"), lambda: state.mark_delivered("k"), lambda: state.settle("k", b"")):
        await answers_nothing_at_once(ask)
    await answers_nothing_at_once(lambda: state.claim_orphans(1))
    used = time.process_time()
    await asyncio.sleep(1.0)  # of looking for it; who never paused would use up all of that
    assert time.process_time() - used < 0.5


async def answers_nothing_at_once(ask: Callable[[], Awaitable[object]]) -> None:
    start = time.monotonic()
    for _ in range(OFTEN):
        with suppress(StateUnavailable):
            assert not await ask()
    assert time.monotonic() - start < AT_ONCE_S


async def test_an_empty_redis_gets_back_the_calls_under_way(redis_server: RedisServer, replicas: Replicas) -> None:
    one, two = await replicas.open(), await replicas.open()
    calls = [call(note=b"note", question=f"question-{to}") for to in (REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER)]
    for new, to in zip(calls, (REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER), strict=True):
        await began(one, new, to)
    waiting = [asyncio.create_task(two.wait(new.key, LONG_S)) for new in calls[:3]]
    await asyncio.sleep(0)
    redis_server.restart()
    await back(one, two)
    for new, to in zip(calls, (REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER), strict=True):
        again = await joined(two, new)
        assert (again.state, again.note, again.replica) == (to, b"note", one.replica)
        asked_again = await two.begin(call(question=new.question))
        assert isinstance(asked_again, Exists) is (to is AWAITING_USER)
        assert await two.settle(new.key, new.key.encode())
    for new, record in zip(calls[:3], await asyncio.gather(*waiting), strict=True):
        assert outcome_of(record) == new.key.encode()


@pytest.mark.parametrize("waited_for", [False, True], ids=["without waiters", "with a waiter"])
async def test_an_empty_redis_gets_back_a_consent_that_another_replica_has_asked_for(
    redis_server: RedisServer, replicas: Replicas, waited_for: bool
) -> None:
    one, two = await replicas.open(), await replicas.open()
    new = await began(one, call(note=b"note"), ACCEPTED)
    waiting = [asyncio.create_task(one.wait(new.key, LONG_S))] if waited_for else []
    assert await two.advance(new.key, [ACCEPTED], AWAITING_USER, note=b"with a challenge")

    async def has_looked() -> bool:
        with redis_server.connect() as redis:
            return one.replica.encode() in (redis.hget(f"toolgate:{{{new.key}}}:call", "watchers") or b"")

    await until(has_looked, "who holds it has seen it")
    await asyncio.gather(*waiting, one.get(new.key))
    redis_server.restart()
    await back(one, two)
    again = await found(two, new.key)
    assert (again.state, again.note, again.replica) == (AWAITING_USER, b"with a challenge", one.replica)


async def test_an_outcome_is_stored_even_if_redis_has_just_lost_the_call(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    state = await replicas.open()
    key = (await began(state, to=DISPATCHING)).key
    redis_server.restart()
    assert await once_reached(state.settle, key, b"outcome")
    assert (await found(state, key)).outcome == b"outcome"


async def test_data_that_redis_has_lost_come_back_with_one_warning_from_each_replica(
    redis_server: RedisServer, replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    states = [await replicas.open() for _ in range(2)]
    losses: list[str] = []
    for state in states:
        state.on_lost(partial(losses.append, state.replica))
    key = (await began(states[0], to=ACCEPTED)).key
    with redis_server.connect() as redis:
        redis.flushall()  # behind unbroken connections
    await until(lambda: len(losses) == 2, "both have noticed")
    await until(lambda: is_in(states[0], key, ACCEPTED), "the call is back")
    redis_server.restart()
    await until(lambda: len(losses) == 4, "both have noticed again")
    await until(lambda: all(state.is_up for state in states), "both have Redis again")
    warnings = [vars(record) for record in caplog.records if record.message == "the state has lost its data"]
    assert sorted(warning["restored"] for warning in warnings) == [0, 0, 1, 1]
    assert {warning["detail"].partition(" ")[0] for warning in warnings} == {redis_server.url}
    assert {losses.count(state.replica) for state in states} == {2}


async def test_a_frozen_redis_delays_no_caller_for_long(redis_server: RedisServer, replicas: Replicas) -> None:
    state = await replicas.open()
    key = (await began(state, to=ACCEPTED)).key
    waiting = asyncio.create_task(state.wait(key, LONG_S))
    await state.get(key)
    redis_server.freeze()
    new = call()
    start = time.monotonic()
    with pytest.raises(StateUnavailable):
        await state.begin(new)
    assert time.monotonic() - start < DEADLINE_S  # and not for as long as it is frozen
    await refuses_at_once(state)
    assert not waiting.done()
    redis_server.thaw()
    await back(state)
    # The begin that failed may have been carried out after all: it is in no caller's way.
    assert await begins(state, new)
    assert isinstance(await state.begin(new), Exists)
    await state.settle(key, b"outcome")
    assert await waiting is not None


async def test_a_wait_ends_in_time_however_redis_is(redis_server: RedisServer, replicas: Replicas) -> None:
    state = await replicas.open()
    key = (await began(state, to=ACCEPTED)).key
    waiting = asyncio.create_task(state.wait(key, 0.5))
    await state.get(key)
    redis_server.kill()
    start = time.monotonic()
    record = await waiting
    assert time.monotonic() - start < DEADLINE_S
    assert record is not None
    assert record.state is ACCEPTED
    with pytest.raises(StateUnavailable):
        await state.wait(key, 0.1)


async def test_a_gateway_starts_without_redis_says_why_and_finds_it_later(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.kill()
    state = replica_at(redis_server.url)
    try:
        start = time.monotonic()
        await state.start()
        assert time.monotonic() - start < DEADLINE_S
        assert not state.is_up
        (warning,) = [record for record in caplog.records if record.message == "the state cannot be reached yet"]
        assert vars(warning)["detail"] == f"{redis_server.url}: nothing listens there; start it, or correct state.url"
        await refuses_at_once(state)
        redis_server.start()
        assert isinstance(await once_reached(state.begin, call()), Created)
        await until(lambda: state.is_up, "the state says that it is up")
    finally:
        await state.aclose()


async def test_a_primary_that_was_demoted_counts_as_away(redis_server: RedisServer, replicas: Replicas) -> None:
    state = await replicas.open()
    with redis_server.connect() as redis:
        redis.replicaof("127.0.0.1", 1)  # where no primary is
        with pytest.raises(StateUnavailable):
            await state.begin(call())
        assert not state.is_up
        redis.replicaof("NO", "ONE")
    assert isinstance(await once_reached(state.begin, call()), Created)
