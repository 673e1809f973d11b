"""Several replicas on one Redis: who may dispatch, who is woken, and what becomes of the calls of the dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from msgspec import structs

from gateway.state.port import DONE, UNKNOWN, CallState, Created, Exists, Record
from gateway.state.replica_sync import Timing
from tests.contract.state.conftest import HASTY, OpenReplica
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import (
    ACCEPTED,
    AWAITING_USER,
    DISPATCHING,
    KEYS,
    REGISTERED,
    began,
    call,
    joined,
    judges,
    orphans,
    outcome_of,
    state_of,
)

pytestmark = pytest.mark.anyio

LONG_S = 10.0


async def test_a_hundred_begin_on_two_replicas_and_one_creates(open_replica: OpenReplica) -> None:
    one, two = await open_replica(), await open_replica()
    new = call()
    begun = await asyncio.gather(*((one, two)[number % 2].begin(new) for number in range(100)))
    assert [type(each) for each in begun].count(Created) == 1
    assert [type(each) for each in begun].count(Exists) == 99


async def test_replicas_are_known_until_they_leave(open_replica: OpenReplica) -> None:
    one, two = await open_replica(), await open_replica()
    for replica in (one, two):
        ages = await replica.replicas()
        assert ages.keys() == {one.replica, two.replica}
        assert all(0 <= age_s < LONG_S for age_s in ages.values())
    await two.aclose()
    assert (await one.replicas()).keys() == {one.replica}


@pytest.mark.parametrize("owner_waits", [True, False])
async def test_a_replica_that_waits_is_woken_when_another_ends_the_call(
    open_replica: OpenReplica, owner_waits: bool
) -> None:
    owner, other = await open_replica(), await open_replica()
    waits, ends = (owner, other) if owner_waits else (other, owner)
    key = (await began(owner, to=ACCEPTED)).key
    waiting = asyncio.create_task(waits.wait(key, LONG_S))
    await asyncio.sleep(0)
    await waits.get(key)  # by now Redis knows that it waits
    start = time.monotonic()
    await ends.settle(key, b"outcome")
    assert outcome_of(await waiting) == b"outcome"
    assert time.monotonic() - start < HASTY.poll_s


async def test_the_poll_makes_up_for_a_lost_wake_up(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    polling = Timing(lease_s=0.5, beat_s=0.1, settle_in_s=0.3, poll_s=0.05)
    one, two = await open_replica(), await open_replica(timing=polling)
    key = (await began(one, to=ACCEPTED)).key
    waiting = asyncio.create_task(two.wait(key, LONG_S))
    await asyncio.sleep(0)
    await two.get(key)
    with redis_server.connect() as redis:
        redis.hdel(f"toolgate:{{{key}}}:call", "watchers")  # as if the message had never come
    await one.settle(key, b"outcome")
    assert await waiting is not None


async def test_claims_are_bounded_and_shared(open_replica: OpenReplica) -> None:
    dead, one, two = await open_replica(), await open_replica(), await open_replica()
    keys = {(await began(dead, to=ACCEPTED)).key for _ in range(30)}
    await judges(one, await open_replica())
    await judges(two, await open_replica())
    await dead.aclose()
    claimed: list[str] = []

    def add(records: Sequence[Record]) -> None:
        assert len(records) <= 4
        claimed.extend(record.key for record in records)

    while len(claimed) < len(keys):
        for records in await asyncio.gather(one.claim_orphans(4), two.claim_orphans(4)):
            add(records)
    assert sorted(claimed) == sorted(keys)


async def test_a_late_outcome_replaces_unknown(open_replica: OpenReplica) -> None:
    dead, successor = await open_replica(), await open_replica()
    key = (await began(dead, to=DISPATCHING)).key
    await judges(successor, await open_replica())
    await dead.aclose()
    await orphans(successor, 1)
    assert await state_of(successor, key) is UNKNOWN
    assert await successor.settle(key, b"it did run")
    assert not await successor.settle(key, b"again")
    assert await state_of(successor, key) is DONE


async def test_replicas_with_changed_keys_understand_each_other(open_replica: OpenReplica) -> None:
    newer = ["a key that came later, also of enough characters", *KEYS]
    before, during = await open_replica(keys=[KEYS[0], newer[0]]), await open_replica(keys=newer)
    theirs, ours = (await began(before, call(note=b"note"))).key, (await began(during, call(note=b"note"))).key
    await before.settle(theirs, b"from before")
    await during.settle(ours, b"from during")
    records = [await during.get(theirs), await before.get(ours)]
    assert [(record.note, record.outcome) for record in records if record] == [
        (b"note", b"from before"),
        (b"note", b"from during"),
    ]


@pytest.mark.parametrize("begins_as", [REGISTERED, DISPATCHING])
async def test_a_call_whose_first_begin_was_lost_on_the_way_back_is_begun_again(
    open_replica: OpenReplica, begins_as: CallState
) -> None:
    state = await open_replica()
    new = call(state=begins_as, note=b"first")
    beginning = asyncio.create_task(state.begin(new))
    await asyncio.sleep(0)
    beginning.cancel()  # the caller hung up; Redis registers the call all the same
    with pytest.raises(asyncio.CancelledError):
        await beginning
    begun = await state.begin(structs.replace(new, note=b"second"))
    assert isinstance(begun, Created)
    assert begun.record.note == b"second"
    assert (await joined(state, structs.replace(new, note=b"third"))).note == b"second"


async def test_heartbeats_must_fit_into_a_lease() -> None:
    for wrong in ({"beat_s": 6.0}, {"beat_s": 4.0}, {"beat_s": 0.0}):
        with pytest.raises(ValueError, match="fit into a lease"):
            Timing(**wrong)


async def test_everything_in_redis_goes_away_by_itself(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    """All but four names that do not grow with calls: since when there are data, by which server, and who is alive."""
    state = await open_replica()
    for to in (REGISTERED, ACCEPTED, AWAITING_USER):
        await began(state, call(question=f"question-{to}"), to)
    await state.forget((await began(state)).key, b"refused")
    with redis_server.connect() as redis:
        lasting = {name for name in redis.scan_iter() if redis.ttl(name) < 0}
        assert lasting == {b"toolgate:birth", b"toolgate:epoch", b"toolgate:server", b"toolgate:replicas"}


async def test_a_settled_call_is_on_no_list(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    state = await open_replica()
    kept, forgotten = await began(state, to=ACCEPTED), await began(state)
    await state.settle(kept.key, b"outcome")
    await state.forget(forgotten.key)
    with redis_server.connect() as redis:
        assert set(redis.scan_iter()) == {
            b"toolgate:birth",
            b"toolgate:epoch",
            b"toolgate:server",
            b"toolgate:replicas",
            b"toolgate:records:p",
            b"toolgate:sizes:p",
            f"toolgate:{{{kept.key}}}:call".encode(),
            f"toolgate:{{{kept.key}}}:seen".encode(),
        }
