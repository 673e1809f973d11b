"""What is remembered for how long, and how much of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.state.entries import SEEN_BYTES
from gateway.state.memory import MemoryState
from gateway.state.port import (
    ACCEPTED,
    DISPATCHING,
    RECORD_BYTES,
    SMALL_OUTCOME_BYTES,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    OutcomeTooLarge,
    StateLimits,
)
from tests.contract.state.conftest import Clock, OpenState
from tests.support.stored_calls import REGISTERED, began, begins, call, outcome_of, refusal, state_of, until, until_gone

pytestmark = pytest.mark.anyio

SHORT_S = 0.6  # of real time in Redis, where several operations come before it is over
LARGE = 50_000  # bytes of an outcome; records beside it take little
SEALED = 32  # bytes that sealing adds


async def test_a_call_whose_result_has_expired_does_not_run_again(open_state: OpenState) -> None:
    state = await open_state(StateLimits(result_ttl_s=SHORT_S))
    new = call()
    await began(state, new)
    await state.settle(new.key, b"outcome")
    await until_gone(state, new.key)
    assert await state.begin(new) == Expired()
    assert await state.begin(call(older=((new.key, "f"),))) == Expired()


async def test_a_pending_call_that_has_expired_does_not_run_again(open_state: OpenState) -> None:
    state = await open_state(StateLimits(pending_ttl_s=SHORT_S))
    new = call()
    await began(state, new, ACCEPTED)
    await until_gone(state, new.key)
    assert await state.begin(new) == Expired()
    assert not await state.settle(new.key, b"too late")


async def test_the_principal_of_an_expired_call_is_known(open_state: OpenState) -> None:
    state = await open_state(StateLimits(result_ttl_s=SHORT_S, seen_ttl_s=1000 * SHORT_S))
    new = call(principal="ada")
    await began(state, new)
    assert not await state.has_expired(new.key, ["ada"])
    await state.settle(new.key, b"outcome")
    await until_gone(state, new.key)
    assert await state.has_expired(new.key, ["another name of hers", "ada"])
    assert not await state.has_expired(new.key, ["bob", ""])
    forgotten = await began(state, call(principal="ada"))
    await state.forget(forgotten.key)
    for never in (forgotten.key, call().key):
        assert not await state.has_expired(never, ["ada"])


async def test_a_key_is_free_again_in_the_end(open_state: OpenState) -> None:
    state = await open_state(StateLimits(result_ttl_s=SHORT_S, seen_ttl_s=SHORT_S))
    new = call()
    await began(state, new)
    await state.settle(new.key, b"outcome")
    await until(lambda: begins(state, new), "the key is forgotten")


async def test_a_result_outlives_the_time_a_call_may_be_pending(open_state: OpenState) -> None:
    state = await open_state(StateLimits(pending_ttl_s=SHORT_S))
    new, other = call(), call()
    await began(state, new)
    await state.settle(new.key, b"outcome")
    await began(state, other)
    await until_gone(state, other.key)
    assert isinstance(await state.begin(new), Exists)


async def test_a_caller_has_so_many_pending_calls_and_no_more(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_pending=3))
    keys = [(await began(state)).key for _ in range(3)]
    refused = await refusal(state)
    assert (refused.retry_after_s, refused.quota) == (1.0, "pending")
    assert isinstance(await state.begin(call(key=keys[0])), Exists)
    assert await begins(state, call(principal="another"))
    await state.settle(keys[0], b"")
    assert await begins(state)
    assert isinstance(await state.begin(call()), Full)
    await state.forget(keys[1])
    assert await begins(state)


async def test_who_finds_a_quota_nearly_or_entirely_used_is_counted(open_state: OpenState) -> None:
    """Not specified: nine tenths of ten are used by nine, so that the tenth call finds them scarce."""
    state = await open_state(StateLimits(max_pending=10, max_records=5))
    found: list[tuple[str, bool]] = []
    state.on_quota(lambda quota, is_full: found.append((quota, is_full)))
    keys = [(await began(state)).key for _ in range(9)]
    assert not found
    await began(state)
    assert found == [("pending", False)]
    assert (await refusal(state)).quota == "pending"
    assert found[1:] == [("pending", True)]
    for key in keys[:5]:
        await state.settle(key, b"")
    assert (await refusal(state)).quota == "records"
    assert found[2:] == [("records", True)]
    await began(state, call(principal="another"))
    assert len(found) == 3


async def test_finished_calls_count_until_they_expire(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_records=2, result_ttl_s=100.0))
    for _ in range(2):
        await state.settle((await began(state)).key, b"")
    refused = await refusal(state)
    assert refused.quota == "records"
    assert 95.0 < refused.retry_after_s <= 100.0
    assert await begins(state, call(principal="another"))


async def test_calls_that_are_over_and_calls_that_are_not_have_a_quota_each(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_pending=3, max_records=3))
    over, running = [[(await began(state)).key for _ in range(number)] for number in (2, 1)]
    for key in over:
        await state.settle(key, b"")
    running += [(await began(state)).key for _ in range(2)]
    assert (await refusal(state)).quota == "pending"
    await state.settle(running[0], b"")
    assert (await refusal(state)).quota == "records"


async def test_a_caller_has_so_many_bytes_and_no_more(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_bytes_per_caller=5 * LARGE))
    keys = [(await began(state)).key for _ in range(6)]
    for key in keys[:4]:
        assert await state.settle(key, bytes(LARGE))
    with pytest.raises(OutcomeTooLarge):
        await state.settle(keys[4], bytes(LARGE))
    assert await state_of(state, keys[4]) is REGISTERED
    assert await state.settle(keys[4], bytes(SMALL_OUTCOME_BYTES))  # there is always room for how a call ended
    other = await began(state, call(principal="another"))
    assert await state.settle(other.key, bytes(LARGE))
    state.reduce(keys[0], b"short")
    assert await state.settle(keys[5], bytes(LARGE))


async def test_a_caller_begins_no_calls_beyond_its_bytes(open_state: OpenState) -> None:
    note = bytes(1000)
    limits = StateLimits(max_bytes_per_caller=3 * (RECORD_BYTES + len(note) + SEALED), pending_ttl_s=SHORT_S)
    state = await open_state(limits)
    keys = [(await began(state, call(note=note))).key for _ in range(3)]
    assert (await refusal(state, note=note)).quota == "bytes"
    assert await begins(state, call(principal="another", note=note))
    await state.forget(keys[0])
    assert await begins(state, call(note=note))
    assert isinstance(await state.begin(call(note=note)), Full)
    await until(lambda: begins(state, call(note=note)), "calls expire")


async def test_a_quota_is_free_again_when_calls_expire(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_pending=2, max_records=3, pending_ttl_s=SHORT_S, result_ttl_s=2 * SHORT_S))
    for _ in range(3):
        await state.settle((await began(state)).key, b"")
    for _ in range(2):
        assert isinstance(await state.begin(call()), Full)
    await until(lambda: begins(state), "the quota is free")
    await until(lambda: begins(state), "the quota is free for two")


async def test_a_quota_holds_however_many_begin_at_once(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_pending=10))
    begun = await asyncio.gather(*(state.begin(call()) for _ in range(50)))
    assert [type(one) for one in begun].count(Created) == 10
    assert [type(one) for one in begun].count(Full) == 40


@pytest.mark.parametrize("limit", [{"max_pending": 0}, {"result_ttl_s": 0.0}, {"max_bytes": -1}])
def test_limits_are_positive(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        StateLimits(**limit)


async def test_memory_that_is_full_refuses_new_calls_and_evicts_none() -> None:
    state = MemoryState(StateLimits(max_bytes=20 * RECORD_BYTES), Clock())
    keys = []
    for number in range(100):
        begun = await state.begin(call(principal=f"p{number}"))
        if isinstance(begun, Created):
            keys.append(begun.record.key)
    assert len(keys) == 20
    refused = await refusal(state)
    assert refused.quota == "room"
    assert refused.retry_after_s > 1.0
    assert all([await state.get(key) for key in keys])
    assert state.trouble is not None
    await state.forget(keys[0])
    assert state.trouble is None


async def test_a_caller_takes_no_more_of_the_memory_than_is_left_for_others() -> None:
    state = MemoryState(StateLimits(max_bytes=1200 * RECORD_BYTES, max_bytes_per_caller=1200 * RECORD_BYTES), Clock())
    had = []
    for number in range(5):
        begun = [await state.begin(call(principal=f"p{number}")) for _ in range(1000)]
        had.append([type(one) for one in begun].count(Created))
        refused = begun[-1]
        assert isinstance(refused, Full)
        assert refused.quota == "room"
    assert had == [600, 300, 150, 75, 38]
    assert state.trouble is None


async def test_a_result_that_does_not_fit_is_refused_and_how_the_call_ended_is_kept() -> None:
    state = MemoryState(StateLimits(max_bytes=10 * RECORD_BYTES), Clock())
    new = call()
    await began(state, new, DISPATCHING)
    with pytest.raises(OutcomeTooLarge):
        await state.settle(new.key, bytes(RECORD_BYTES * 9))
    assert await state.settle(new.key, bytes(SMALL_OUTCOME_BYTES))
    assert isinstance(await state.begin(new), Exists)


async def test_an_outcome_without_room_reaches_its_waiters_and_the_call_never_runs_again() -> None:
    state = MemoryState(StateLimits(max_bytes=2 * RECORD_BYTES), Clock())
    new = call()
    await began(state, new, DISPATCHING)
    await began(state, call(principal="another"))
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(state.wait(new.key, 5.0))
        await asyncio.sleep(0)
        assert await state.settle(new.key, bytes(SMALL_OUTCOME_BYTES))
    record = waiting.result()
    assert outcome_of(record) == bytes(SMALL_OUTCOME_BYTES)
    assert await state.begin(new) == Expired()


async def test_memory_gives_back_every_byte_it_counted() -> None:
    clock = Clock()
    state = MemoryState(StateLimits(), clock)
    for number in range(200):
        key = (await began(state, call(principal=f"p{number % 7}", note=b"note", question=f"q{number}"))).key
        match number % 4:
            case 0:
                await state.settle(key, b"outcome")
            case 1:
                await state.forget(key)
            case 2:
                await state.advance(key, [REGISTERED], DISPATCHING, note=b"a longer note")
            case _:
                pass
    assert state.capacity.used_bytes == 150 * RECORD_BYTES + 50 * len(b"note") * 2 + 50 * len(b"outcome") + 50 * 13
    clock.now += StateLimits().pending_ttl_s
    for _ in range(5):
        await state.get("unknown")
    assert state.capacity.used_bytes == 150 * SEEN_BYTES
    clock.now += StateLimits().seen_ttl_s
    for _ in range(5):
        await state.get("unknown")
    assert state.capacity.used_bytes == 0


async def test_calls_that_expired_unnoticed_take_no_quota() -> None:
    clock = Clock()
    state = MemoryState(StateLimits(max_records=1000, max_pending=1000), clock)
    calls: list[NewCall] = [call() for _ in range(1000)]
    for new in calls:
        await state.begin(new)
    clock.now += StateLimits().pending_ttl_s + 10
    assert await state.get(calls[-1].key) is None
    assert await begins(state)
