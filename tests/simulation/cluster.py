"""A Redis Cluster of simulated servers: who has which slot, as each server believes, and how the gateways find out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import hiredis
from redis.crc import key_slot
from redis.exceptions import RedisClusterException

from gateway.redisclient import cluster_map
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.cluster import ClusterStore
from tests.simulation.client import CONNECT_S, SimulatedRedis
from tests.simulation.loop import HERE, NETWORK
from tests.simulation.servers import Server, Written

PARTITIONS = 2  # one on each shard at first
PORT = 6379


class Cluster:
    """Servers that share the slots. `owners` is what all but those know that were replaced and have not noticed yet."""

    def __init__(self) -> None:
        self.owners: dict[int, Server] = {}
        self._targets: dict[int, Server] = {}  # of slots that move

    def give(self, slot: int, server: Server) -> None:
        self.owners[slot] = server
        server.slots.add(slot)

    def refusal(self, server: Server, name: bytes) -> hiredis.ReplyError | None:
        """Why a server does not do what it is asked about a key that does not exist."""
        slot = key_slot(name)
        if slot not in server.slots:
            return hiredis.ReplyError(f"MOVED {slot} {self.owners[slot].name}:{PORT}")
        if slot in self._targets:
            return hiredis.ReplyError(f"ASK {slot} {self._targets[slot].name}:{PORT}")
        return None

    def replace(self, server: Server, successor: Server) -> None:
        """A copy takes the place of its primary, which does not know it yet."""
        for slot in [slot for slot, owner in self.owners.items() if owner is server]:
            self._targets.pop(slot, None)
            self.give(slot, successor)

    def begin_move(self, slot: int, to: Server) -> bool:
        if slot in self._targets or self.owners[slot] is to:
            return False
        self._targets[slot] = to
        return True

    def end_move(self, slot: int, to: Server) -> bool:
        """Hands the slot over with all its keys; false if that was given up, for want of one of the two."""
        source = self.owners[slot]
        if self._targets.pop(slot, None) is not to or source.machine.is_dead or to.machine.is_dead:
            return False
        moved = {key: each for key, each in source.data.copy().items() if key_slot(key) == slot}
        now_s = source.network.loop.time()
        to.data.load(moved)
        to.written.append(Written(now_s, NETWORK, [], moved))
        for key in moved:
            source.data.run((b"DEL", key))
        source.written.append(Written(now_s, NETWORK, [(b"DEL", key) for key in moved]))
        source.slots.discard(slot)
        source.forget_channels(slot)
        self.give(slot, to)
        return True


class _NodeAt(NamedTuple):
    host: str
    port: int = PORT


class _Discovery:
    """What the gateway uses of redis-py's `NodesManager`."""

    def __init__(self, cluster: Cluster) -> None:
        self.startup_nodes: dict[str, object] = {}
        self.slots_cache: dict[int, list[_NodeAt]] = {}
        self.nodes_cache: dict[str, _NodeAt] = {}
        self._cluster = cluster

    async def initialize(self, last_failed_node_name: str | None = None) -> None:
        here, servers = HERE.get(), dict.fromkeys(self._cluster.owners.values())
        for server in servers:
            network = server.network
            await asyncio.sleep(network.delay_s(here.name, server.name))
            if server.machine.is_dead:
                continue
            if server.machine.is_frozen or network.is_cut(here.name, server.name):
                await asyncio.sleep(CONNECT_S)
                continue
            self.slots_cache = {slot: [_NodeAt(owner.name)] for slot, owner in self._cluster.owners.items()}
            self.nodes_cache = {each.name: _NodeAt(each.name) for each in servers}
            return
        raise RedisClusterException("no node answers")

    async def aclose(self, nodes: str) -> None: ...


async def _no_risks() -> list[str]:
    return []


def open_store(cluster: Cluster) -> ClusterStore:
    """The real store, over simulated servers."""
    store = ClusterStore(RedisAddress.parse(f"redis+cluster://server-1:{PORT}"))
    store._nodes._discovery = _Discovery(cluster)  # type: ignore[assignment]
    store.risks = _no_risks  # type: ignore[method-assign]
    return store


@contextmanager
def few_partitions(find: Callable[[str], Server | None]) -> Iterator[None]:
    """Divides the data into few partitions, and connects to the servers that `find` names by their hosts."""

    def connect(place: str, host: str, port: int, options: object) -> SimulatedRedis:
        return SimulatedRedis(lambda: find(host))

    with mock.patch.multiple(cluster_map, PARTITIONS=PARTITIONS, connect_to_node=connect):
        cluster_map.placements.cache_clear()
        try:
            yield
        finally:
            cluster_map.placements.cache_clear()
