"""One Redis and one Redis Cluster for all contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis_cluster import RedisCluster, running_cluster
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


@pytest.fixture(scope="session")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def redis_cluster(one_cluster: RedisCluster) -> RedisCluster:
    """A cluster without data, with all its nodes; it takes two seconds to start, and is started once."""
    one_cluster.heal()
    one_cluster.empty()
    return one_cluster
