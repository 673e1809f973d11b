"""One Redis for all contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="session")
def one_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(one_redis: RedisServer) -> RedisServer:
    """A server without data."""
    one_redis.empty()
    return one_redis
