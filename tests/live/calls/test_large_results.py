"""Results that are too large to be kept: who waits where they arrive gets them, and everybody else is told once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.calls.status import TOO_LARGE
from tests.live.calls.site import callback_settings, pair, replica
from tests.support.calling import call, failure, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, Yard, yard

LARGE = {"number": 1, "text": "x" * (3 << 20)}  # three times as much as is kept, and less than a tool may answer


async def comes_large(tools: Yard, number: int) -> None:
    assert await tools.call_back([number], text=json.dumps(LARGE)) == [200]


def assert_too_large(end: dict[str, Any]) -> None:
    assert TOO_LARGE.failure is not None
    assert (end["message"], end["can_retry"]) == (TOO_LARGE.failure.message, False)


async def looked_at(http: httpx.AsyncClient, call_id: str) -> dict[str, Any]:
    error: dict[str, Any] = (await http.get(f"/calls/{call_id}")).json()["result"]["error"]
    return error


@pytest.mark.anyio
async def test_who_waits_gets_a_result_that_is_too_large_to_be_kept() -> None:
    async with yard() as tools, replica(callback_settings(tools.url, {"timeout": "30s"})) as only:
        kept = [asyncio.create_task(call(only.http, WORK, {"number": 1}, call_id="k")) for _ in range(2)]
        await until(lambda: 1 in tools.taken, "the kept call runs")
        await comes_large(tools, 1)
        tools.acknowledges.clear()  # the result overtakes the answer that the call was taken
        unkept = asyncio.create_task(call(only.http, WORK, {"number": 2}))
        await until(lambda: 2 in tools.taken, "the other call runs")
        await comes_large(tools, 2)
        assert [value(answer) for answer in await asyncio.gather(unkept, *kept)] == [LARGE] * 3
        assert_too_large(failure(await call(only.http, WORK, {"number": 1}, call_id="k")))
        assert_too_large(await looked_at(only.http, "k"))
        assert tools.ran_once
        assert len(only.running.logged("a result is too large to be stored")) == 2


@pytest.mark.anyio
async def test_who_waits_elsewhere_is_told_that_it_was_too_large(tmp_path: Path) -> None:
    """Tool servers call back the other replica."""
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": "30s"}) as (a, b):

            def is_joined() -> bool:
                with redis.connect() as data:
                    return any(data.hget(key, "watchers") for key in data.scan_iter("toolgate:*:call"))

            elsewhere = asyncio.create_task(call(a.http, WORK, {"number": 1}, call_id="k"))
            await until(lambda: 1 in tools.taken, "the call runs")
            here = asyncio.create_task(call(b.http, WORK, {"number": 1}, call_id="k"))
            await until(is_joined, "it is waited for at both")
            redis.freeze()
            await comes_large(tools, 1)
            redis.thaw()
            assert value(await here) == LARGE
            assert_too_large(failure(await elsewhere))
            for each in (a, b):
                assert_too_large(await looked_at(each.http, "k"))
        assert tools.ran_once
