"""Redis loses its data and the replica that runs a call dies, both at once: no replica is left to restore it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.calls.crowd import insist
from tests.live.calls.site import Replica, pair
from tests.support.calling import call_once, failure
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, Yard, yard

OVER_S = 60.0  # for a call to be over, the loss included; that takes 4 s on an idle machine
JOINED, ALONE = 0, 1  # the numbers of the two calls


@dataclass(frozen=True)
class Left:
    """A tool server that has taken two calls, the replica that is left, and who waits there for one of them."""

    tools: Yard
    successor: Replica
    waiting: asyncio.Task[httpx.Response]

    async def repeated(self, number: int) -> dict[str, Any]:
        return await insist([self.successor.running.url], WORK, {"number": number}, f"call-{number}", OVER_S)


@pytest.mark.anyio
async def test_a_waiting_caller_gets_unknown_and_a_later_one_begins_anew(tmp_path: Path) -> None:
    """Both calls are lost at once, because replicas are given seconds to put back what they hold."""
    async with lost_twice(tmp_path) as left:
        assert "it is unknown whether the tool ran" in failure(await left.waiting)["message"]
        again = await left.repeated(JOINED)
        assert (again["success"], again["error"]["can_retry"]) == (False, False)
        assert await left.tools.call_back([JOINED]) == [200]  # it ran after all
        assert (await left.repeated(JOINED))["value"] == {"number": JOINED}
        assert left.tools.runs[JOINED] == 1

        # A known gap: what only the dead knew is not known. The tool server is given the same call id as before.
        first = left.tools.taken[ALONE]["id"]
        repeating = asyncio.create_task(left.repeated(ALONE))
        await until(lambda: left.tools.runs[ALONE] == 2, "the call is made once more", OVER_S)
        repeating.cancel()
        assert left.tools.taken[ALONE]["id"] == first


@asynccontextmanager
async def lost_twice(directory: Path) -> AsyncIterator[Left]:
    with running_redis(directory, lasting=True) as redis:
        async with yard() as tools, pair(redis, tools.url, backend={"timeout": "30s"}) as (a, b):
            asking = [asyncio.create_task(ask(a, number)) for number in (JOINED, ALONE)]
            await until(lambda: tools.runs.total() == 2, "the calls are taken")
            waiting = asyncio.create_task(ask(b, JOINED))
            await until(lambda: is_watched_elsewhere(redis.connect()), "the other replica waits for one of them")
            redis.kill()
            await a.kill()
            redis.lose_everything()
            redis.start()
            for task in asking:
                with pytest.raises(ConnectionError):
                    await task
            yield Left(tools, b, waiting)


async def ask(at: Replica, number: int) -> httpx.Response:
    return await call_once(at.running.url, WORK, {"number": number}, call_id=f"call-{number}")


def is_watched_elsewhere(data: Any) -> bool:
    """Whether a replica has asked to hear of a call that another one runs."""
    with data:
        calls = [data.hmget(key, "replica", "watchers") for key in data.scan_iter("toolgate:*:call")]
    return any(set((watchers or b"").split(b",")) - {b"", replica} for replica, watchers in calls)
