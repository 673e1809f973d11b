"""Stores as the gateway opens them, and the buckets of a replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gateway.core.sealing import Digester
from gateway.ratelimit.redis import RedisBuckets
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.cluster import ClusterStore
from gateway.redisclient.connections import connect
from gateway.redisclient.server_store import ServerStore
from gateway.redisclient.store import PartitionStore

KEYS = ("a key of at least thirty-two characters",)


def store_at(url: str) -> PartitionStore:
    """What is at a URL."""
    address = RedisAddress.parse(url)
    return ClusterStore(address) if address.is_cluster else ServerStore(connect(address))


@asynccontextmanager
async def replica(url: str, keys: Sequence[str] = KEYS) -> AsyncIterator[RedisBuckets]:
    """The buckets of one replica."""
    buckets = RedisBuckets(store_at(url), Digester(keys, "rate limits"))
    try:
        yield buckets
    finally:
        await buckets.aclose()
