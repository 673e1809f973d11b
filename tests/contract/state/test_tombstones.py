"""Tombstones: the outcomes of calls that were forgotten, and may begin anew, or that have ended and were reduced."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import suppress
from functools import partial

import pytest

from gateway.core.errors import StateUnavailable
from gateway.state.memory import MemoryState
from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, OutcomeTooLarge, State, StateLimits
from tests.contract.state.conftest import Clock, OpenReplica, OpenState
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import DONE, began, begins, call, found, is_in, outcome_of, state_of, until, until_gone

pytestmark = pytest.mark.anyio

LONG_S = 10.0


async def ended(state: State, key: str) -> bytes | None:
    """The outcome that a reader of a call gets."""
    record = await state.get(key)
    return None if record is None or record.state is not DONE else record.outcome


async def has_ended(state: State, key: str, outcome: bytes) -> bool:
    return await ended(state, key) == outcome


async def answered(state: State, key: str) -> None:
    """Has a call that is over answered, and waits until nothing more is kept of it."""
    state.reduce(key, b"short")
    await until(lambda: has_ended(state, key, b"short"), "nothing more is kept of it")


async def test_waiters_and_readers_get_the_outcome_of_a_forgotten_call_and_it_may_begin_anew(state: State) -> None:
    new = call(note=b"note")
    await began(state, new, DISPATCHING)
    waiting = asyncio.create_task(state.wait(new.key, LONG_S))
    await asyncio.sleep(0)
    await state.forget(new.key, b"refused")
    for record in (await waiting, await state.get(new.key), await state.wait(new.key, LONG_S)):
        assert record is not None
        assert (record.state, record.outcome, record.note, record.principal) == (DONE, b"refused", b"note", "p")
    assert state.local_record(new.key) is None
    assert await begins(state, new)
    assert await state_of(state, new.key) is not DONE
    await state.forget(new.key, b"refused again")
    assert await ended(state, new.key) == b"refused again"


async def test_a_call_that_begins_anew_drops_its_tombstone(open_state: OpenState) -> None:
    state = await open_state(StateLimits(result_ttl_s=0.05))
    new = call()
    await began(state, new)
    await state.forget(new.key, b"refused")
    await began(state, new)
    assert await state.settle(new.key, b"done")
    await until_gone(state, new.key)


async def test_the_outcome_of_a_forgotten_call_expires(open_state: OpenState) -> None:
    state = await open_state(StateLimits(tombstone_ttl_s=0.05))
    key = (await began(state)).key
    await state.forget(key, b"refused")
    await until_gone(state, key)


async def test_the_latest_outcomes_of_each_principal_are_kept(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_tombstones=2))
    keys = [(await began(state)).key for _ in range(3)]
    other = (await began(state, call(principal="q"))).key
    for key in (other, *keys):
        await state.forget(key, b"refused")
    assert [await state_of(state, key) for key in (other, *keys)] == [DONE, None, DONE, DONE]


async def test_a_tombstone_is_not_counted_as_a_record(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_records=2, max_pending=1))
    for _ in range(3):
        await state.forget((await began(state)).key, b"refused")
        key = (await began(state)).key
        await state.settle(key, b"done")
        await answered(state, key)


async def test_a_finished_call_is_not_forgotten(state: State) -> None:
    key = (await began(state)).key
    await state.settle(key, b"done")
    await state.forget(key, b"refused")
    assert (await found(state, key)).outcome == b"done"
    assert await begins(state)


async def test_an_outcome_too_large_leaves_it_as_it_was(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_result_bytes=100))
    key = (await began(state)).key
    with pytest.raises(OutcomeTooLarge):
        await state.forget(key, bytes(101))
    assert state.local_record(key) is not None


async def test_other_replicas_get_the_outcome_of_a_forgotten_call(
    open_replica: OpenReplica, redis_server: RedisServer
) -> None:
    one, two = await open_replica(), await open_replica()
    key = (await began(one, to=ACCEPTED)).key
    waiting = asyncio.create_task(two.wait(key, LONG_S))

    async def watched() -> bool:
        with redis_server.connect() as redis:
            return bool(redis.hget(f"toolgate:{{{key}}}:call", "watchers"))

    await until(watched, "the other replica waits for it")
    await one.forget(key, b"refused")
    for record in (await waiting, await two.get(key)):
        assert record is not None
        assert (record.state, record.outcome) == (DONE, b"refused")


async def test_a_call_forgotten_while_redis_is_away_wakes_local_waiters_at_once(
    open_replica: OpenReplica, redis_server: RedisServer
) -> None:
    one, two = await open_replica(), await open_replica()
    key = (await began(one, to=ACCEPTED)).key
    waiting = asyncio.create_task(one.wait(key, LONG_S))
    await asyncio.sleep(0)
    redis_server.freeze()
    try:
        await one.forget(key, b"refused")
        record = await waiting
    finally:
        redis_server.thaw()
    assert outcome_of(record) == b"refused"
    await until(lambda: is_in(two, key, DONE), "the other replica has the outcome")


async def test_a_reduced_call_stays_done_and_changes_no_more(state: State) -> None:
    new = call(note=b"note", question="q")
    await began(state, new, ACCEPTED)
    assert await state.settle(new.key, b"done")
    await answered(state, new.key)
    for record in (await state.get(new.key), await state.wait(new.key, LONG_S)):
        assert record is not None
        assert (record.state, record.outcome, record.note, record.principal) == (DONE, b"short", b"note", "p")
    assert state.local_record(new.key) is None
    assert not await state.settle(new.key, b"again")
    assert not await state.advance(new.key, [ACCEPTED], AWAITING_USER)
    await state.forget(new.key)
    assert await ended(state, new.key) == b"short"


async def test_a_call_that_is_not_over_or_not_delivered_is_not_reduced(state: State) -> None:
    running, asked = (await began(state, to=ACCEPTED)).key, call(question="asked")
    await began(state, asked, AWAITING_USER)
    state.reduce(asked.key, b"short")
    assert await state.settle(asked.key, b"consented")
    for key in (running, asked.key, "unknown"):
        state.reduce(key, b"short")
    assert await state_of(state, running) is ACCEPTED
    assert await state.settle(running, b"done")
    assert [await ended(state, key) for key in (running, asked.key, "unknown")] == [b"done", b"consented", None]
    await state.mark_delivered(asked.key)
    await answered(state, asked.key)


async def test_reduced_calls_take_next_to_no_memory() -> None:
    """However large the outcomes, and although each is kept for an hour until it is delivered."""
    state, rounds, size = MemoryState(StateLimits(max_tombstones=1), Clock()), 2000, 50_000
    tracemalloc.start()
    try:
        for number in range(rounds):
            key = (await began(state, call(key=f"k{number}"))).key
            await state.settle(key, bytes(size))
            state.reduce(key, b"short")
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert state.capacity.used_bytes == 0


async def test_an_outcome_that_came_to_another_replica_is_reduced_where_it_is_delivered(
    open_replica: OpenReplica,
) -> None:
    one, two = [await open_replica(StateLimits(max_records=1)) for _ in range(2)]
    for _ in range(3):
        key = (await began(one, to=ACCEPTED)).key
        assert await two.settle(key, b"done")
        record = await one.wait(key, LONG_S)
        assert outcome_of(record) == b"done"
        await answered(one, key)
        assert await ended(two, key) == b"short"
        assert not await two.settle(key, b"repeated")


async def test_a_late_acknowledgement_does_not_bring_a_reduced_call_back(open_replica: OpenReplica) -> None:
    """A tool server may say that it took a call after its result came to another replica and was delivered."""
    one, two = await open_replica(StateLimits(max_pending=1)), await open_replica()
    key = (await began(one, to=DISPATCHING)).key
    assert await two.settle(key, b"done")
    await answered(one, key)
    assert not await one.advance(key, [DISPATCHING], ACCEPTED)
    assert not await one.settle(key, b"not taken")
    assert (one.local_record(key), await ended(one, key)) == (None, b"short")
    await began(one)


async def test_without_redis_a_call_is_not_reduced(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    state = await open_replica()
    key = (await began(state, to=DISPATCHING)).key
    await state.settle(key, b"done")
    redis_server.kill()
    with suppress(StateUnavailable):
        await state.get(key)
    state.reduce(key, b"short")
    redis_server.start()
    await until(lambda: has_ended(state, key, b"done"), "it is as before")


async def test_a_redis_that_lost_reduced_calls_gets_them_back_and_counts_none(
    open_replica: OpenReplica, redis_server: RedisServer
) -> None:
    state = await open_replica(StateLimits(max_records=2))
    keys = []
    for _ in range(3):
        keys.append((await began(state, to=ACCEPTED)).key)
        await state.settle(keys[-1], b"done")
        await answered(state, keys[-1])
    redis_server.restart()
    for key in keys:
        await until(partial(has_ended, state, key, b"short"), "their outcomes are back")
    await until(lambda: begins(state), "they are on no quota")
