"""A call that is cancelled at another replica than the one that runs it: it is over there, too, and at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.live.calls.site import KEY, replica
from tests.support.calling import call, failure
from tests.support.processes import settings, until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stored_calls import REGISTERED
from tests.support.toolserver import Exchange, tool_server

TOOL = "Desk.work"
ENDS_S = 10.0  # what takes milliseconds on an idle machine; the tool never answers


@pytest.mark.anyio
async def test_it_ends_where_it_runs_or_waits_and_its_tool_server_is_hung_up_on(tmp_path: Path) -> None:
    hung_up = asyncio.Event()

    async def work(exchange: Exchange) -> None:
        await exchange.until_closed()
        hung_up.set()

    with running_redis(tmp_path) as redis:
        async with tool_server({TOOL: work}) as desk:
            backend = {"protocol": "otc", "url": desk.url, "timeout": "60s", "max_concurrency": 1}
            config = settings(
                {"desk": backend}, server={"port": 0, "admin": {"port": 0}}, state={"url": redis.url, "keys": [KEY]}
            )
            async with replica(config) as one, replica(config) as other:
                runs = asyncio.create_task(call(one.http, TOOL, call_id="runs"))
                await until(lambda: len(desk.calls(TOOL)) == 1, "the first call runs")
                waits = asyncio.create_task(call(one.http, TOOL, call_id="waits"))
                await until(lambda: states(redis)[REGISTERED] == 1, "the second call waits for its turn")
                for call_id, asked in (("waits", waits), ("runs", runs)):
                    assert (await other.http.delete(f"/calls/{call_id}")).status_code == 202
                    async with asyncio.timeout(ENDS_S):
                        shown = failure(await asked)
                    assert (shown["message"], shown["can_retry"]) == (
                        "The call was cancelled; the tool may have run.",
                        False,
                    )
                async with asyncio.timeout(ENDS_S):
                    await hung_up.wait()
        assert len(desk.calls(TOOL)) == 1


def states(redis: RedisServer) -> Counter[int]:
    """How many calls are in which state."""
    with redis.connect() as data:
        return Counter(int(data.hget(key, "state") or 0) for key in data.scan_iter("toolgate:*:call", count=1000))
