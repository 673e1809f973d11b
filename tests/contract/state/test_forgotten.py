"""Forgotten calls: they may begin anew, and until then waiters and readers get how they ended."""

from __future__ import annotations

import asyncio

import pytest

from gateway.state.port import ACCEPTED, DISPATCHING, DONE, OutcomeTooLarge, State, StateLimits
from tests.contract.state.conftest import OpenReplica, OpenState
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import began, begins, call, found, is_in, outcome_of, state_of, until, until_gone

pytestmark = pytest.mark.anyio

LONG_S = 10.0


async def test_waiters_and_readers_get_the_outcome_of_a_forgotten_call_and_it_may_begin_anew(state: State) -> None:
    new = call(note=b"note")
    await began(state, new, DISPATCHING)
    waiting = asyncio.create_task(state.wait(new.key, LONG_S))
    await asyncio.sleep(0)
    await state.forget(new.key, b"refused")
    for record in (await waiting, await state.get(new.key), await state.wait(new.key, LONG_S)):
        assert record is not None
        assert (record.state, record.outcome, record.note, record.principal) == (DONE, b"refused", b"note", "p")
    assert state.held(new.key) is None
    assert await begins(state, new)
    assert await state_of(state, new.key) is not DONE


async def test_its_last_run_counts(state: State) -> None:
    new = call()
    for outcome in (b"one", b"two"):
        await began(state, new)
        await state.forget(new.key, outcome)
    assert (await found(state, new.key)).outcome == b"two"


async def test_once_begun_anew_the_earlier_outcome_is_gone(open_state: OpenState) -> None:
    state = await open_state(StateLimits(result_ttl_s=0.05))
    new = call()
    await began(state, new)
    await state.forget(new.key, b"refused")
    await began(state, new)
    assert await state.settle(new.key, b"done")
    await until_gone(state, new.key)


async def test_the_outcome_of_a_forgotten_call_expires(open_state: OpenState) -> None:
    state = await open_state(StateLimits(remnant_ttl_s=0.05))
    key = (await began(state)).key
    await state.forget(key, b"refused")
    await until_gone(state, key)


async def test_the_latest_outcomes_of_each_principal_are_kept(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_remnants=2))
    keys = [(await began(state)).key for _ in range(3)]
    other = (await began(state, call(principal="q"))).key
    for key in (other, *keys):
        await state.forget(key, b"refused")
    assert [await state_of(state, key) for key in (other, *keys)] == [DONE, None, DONE, DONE]


async def test_it_is_no_record_of_its_principals(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_records=2, max_pending=1))
    for _ in range(3):
        await state.forget((await began(state)).key, b"refused")


async def test_what_is_over_stays_as_it_is(state: State) -> None:
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
    assert state.held(key) is not None


async def test_other_replicas_get_the_outcome_of_a_forgotten_call(open_replica: OpenReplica) -> None:
    one, two = await open_replica(), await open_replica()
    key = (await began(one, to=ACCEPTED)).key
    waiting = asyncio.create_task(two.wait(key, LONG_S))

    async def watched() -> bool:
        return bool(await one._redis.hget(f"toolgate:{{{key}}}:call", "watchers"))

    await until(watched, "the other replica waits for it")
    await one.forget(key, b"refused")
    for record in (await waiting, await two.get(key)):
        assert record is not None
        assert (record.state, record.outcome) == (DONE, b"refused")


async def test_another_replicas_call_is_not_ended_so(open_replica: OpenReplica) -> None:
    one, two = await open_replica(), await open_replica()
    key = (await began(one, to=ACCEPTED)).key
    await two.forget(key, b"refused")
    assert await state_of(two, key) is ACCEPTED
    assert await one.settle(key, b"done")


async def test_while_redis_is_away_local_waiters_are_woken_and_others_when_it_is_back(
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
