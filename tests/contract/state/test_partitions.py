"""A Redis Cluster: each caller's calls are in one of 64 partitions, and each of these may be away alone."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from gateway.core.errors import StateUnavailable
from gateway.redisclient.cluster_map import placements
from gateway.redisclient.store import MARKS
from gateway.state.port import ACCEPTED, DONE, Exists
from gateway.state.redis import NO_MEMORY, RedisState
from tests.contract.state.conftest import OpenReplica
from tests.support.redis_cluster import RedisCluster, slots_of
from tests.support.stored_calls import began, begins, call, found, is_in, orphans, until

pytestmark = pytest.mark.anyio

LONG_S = 30.0
GIB = 1 << 30


async def test_all_that_is_kept_of_a_call_is_in_the_partition_that_its_key_names(
    open_replica: OpenReplica, redis_cluster: RedisCluster
) -> None:
    state = await open_replica()
    calls = [call(key=f"{mark}-call", question=f"{mark}-question") for mark in MARKS]
    await asyncio.gather(*(began(state, new, ACCEPTED) for new in calls))
    with redis_cluster.connect() as redis:
        names = [name.decode() for name in redis.scan_iter()]
    for mark, part in zip(MARKS, placements(), strict=True):
        here = [name.removeprefix(part.prefix) for name in names if name.startswith(part.prefix)]
        assert {f"{{{mark}-call}}:call", "pending:p", "replicas"} <= set(here)
        assert not [name for name in here if "-call" in name and f"{mark}-call" not in name]


async def test_the_server_with_the_least_room_counts(open_replica: OpenReplica, redis_cluster: RedisCluster) -> None:
    node = redis_cluster.owner(placements()[-1].slot)
    state = await open_replica()

    async def trouble_with(maxmemory: int) -> str | None:
        node.ask("CONFIG", "SET", "maxmemory", maxmemory)
        await until(
            lambda: state.capacity is not None and state.capacity.max_bytes == (maxmemory or None), "it is noticed"
        )
        return state.trouble

    assert [await trouble_with(maxmemory) for maxmemory in (GIB, 1, 0)] == [None, NO_MEMORY, None]


@pytest.mark.usefixtures("redis_cluster")
async def test_calls_of_the_dead_are_claimed_from_all_partitions_within_the_limit(
    open_replica: OpenReplica,
) -> None:
    survivor, dead = await open_replica(), await open_replica()
    await asyncio.gather(*(began(dead, call(key=f"{mark}{call().key}"), ACCEPTED) for mark in 2 * MARKS))
    await dead.aclose()
    await until(lambda: all(each.sync.may_claim for each in survivor._all), "all partitions have noticed")
    first = await survivor.claim_orphans(100)
    assert len(first) <= 100
    assert len(await orphans(survivor, 128 - len(first))) == 128 - len(first)
    assert survivor.pending() == Counter(b=128)


async def test_while_a_server_is_away_callers_on_the_others_go_on_and_all_do_once_its_replica_has_taken_over(
    open_replica: OpenReplica, redis_cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = await open_replica(), await open_replica()
    news: list[str] = []
    two.on_tools_changed(news.append)
    away, there = f"A{call().key}", f"_{call().key}"  # in the first and in the last partition
    for key in (away, there):
        await began(one, call(key=key), ACCEPTED)
    waiting = [asyncio.create_task(two.wait(key, LONG_S)) for key in (away, there)]
    await asyncio.gather(*(two.get(key) for key in (away, there)))
    count = sum(part.slot in slots_of(0) for part in placements())
    redis_cluster.nodes[0].kill()
    await until(lambda: one.partitions_away == two.partitions_away == count, "both have noticed")
    assert one.trouble is not None
    assert one.trouble.startswith(f"{count} of 64 partitions cannot be reached: ")
    assert (one.is_up, one.is_up_for(away), one.is_up_for(there)) == (False, False, True)
    with pytest.raises(StateUnavailable):
        await one.begin(call(key=f"A{call().key}"))
    assert await begins(two, call(key=f"_{call().key}"))
    assert await one.settle(there, b"outcome")
    record = await waiting[1]
    assert record is not None
    assert record.state is DONE
    one.announce_tools_changed("builds")
    await until(lambda: news == ["builds"], "what is for all goes through another server")
    redis_cluster.promote(redis_cluster.nodes[3])
    await until(lambda: one.is_up and two.is_up, "the replica is found")
    assert await is_in(two, away, ACCEPTED)
    assert not waiting[0].done()
    assert await one.settle(away, b"outcome")
    assert (await waiting[0]) == await found(two, away)
    lines = [vars(line)["partitions"] for line in caplog.records if line.message == "the state cannot be reached"]
    assert 2 * count == sum(int(line.removesuffix(" of 64")) for line in lines)
    assert len(lines) < count, "what happens at the same time is in one line"


@pytest.mark.usefixtures("redis_cluster")
async def test_a_state_that_is_closed_as_soon_as_it_is_reached_begins_nothing_any_more(
    open_replica: OpenReplica, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "gateway.state")
    state = await open_replica()
    assert isinstance(state, RedisState)
    begun: list[str] = []

    async def risks() -> list[str]:
        begun.append("risks")
        return []

    monkeypatch.setattr(state._store, "risks", risks)
    await state.aclose()
    await until(lambda: "the state is reached" in caplog.messages, "it is said although the state is closed")
    await asyncio.sleep(0)
    assert begun == []


async def test_while_a_slot_moves_no_call_there_is_begun_twice_and_whoever_waits_goes_on_waiting(
    open_replica: OpenReplica, redis_cluster: RedisCluster
) -> None:
    one, two = await open_replica(), await open_replica()
    new, elsewhere = call(key=f"A{call().key}"), call(key=f"_{call().key}")
    await began(one, new, ACCEPTED)
    waiting = asyncio.create_task(two.wait(new.key, LONG_S))
    await two.get(new.key)
    slot, to = placements()[0].slot, redis_cluster.nodes[1]
    redis_cluster.begin_move(slot, to)
    assert redis_cluster.move_keys(slot, to, at_most=3) == 3
    with pytest.raises(StateUnavailable):
        await two.begin(new)
    assert await begins(two, elsewhere)
    redis_cluster.move_keys(slot, to)
    redis_cluster.end_move(slot, to)
    await until(lambda: one.is_up and two.is_up, "the new server of the slot is found")
    assert isinstance(await two.begin(new), Exists)
    assert not waiting.done()
    assert await one.settle(new.key, b"outcome")
    assert (await waiting) == await found(two, new.key)
