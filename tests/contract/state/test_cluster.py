"""The transport to a Redis Cluster: each operation is done once, wherever its partition is, or fails in time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.core.errors import StateUnavailable
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.batching import NotDone
from gateway.redisclient.cluster import ClusterStore
from gateway.redisclient.cluster_inspection import inspect_cluster
from gateway.redisclient.cluster_map import PARTITIONS, placements
from gateway.redisclient.connections import BATCH_TIMEOUT_S
from gateway.redisclient.store import ScriptOptions, Scripts
from tests.support.processes import until
from tests.support.redis_cluster import PRIMARIES, RedisCluster

pytestmark = pytest.mark.anyio

# Counts up a name of the partition for each operation.
SCRIPT = b"""
local replies, prefix = {}, cmsgpack.unpack(ARGV[1])
for i, operation in ipairs(cmsgpack.unpack(ARGV[2])) do
  replies[i] = { 'is', redis.call('INCR', prefix .. operation[1]) }
end
return replies
"""
FIRST, MIDDLE, LAST = 0, PARTITIONS // 2, PARTITIONS - 1  # partitions of different nodes


class Counting:
    """Asks the script on all partitions; hears what is said of them."""

    def __init__(self, cluster: RedisCluster) -> None:
        self.store = ClusterStore(RedisAddress.parse(cluster.url))
        self.lost: dict[int, list[str]] = defaultdict(list)
        self.told: dict[int, list[str]] = defaultdict(list)
        self.scripts = [self._open(number, prefix) for number, prefix in enumerate(self.store.prefixes)]

    def _open(self, number: int, prefix: str) -> Scripts:
        on_failure = self.lost[number].append
        return self.store.scripts(
            number, SCRIPT, ScriptOptions(max_batch=16, settings=prefix, greeting=[("greetings",)]), on_failure
        )

    async def count(self, number: int, name: str = "n", *, keys: Sequence[bytes] = ()) -> int:
        """Counts a name up, and says how far."""
        word, value = await self.scripts[number].ask(name, keys=keys, probing=True)
        assert word == b"is"
        self.scripts[number].is_up = True
        return int(value)

    async def is_reached(self, number: int) -> bool:
        """Whether the partition answers."""
        try:
            return await self.count(number, "probes") > 0
        except StateUnavailable:
            return False

    async def is_told(self, number: int, what: str) -> None:
        """Waits until that is said of a partition."""
        await until(lambda: what in self.told[number], what)

    def on_message(self, partition: int, channel: str, message: bytes) -> None:
        self.told[partition].append(f"{channel}: {message.decode()}")

    def on_subscribed(self, partition: int) -> None:
        self.told[partition].append("subscribed")

    def on_unsubscribed(self, partition: int) -> None:
        self.told[partition].append("deaf")


@pytest.fixture
async def counting(redis_cluster: RedisCluster) -> AsyncIterator[Counting]:
    """All partitions, each of which was asked once."""
    counting = Counting(redis_cluster)
    assert await asyncio.gather(*(counting.count(number) for number in range(PARTITIONS))) == [1] * PARTITIONS
    yield counting
    for scripts in counting.scripts:
        await scripts.aclose()
    await counting.store.aclose()


async def test_one_connection_to_each_primary_serves_all_partitions(
    counting: Counting, redis_cluster: RedisCluster
) -> None:
    for node in redis_cluster.nodes[:PRIMARIES]:
        assert str(node.ask("CLIENT", "LIST")).count("evalsha") == 1
    asked = [counting.count(number, f"name {number % 3}") for number in range(PARTITIONS) for _ in range(40)]
    assert sum(await asyncio.gather(*asked)) == PARTITIONS * sum(range(1, 41))
    assert not any(counting.lost.values())


async def test_a_partition_that_has_moved_is_found_and_greeted_at_its_new_node(
    counting: Counting, redis_cluster: RedisCluster
) -> None:
    redis_cluster.move(placements()[FIRST].slot, redis_cluster.nodes[2])
    assert await counting.count(FIRST) == 2
    assert await counting.count(FIRST, "greetings") == 3
    redis_cluster.move(placements()[FIRST].slot, redis_cluster.nodes[0])
    assert await counting.count(FIRST) == 3
    assert await counting.count(FIRST, "greetings") == 5
    assert not any(counting.lost.values())


@pytest.mark.parametrize("named", [False, True], ids=["ask", "tryagain"])
async def test_while_a_partition_moves_an_operation_waits_and_is_done_once(
    counting: Counting, redis_cluster: RedisCluster, named: bool
) -> None:
    slot, target = placements()[FIRST].slot, redis_cluster.nodes[1]
    keys = [(placements()[FIRST].prefix + "n").encode()] if named else []
    redis_cluster.begin_move(slot, target)
    asked = asyncio.create_task(counting.count(FIRST, keys=keys))
    assert await counting.count(LAST) == 2
    assert not asked.done()
    redis_cluster.move_keys(slot, target)
    redis_cluster.end_move(slot, target)
    assert await asked == 2


async def test_a_move_that_is_not_finished_keeps_up_its_partition_only(
    counting: Counting, redis_cluster: RedisCluster
) -> None:
    slot, target = placements()[FIRST].slot, redis_cluster.nodes[1]
    redis_cluster.begin_move(slot, target)
    asked = [counting.scripts[FIRST].ask("n"), counting.scripts[FIRST].ask("n")]
    assert await counting.count(FIRST + 1) == 2
    for reply in asked:
        with pytest.raises(NotDone, match="moves to another node"):
            await reply
    assert ([bool(reasons) for reasons in counting.lost.values()].count(True), len(counting.lost[FIRST])) == (1, 1)
    with pytest.raises(NotDone):
        await counting.scripts[FIRST].ask("n")
    redis_cluster.move_keys(slot, target)
    redis_cluster.end_move(slot, target)
    assert await counting.count(FIRST) == 2


async def test_a_dead_primary_keeps_up_nobody_else_until_its_replica_is_promoted(
    counting: Counting, redis_cluster: RedisCluster
) -> None:
    dead = redis_cluster.owner(placements()[FIRST].slot)
    dead.kill()
    for _ in range(3):
        with pytest.raises(NotDone, match=f"127.0.0.1:{dead.port}: nothing listens there"):
            await counting.count(FIRST)
        assert await counting.count(LAST) > 1
    assert not counting.scripts[FIRST + 1].is_up  # its partition is on the same node
    assert not counting.lost[MIDDLE]
    redis_cluster.promote(redis_cluster.replica_of(dead))
    await until(lambda: counting.is_reached(FIRST), "the replica is asked")
    assert await counting.count(FIRST, "greetings") == 3


async def test_an_operation_on_a_frozen_node_fails_in_time_and_may_have_been_done(
    counting: Counting, redis_cluster: RedisCluster
) -> None:
    redis_cluster.owner(placements()[FIRST].slot).freeze()
    asked = counting.scripts[FIRST].ask("n")
    assert await counting.count(MIDDLE) == 2
    async with asyncio.timeout(10 * BATCH_TIMEOUT_S):
        with pytest.raises(StateUnavailable, match="does not answer in time") as failure:
            await asked
    assert not isinstance(failure.value, NotDone)


async def test_wake_ups_follow_their_partition(counting: Counting, redis_cluster: RedisCluster) -> None:
    listening = asyncio.create_task(counting.store.listen(["wake", "news"], counting))
    told = counting.told
    await until(lambda: len(told) == PARTITIONS, "all partitions are listened to")
    for number in (FIRST, LAST):
        told[number].clear()
    redis_cluster.move(placements()[FIRST].slot, redis_cluster.nodes[1])
    redis_cluster.fail_over(redis_cluster.nodes[2])
    for number in (FIRST, LAST):
        await counting.is_told(number, "subscribed")
        assert told[number][0] == "deaf"
        await counting.store.publish(number, "news", b"%d" % number)
        await counting.is_told(number, f"news: {number}")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_a_cluster_that_is_not_there_says_so() -> None:
    store = ClusterStore(RedisAddress.parse("redis+cluster://127.0.0.1:1,127.0.0.1:2"))
    scripts = store.scripts(0, SCRIPT, ScriptOptions(max_batch=1), lambda reason: None)
    with pytest.raises(NotDone, match=r"redis\+cluster://127.0.0.1:1,127.0.0.1:2: nothing listens there"):
        await scripts.ask("n", probing=True)
    await scripts.aclose()
    await store.aclose()


async def test_a_server_that_is_no_cluster_is_called_that(redis_server: object) -> None:
    url = redis_server.url.replace("redis://", "redis+cluster://").removesuffix("/0")  # type: ignore[attr-defined]
    store = ClusterStore(RedisAddress.parse(url))
    scripts = store.scripts(0, SCRIPT, ScriptOptions(max_batch=1), lambda reason: None)
    with pytest.raises(NotDone, match="it is no cluster"):
        await scripts.ask("n", probing=True)
    await scripts.aclose()
    await store.aclose()


async def test_what_an_operator_should_know_is_said_once_for_all_nodes(redis_cluster: RedisCluster) -> None:
    one, two, three = redis_cluster.nodes[:PRIMARIES]
    two.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes", "maxmemory-policy", "allkeys-lru")
    three.freeze()
    try:
        found = await inspect_cluster(RedisAddress.parse(redis_cluster.url))
    finally:
        two.ask("CONFIG", "SET", "cluster-require-full-coverage", "no", "maxmemory-policy", "noeviction")
    assert found.cause == f"127.0.0.1:{three.port}: it does not answer in time; see whether a firewall lies between"
    assert found.version is not None
    said = "\n".join(found.warnings)
    assert f"127.0.0.1:{one.port}, 127.0.0.1:{two.port}: nothing is written to disk" in said
    assert f"127.0.0.1:{two.port}: maxmemory-policy is allkeys-lru" in said
    assert f"127.0.0.1:{two.port}: cluster-require-full-coverage is yes" in said
