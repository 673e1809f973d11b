"""Results that come before the invocation is acknowledged, and at another replica than the one that sent it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.live.calls.site import pair
from tests.support.calling import call, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, yard

SOON_S = 8.0  # for what takes milliseconds; without an acknowledgement nothing is waited for after 10 s


@pytest.mark.anyio
@pytest.mark.parametrize("named", [{"call_id": "k"}, {}], ids=["keyed", "not"])
async def test_a_result_reaches_its_caller_wherever_it_is_posted(tmp_path: Path, named: dict[str, str]) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": "60s"}) as (a, _):
            tools.acknowledges.clear()
            asked = asyncio.create_task(call(a.http, WORK, {"number": 1}, **named))
            async with asyncio.timeout(SOON_S):
                await until(lambda: 1 in tools.taken, "it is taken")
                assert await tools.call_back([1]) == [200]
                assert value(await asked) == {"number": 1}
            tools.acknowledges.set()
            if named:
                assert value(await call(a.http, WORK, {"number": 1}, **named)) == {"number": 1}
            assert tools.ran_once
