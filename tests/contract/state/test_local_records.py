"""`local_record`, `unfinished` and `on_changed`: what a process knows of its own calls without asking Redis."""

from __future__ import annotations

import time

import pytest
from msgspec import structs

from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, DONE, State, StateLimits
from tests.contract.state.conftest import HASTY, OpenReplica
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import began, call, state_of, until, until_gone

pytestmark = pytest.mark.anyio

LONG_S = 10.0


async def test_the_owner_holds_the_current_state_of_its_call(state: State) -> None:
    key = (await began(state, call(note=b"note"), to=DISPATCHING)).key
    held = state.local_record(key)
    assert held is not None
    assert (held.key, held.state, held.note, held.replica) == (key, DISPATCHING, b"note", state.replica)
    assert await state.advance(key, [DISPATCHING], ACCEPTED, note=b"other")
    held = state.local_record(key)
    assert held is not None
    assert (held.state, held.note) == (ACCEPTED, b"other")


async def test_unfinished_calls_are_those_that_are_not_over(state: State) -> None:
    running, waiting, ended, forgotten = [(await began(state, to=ACCEPTED)).key for _ in range(4)]
    assert await state.advance(waiting, [ACCEPTED], AWAITING_USER, note=b"challenge")
    await state.settle(ended, b"outcome")
    await state.forget(forgotten)
    assert {each.key: each.state for each in state.unfinished()} == {running: ACCEPTED, waiting: AWAITING_USER}


async def test_a_call_that_never_began_or_was_forgotten_is_not_held(state: State) -> None:
    key = (await began(state)).key
    await state.forget(key)
    assert state.local_record(key) is None
    assert state.local_record("never") is None


async def test_a_call_whose_time_is_over_is_not_held(open_replica: OpenReplica) -> None:
    state = await open_replica(StateLimits(pending_ttl_s=0.3))
    key = (await began(state, to=ACCEPTED)).key
    await until_gone(state, key)
    await until(lambda: state.local_record(key) is None, "the clock of Redis, as a busy machine knows it, says so too")


async def test_a_call_that_another_replica_has_changed_is_not_held(open_replica: OpenReplica) -> None:
    """A waiter that comes afterwards has missed nothing."""
    one, two = await open_replica(), await open_replica()
    ended, asking = [(await began(one, to=ACCEPTED)).key for _ in range(2)]
    assert one.local_record(ended) is not None
    assert two.local_record(ended) is None
    assert await two.settle(ended, b"outcome")
    assert await two.advance(asking, [ACCEPTED], AWAITING_USER, note=b"challenge")
    await until(lambda: one.local_record(ended) is one.local_record(asking) is None, "the holder has heard of it")
    start = time.monotonic()
    records = [await one.wait(key, LONG_S) for key in (ended, asking)]
    assert time.monotonic() - start < HASTY.poll_s
    assert [record and record.state for record in records] == [DONE, AWAITING_USER]
    assert await two.settle(asking, b"after all")
    assert await state_of(one, asking) is DONE


@pytest.mark.parametrize("deaf", [False, True])
async def test_the_owner_of_a_call_learns_what_another_replica_does_to_it(
    open_replica: OpenReplica, redis_server: RedisServer, deaf: bool
) -> None:
    """Later where the message was lost, as while a connection is made anew."""
    one, two = await open_replica(timing=structs.replace(HASTY, poll_s=0.2)), await open_replica()
    heard: list[str] = []
    one.on_changed(heard.append)
    key = (await began(one, to=DISPATCHING)).key
    if deaf:
        with redis_server.connect() as redis:
            redis.client_kill_filter(_type="pubsub")
    assert await two.settle(key, b"outcome")
    await until(lambda: key in heard, "the holder has heard of it")
    assert await state_of(one, key) is DONE


async def test_calls_that_are_not_over_are_counted_by_backend(state: State) -> None:
    builds = [await began(state, call(backend="builds"), ACCEPTED) for _ in range(3)]
    mail = await began(state, call(backend="mail"))
    assert state.pending() == {"builds": 3, "mail": 1}
    assert await state.settle(builds[0].key, b"the end")
    await state.forget(mail.key)
    assert state.pending() == {"builds": 2}
