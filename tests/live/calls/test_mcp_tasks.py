"""Tasks of MCP on two replicas: one dies with many, and the other answers for them (ours)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.live.calls.site import pair
from tests.live.calls.test_killed_replica import accepted
from tests.protocols.mcp.task_caller import TASKS, TaskCaller
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import Yard, yard

MANY = 40
ASKS, AGREED = 20, 21  # tasks that wait for their users, one of whom agrees while both replicas live
PAGE = "https://login.example/"
TIMEOUT = "60s"  # of a call: on a busy machine the crowd takes seconds to be accepted
SOON_S = 60.0  # for a crowd to be through, on a busy machine


async def asks_at(caller: TaskCaller, tools: Yard, ids: list[str]) -> str:
    """Has two tasks ask their users, one of whom agrees. Returns the key of the question that is left."""
    assert await tools.call_back([ASKS, AGREED], auth_url=PAGE) == [200, 200]
    (left,), (key,) = [(await caller.get(ids[number]))["inputRequests"] for number in (ASKS, AGREED)]
    await caller.result("tasks/update", taskId=ids[AGREED], inputResponses={key: {"action": "accept"}})
    return str(left)


@pytest.mark.anyio
async def test_mcp_43_a_replica_that_dies_with_its_tasks_loses_none_and_none_runs_twice(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": TIMEOUT}) as (a, b):
            at_a, at_b = (TaskCaller(each.http, {**TASKS, "elicitation": {"url": {}}}) for each in (a, b))
            made = await asyncio.gather(*(at_a.call("Yard_work", {"number": number}) for number in range(MANY)))
            ids = [each["taskId"] for each in made]
            assert {each["resultType"] for each in made} == {"task"}
            await until(lambda: accepted(redis) == MANY == len(tools.taken), "every call is accepted", SOON_S)
            key = await asks_at(at_a, tools, ids)
            await a.kill()

            assert {(await at_b.get(each))["status"] for each in ids[:10]} == {"working"}
            asking = await at_b.get(ids[ASKS])
            assert (asking["status"], list(asking["inputRequests"])) == ("input_required", [key])
            await at_b.result("tasks/update", taskId=ids[ASKS], inputResponses={key: {"action": "accept"}})
            assert {(await at_b.get(ids[number]))["status"] for number in (ASKS, AGREED)} == {"working"}
            await at_b.result("tasks/cancel", taskId=ids[0])
            assert (await at_b.get(ids[0]))["status"] == "cancelled"
            assert set(await tools.call_back(range(1, MANY))) == {200}
            ended = [await at_b.ended(each) for each in ids[1:]]
            assert [each["result"]["structuredContent"] for each in ended] == [{"number": n} for n in range(1, MANY)]
            await until(lambda: tools.cancelled == [tools.taken[0]["id"]], "the tool server hears of the cancellation")
            assert tools.ran_once
