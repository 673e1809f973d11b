"""One Redis for all tests here: a new one is trusted after seconds only, and every gateway has a key of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis_server import running_redis


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it is."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url
