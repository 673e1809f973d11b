"""Redis loses its data and the replica that runs a call dies, both at once: nobody is left who could put it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.faults.calling import call_once, failure
from tests.live.faults.processes import until
from tests.live.kept.crowd import insist
from tests.live.kept.site import Replica, pair, redis_server
from tests.live.kept.yard import WORK, Yard, yard

OVER_S = 30.0  # for a call to be over, the loss included
ARGUMENTS = {"number": 0}
CALL_ID = "call-0"


@pytest.mark.anyio
async def test_who_waited_elsewhere_is_told_that_nobody_knows_and_nothing_runs_twice(tmp_path: Path) -> None:
    async with lost_twice(tmp_path, joined=True) as (tools, heir, joined):
        assert joined is not None
        assert "nobody knows whether the tool ran" in failure(await joined)["message"]
        again = await repeated(heir)
        assert (again["success"], again["error"]["can_retry"]) == (False, False)
        assert await tools.call_back([0]) == [200]  # it ran after all
        assert (await repeated(heir))["value"] == ARGUMENTS
        assert tools.runs[0] == 1


@pytest.mark.anyio
async def test_who_only_comes_back_afterwards_is_new_and_the_tool_server_can_tell_by_the_id(tmp_path: Path) -> None:
    """A known gap: what only the dead knew is not known. The tool server is given the same call id as before."""
    async with lost_twice(tmp_path, joined=False) as (tools, heir, _):
        first = tools.taken[0]["id"]
        repeating = asyncio.create_task(repeated(heir))
        await until(lambda: tools.runs[0] == 2, "the call is made once more", OVER_S)
        repeating.cancel()
        assert tools.taken[0]["id"] == first


@asynccontextmanager
async def lost_twice(directory: Path, *, joined: bool) -> AsyncIterator[tuple[Yard, Replica, asyncio.Task[Any] | None]]:
    """A tool server that has taken one call, and the replica that is left, at which a repetition may have `joined`."""
    with redis_server(directory, lasting=True) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": "30s"}) as (a, b):
            asking = asyncio.create_task(call_once(a.running.url, WORK, ARGUMENTS, call_id=CALL_ID))
            await until(lambda: tools.runs[0] == 1, "the call is taken")
            waiting = None
            if joined:
                waiting = asyncio.create_task(call_once(b.running.url, WORK, ARGUMENTS, call_id=CALL_ID))
                await until(lambda: watchers(redis.connect()) == 2, "the other replica waits for it")
            redis.kill()
            await a.kill()
            redis.lose_everything()
            redis.start()
            with pytest.raises(ConnectionError):
                await asking
            yield tools, b, waiting


def watchers(data: Any) -> int:
    """How many replicas have asked to hear of a call; the one that runs it is one of them."""
    with data:
        return sum((data.hget(key, "watchers") or b"").count(b",") for key in data.scan_iter("toolgate:*:call"))


async def repeated(heir: Replica) -> dict[str, Any]:
    return await insist([heir.running.url], WORK, ARGUMENTS, CALL_ID, OVER_S)
