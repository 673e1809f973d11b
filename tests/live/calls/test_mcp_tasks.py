"""Tasks of MCP on two replicas: one dies with many, and the other answers for them (ours)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.flow.mcp_tasks import TaskCaller
from tests.live.calls.site import pair
from tests.live.calls.test_killed_replica import accepted
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import yard

MANY = 200
SOON_S = 60.0  # for a crowd to be through, on a busy machine


@pytest.mark.anyio
async def test_mcp_43_a_replica_that_dies_with_its_tasks_loses_none_and_none_runs_twice(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url) as (a, b):
            at_a, at_b = TaskCaller(a.http), TaskCaller(b.http)
            made = await asyncio.gather(*(at_a.call("Yard_work", {"number": number}) for number in range(MANY)))
            ids = [each["taskId"] for each in made]
            assert {each["resultType"] for each in made} == {"task"}
            await until(lambda: accepted(redis) == MANY, "every call is accepted", SOON_S)
            await a.kill()

            assert {(await at_b.get(each))["status"] for each in ids[:10]} == {"working"}
            await at_b.result("tasks/cancel", taskId=ids[0])
            assert (await at_b.get(ids[0]))["status"] == "cancelled"
            assert set(await tools.call_back(range(1, MANY))) == {200}
            ended = [await at_b.ended(each) for each in ids[1:]]
            assert [each["result"]["structuredContent"] for each in ended] == [{"number": n} for n in range(1, MANY)]
            await until(lambda: tools.cancelled == [tools.taken[0]["id"]], "the tool server hears of the cancellation")
            assert tools.ran_once
