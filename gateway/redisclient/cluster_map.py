"""How the data in a Redis Cluster are divided, and which node has which partition.

Each partition is in one of the cluster's hash slots: all its keys have its prefix, whose hash tag decides the slot
(Redis Cluster specification, hash tags). The slots lie at equal distances, so servers with ranges of equal length get
equal numbers of partitions. Their numbers and their tags must never change: the data would be looked for elsewhere.

Nodes are discovered by redis-py's cluster client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from itertools import count

from msgspec import Struct
from redis.asyncio.cluster import ClusterNode, NodesManager
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisClusterException, RedisError

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.causes import cause
from gateway.redisclient.connections import RedisClient, Tls, check_library, connect_to_node, node_options

PARTITIONS = 64
REFRESH_S = 5.0  # for one look at the map: nodes that do not answer take half a second each
PAUSE_S = 0.1  # between two looks


class Placement(Struct, frozen=True):
    """Where a partition is."""

    prefix: str  # of all its keys
    slot: int  # that they are in


@cache
def placements() -> tuple[Placement, ...]:
    """Of all partitions: the tag of each is the smallest number whose slot lies in its 64th of all slots."""
    width, by_part = REDIS_CLUSTER_HASH_SLOTS // PARTITIONS, dict[int, Placement]()
    for tag in count():
        slot = key_slot(b"%d" % tag)
        by_part.setdefault(slot // width, Placement(f"toolgate:{{{tag}}}:", slot))
        if len(by_part) == PARTITIONS:
            return tuple(by_part[number] for number in range(PARTITIONS))
    raise AssertionError


check_library(
    [
        (NodesManager, "__init__", ("startup_nodes", "require_full_coverage", "connection_kwargs")),
        (NodesManager, "initialize", ("last_failed_node_name",)),
        (NodesManager, "aclose", ("attr",)),
    ]
)


class RedisNode:
    """A node, with a client for it alone."""

    def __init__(self, name: str, client: RedisClient) -> None:
        self.name = name
        self.client = client


class ClusterMap:
    """The owner of each partition, None of those without; it is looked up again when a node says otherwise."""

    def __init__(self, address: RedisAddress, tls: Tls | None = None) -> None:
        """Raises OSError (SSLError is one) when the files of `tls` cannot be used."""
        self.place = repr(address)
        self.owners: list[RedisNode | None] = [None] * len(placements())
        self.trouble: str | None = "it was not reached yet"  # why the map is not known
        self.copies: list[int] = []  # how many nodes each partition has data on, its owner included
        self.on_change: list[Callable[[], Awaitable[None]]] = []
        self._scheme = "rediss" if address.is_tls else "redis"
        self._options = node_options(address, tls)
        self._seeds = address.hosts
        self._nodes: dict[str, RedisNode] = {}
        self._discovery = NodesManager([], False, self._options)
        self._looking: asyncio.Task[None] | None = None
        self._is_wanted = False
        self._failed: str | None = None

    def at(self, host: str, port: int) -> RedisNode:
        """The node at an address."""
        name = f"{host}:{port}"
        if name not in self._nodes:
            place = f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"
            self._nodes[name] = RedisNode(name, connect_to_node(place, host, port, self._options))
        return self._nodes[name]

    def nodes(self) -> list[RedisNode]:
        """The nodes that have partitions."""
        return list(dict.fromkeys(node for node in self.owners if node is not None))

    def of(self, node: RedisNode) -> list[int]:
        """The partitions of a node."""
        return [number for number, owner in enumerate(self.owners) if owner is node]

    def note_move(self, partition: int, host: str, port: int) -> None:
        """Notes what a node has said of a partition that it has no more; others may have moved as well."""
        self.owners[partition] = self.at(host, port)
        self.refresh()

    def refresh(self, failed: RedisNode | None = None) -> None:
        """Has the map looked at, soon and not more often than needed. A node that has `failed` is asked last."""
        self._is_wanted = True
        self._failed = self._failed if failed is None else failed.name
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            while self._is_wanted:
                self._is_wanted = False
                await self.look()
                await asyncio.sleep(PAUSE_S)
        finally:
            self._looking = None

    async def look(self) -> None:
        """Finds out who has what; `trouble` says why that was not possible."""
        if self.trouble or None in self.owners:  # what was found may be gone, with all its addresses
            for host, port in self._seeds:
                seed = ClusterNode(host, port, **self._options)
                self._discovery.startup_nodes.setdefault(seed.name, seed)
        failed, self._failed = self._failed, None
        try:
            async with asyncio.timeout(REFRESH_S):
                await self._discovery.initialize(last_failed_node_name=failed)
        except (RedisClusterException, RedisError, OSError) as exc:
            self.trouble = cause(exc, self.place)
        else:
            self.trouble = None
            await self._learn()

    async def _learn(self) -> None:
        """Takes over what was found, and forgets nodes that are no longer in the cluster."""
        slots = self._discovery.slots_cache
        replicas = [slots.get(part.slot, []) for part in placements()]
        self.owners[:] = [self.at(nodes[0].host, int(nodes[0].port)) if nodes else None for nodes in replicas]
        self.copies = [len(nodes) for nodes in replicas]
        for notify in self.on_change:
            await notify()
        names = {f"{node.host}:{node.port}" for node in self._discovery.nodes_cache.values()}
        for name in self._nodes.keys() - names:
            await self._nodes.pop(name).client.aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for node in self._nodes.values():
            await node.client.aclose()
        for nodes in ("nodes_cache", "startup_nodes"):
            with suppress(RedisError, OSError):
                await self._discovery.aclose(nodes)
