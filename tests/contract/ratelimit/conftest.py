"""Every implementation of the buckets, opened the same way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from gateway.ratelimit import MemoryBuckets
from gateway.ratelimit.limits import SharedBuckets
from gateway.ratelimit.outcome import LimitOutcome
from gateway.ratelimit.rules import LimitPlan, Parts
from tests.support.limit_clients import replica


class InMemory:
    """Buckets in memory, asked as those in Redis are."""

    def __init__(self) -> None:
        self._buckets = MemoryBuckets(time.monotonic_ns)

    async def take(self, plan: LimitPlan, parts: Parts) -> LimitOutcome:
        return self._buckets.take(plan, parts)

    async def aclose(self) -> None:
        pass


@pytest.fixture(params=["memory", "redis_server", "redis_cluster"])
async def buckets(request: pytest.FixtureRequest) -> AsyncIterator[SharedBuckets]:
    if request.param == "memory":
        yield InMemory()
        return
    async with replica(request.getfixturevalue(request.param).url) as shared:
        yield shared
