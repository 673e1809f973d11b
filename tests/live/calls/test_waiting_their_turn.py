"""A replica that is killed while calls wait for their turn: nothing of those was sent, so the next one runs them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.calls.crowd import insist
from tests.live.calls.site import KEY, replica
from tests.support.calling import call_once
from tests.support.processes import settings, until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stored_calls import DISPATCHING, REGISTERED
from tests.support.toolserver import Exchange, tool_server
from tests.support.yard import WORK, yard

WAITING = 3  # calls behind the one that has the only place
WITHIN_S = 60.0  # a lease of 10 s, and what a busy machine adds
SERVED = "Desk.work"


@pytest.mark.anyio
async def test_calls_in_the_queue_of_a_replica_that_is_killed_run_once_elsewhere(tmp_path: Path) -> None:
    """Behind a tool server that answers at once, and behind one that has not acknowledged the first."""
    let_go = asyncio.Event()

    async def work(exchange: Exchange) -> None:
        await let_go.wait()
        await exchange.finish(value=exchange.request.call["input"])

    with running_redis(tmp_path) as redis:
        async with tool_server({SERVED: work}) as desk, yard() as tools:
            tools.acknowledges.clear()
            config = settings(
                {
                    "desk": {"protocol": "otc", "url": desk.url, "timeout": "30s", "max_concurrency": 1},
                    "yard": {"protocol": "callback", "url": tools.url, "timeout": "30s", "max_concurrency": 1},
                },
                server={"port": 0, "admin": {"port": 0}, "callback_url": "http://127.0.0.1:9"},
                state={"url": redis.url, "keys": [KEY]},
            )
            async with replica(config) as doomed, replica(config) as successor:
                asked: list[asyncio.Task[httpx.Response]] = []

                def ask(number: int, tool: str) -> None:
                    call = call_once(doomed.running.url, tool, {"number": number}, call_id=f"{number}")
                    asked.append(asyncio.create_task(call))

                ask(0, SERVED)
                ask(1, WORK)
                # Their state does not tell: a call is DISPATCHING before it is sent, and connecting may take a while.
                await until(lambda: len(desk.calls(SERVED)) == len(tools.taken) == 1, "the first of each are sent")
                for number in range(2, 2 + 2 * WAITING):
                    ask(number, WORK if number % 2 else SERVED)
                expected = {DISPATCHING: 2, REGISTERED: 2 * WAITING}
                await until(lambda: states(redis) == expected, "those that wait are known not to have been sent")
                await doomed.kill()
                await asyncio.gather(*asked, return_exceptions=True)
                let_go.set()
                tools.acknowledges.set()

                async def end_of(number: int, tool: str) -> dict[str, Any]:
                    """At the replica that is left."""
                    return await insist([successor.running.url], tool, {"number": number}, str(number), WITHIN_S)

                served = await asyncio.gather(*(end_of(number, SERVED) for number in range(0, 2 + 2 * WAITING, 2)))
                assert served[0]["success"] is False
                assert "it is unknown whether the tool ran" in served[0]["error"]["message"]
                assert [end["value"]["number"] for end in served[1:]] == [2, 4, 6]
                working = [asyncio.create_task(end_of(number, WORK)) for number in (3, 5, 7)]
                await until(lambda: len(tools.taken) == 1 + WAITING, "the others are handed over", WITHIN_S)
                await until(lambda: states(redis).get(DISPATCHING, 0) == 0, "each is acknowledged")
                for task in working:
                    task.cancel()
        assert len(desk.calls(SERVED)) == 1 + WAITING
        assert tools.ran_once


def states(redis: RedisServer) -> Counter[int]:
    """How many calls are in which state."""
    with redis.connect() as data:
        return Counter(int(data.hget(key, "state") or 0) for key in data.scan_iter("toolgate:*:call", count=1000))
