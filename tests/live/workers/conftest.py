"""One Redis for all tests here: a new one is trusted after seconds only, and every gateway has a key of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.kept.site import redis_server


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it is."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server.url
