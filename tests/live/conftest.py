"""A Redis server and a Redis Cluster that a test may kill and freeze."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.redis_cluster import RedisCluster, running_cluster
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def redis_cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with running_cluster(tmp_path / "cluster") as cluster:
        yield cluster
