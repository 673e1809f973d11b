"""Buckets of a replica, on a client that gives up as early as the gateway's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.ratelimit.redis import RedisBuckets
from gateway.state.connections import BATCH_TIMEOUT_S
from gateway.state.sealing import Digester

KEYS = ["a key of at least thirty-two characters"]


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[RedisBuckets]:
    """The buckets of one replica."""
    half = BATCH_TIMEOUT_S / 2
    redis = Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=half, socket_connect_timeout=half)
    buckets = RedisBuckets(redis, Digester(KEYS, "rate limits"))
    try:
        yield buckets
    finally:
        await buckets.aclose()
