"""`on_failure: local`: a gateway whose Redis dies goes on keeping calls, in its own memory, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import plainhttp
from tests.contract.state.server import running_redis
from tests.live.faults.calling import call, value
from tests.live.faults.processes import demo_server, until
from tests.live.kept.site import KEY, Replica, callback_settings, outcome, ran, replica

pytestmark = pytest.mark.anyio

WARNING = "while the state is away, new calls are kept in this process alone"


async def health(gateway: Replica) -> dict[str, Any]:
    """What operators are told of the state."""
    async with plainhttp.async_client() as http:
        state: dict[str, Any] = (await http.get(f"{gateway.running.admin_url}/health")).json()["state"]
    return state


async def test_calls_go_on_without_redis_and_none_runs_twice(tmp_path: Path) -> None:
    with running_redis(tmp_path, lasting=True) as redis:
        state = {"url": redis.url, "keys": [KEY], "on_failure": "local"}
        async with demo_server("rap") as builds, replica(callback_settings(builds.url, state=state)) as gateway:

            async def up(expected: bool) -> bool:
                return (await health(gateway))["up"] is expected

            assert value(await call(gateway.http, "Builds.build", {"seconds": 0}, call_id="before"))
            assert (await health(gateway))["kept_in"] == "redis"

            redis.kill()
            await until(lambda: up(False), "the outage is noticed")
            quick = await outcome(gateway.http, "Builds.build", {"seconds": 0}, "during")
            assert quick["value"]["status"] == "built"
            await call(gateway.http, "Builds.build", {"seconds": 3}, call_id="long")  # outlives its timeout of 1 s
            refused = await call(gateway.http, "Builds.build", {"seconds": 0}, call_id="before")  # Redis has its result
            assert refused.status_code == 400
            assert int(refused.headers["retry-after"]) >= 1
            assert await health(gateway) == {"kept_in": "memory", "up": False, "unfinished_here": 1}

            redis.start()
            await until(lambda: up(True), "Redis is back")
            for call_id, seconds in (("before", 0), ("during", 0), ("long", 3)):
                ended = await outcome(gateway.http, "Builds.build", {"seconds": seconds}, call_id)
                assert ended["value"]["status"] == "built", call_id
            assert await outcome(gateway.http, "Builds.build", {"seconds": 0}, "after")
            assert await ran(builds) == [1, 1, 1, 1]
            assert await health(gateway) == {"kept_in": "redis", "up": True, "unfinished_here": 0}
            assert len(gateway.running.logged(WARNING)) == 1
            with redis.connect() as look:
                assert len(look.keys("toolgate:*:call")) == 2  # before and after: the others stayed here
