"""Redis dies under a gateway, or is not there when it starts: whatever does not need it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import KEY, Replica, callback_settings, outcome, ran, replica
from tests.support.calling import call, value
from tests.support.processes import DemoServer, Settings, demo_server, until
from tests.support.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

BURST = 5
# So slow that none comes back while a test runs.
LIMIT = {
    "name": "sums",
    "key": "caller",
    "rate": "1/h",
    "burst": BURST,
    "operations": ["call"],
    "tools": ["Calculator.*"],
}


@dataclass(frozen=True)
class Place:
    """A gateway on Redis in front of a tool server that answers at once, and of one that answers later."""

    redis: RedisServer
    gateway: Replica
    builds: DemoServer

    async def add(self, **members: Any) -> httpx.Response:
        """A call of a tool that answers at once."""
        return await call(self.gateway.http, "Calculator.Add", {"a": 1, "b": 2}, **members)

    async def is_up(self) -> bool:
        async with plainhttp.async_client() as http:
            state = (await http.get(f"{self.gateway.running.admin_url}/health")).json()["state"]
        return bool(state["up"])

    async def is_away(self) -> bool:
        return not await self.is_up()


@asynccontextmanager
async def place(redis: RedisServer) -> AsyncIterator[Place]:
    async with demo_server("otc") as calculator, demo_server("rap") as builds:
        others: dict[str, Settings] = {"calculator": {"protocol": "otc", "url": calculator.url}}
        state = {"url": redis.url, "keys": [KEY]}
        config = callback_settings(builds.url, others=others, state=state, rate_limits=[LIMIT])
        async with replica(config) as gateway:
            yield Place(redis, gateway, builds)


def assert_later(response: httpx.Response) -> None:
    """The refusal of a call that has to be remembered."""
    assert response.status_code == httpx.codes.BAD_REQUEST, response.text
    assert int(response.headers["retry-after"]) >= 1


async def test_without_redis_plain_calls_go_on_and_each_process_counts_by_itself(tmp_path: Path) -> None:
    with running_redis(tmp_path, lasting=True) as redis:
        async with place(redis) as it:
            http = it.gateway.http
            assert value(await it.add()) == 3
            assert value(await call(http, "Builds.build", {"seconds": 0}, call_id="before"))
            redis.kill()
            await until(it.is_away, "the outage is noticed")
            for refused in (
                await it.add(call_id="plain"),
                await call(http, "Builds.build", {"seconds": 0}),
                await call(http, "Builds.build", {"seconds": 0}, call_id="before"),
                await http.get("/calls/before"),
            ):
                assert_later(refused)
            answers = await asyncio.gather(*(it.add() for _ in range(BURST - 1)))
            assert [value(answer) for answer in answers] == [3] * (BURST - 1)
            assert (await it.add()).status_code == httpx.codes.TOO_MANY_REQUESTS

            redis.start()
            await until(it.is_up, "Redis is back")

            async def is_counted_there() -> bool:
                return (await it.add()).status_code == httpx.codes.OK

            await until(is_counted_there, "requests are counted in Redis again, where some are left")
            for call_id in ("before", "after"):
                assert (await outcome(http, "Builds.build", {"seconds": 0}, call_id))["value"]["status"] == "built"
            assert await ran(it.builds) == [1, 1]


async def test_a_gateway_that_starts_without_redis_serves_plain_calls(tmp_path: Path) -> None:
    with running_redis(tmp_path, lasting=True) as redis:
        redis.kill()
        async with place(redis) as it:
            assert not await it.is_up()
            assert [value(await it.add()) for _ in range(3)] == [3, 3, 3]
            assert_later(await it.add(call_id="kept"))
            redis.start()
            await until(it.is_up, "Redis is found")

            async def is_kept() -> bool:
                return (await it.add(call_id="kept")).status_code == httpx.codes.OK

            await until(is_kept, "calls are remembered")
