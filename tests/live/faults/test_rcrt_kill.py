"""A replica that is killed while breadcrumbs of its are being worked on: the other one brings their results home.

RCRT has nothing like a callback URL: whoever goes on with a call of the dead polls for its response.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.state.calls import ACCEPTED
from tests.contract.state.server import RedisServer
from tests.live.faults.calling import call_once
from tests.live.faults.processes import DemoServer, Settings, demo_server, until
from tests.live.kept.crowd import insist
from tests.live.kept.site import KEY, Replica, crumbs_settings, order, redis_server, replica, taken

LEASE_S = 10.0  # after which a replica counts as dead
OVER_S = LEASE_S + 30.0  # for everything to be over, on a busy machine
EARLY_S, LATE_S = 1, 12  # how long tools work: over while nobody listens, and only after the calls were adopted
TIMERS = [EARLY_S] * 12 + [LATE_S] * 4
UNACKNOWLEDGED = 2
HELLO = {"message": "hello"}


@pytest.mark.anyio
async def test_a_replica_that_is_killed_with_breadcrumbs_loses_no_result_and_runs_none_twice(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        async with (
            demo_server("rcrt") as crumbs,
            replica(config(redis, crumbs, timeout="30s")) as a,
            replica(config(redis, crumbs, timeout="5s")) as b,
        ):
            waiting = [asyncio.create_task(ask(a, "timer", {"seconds": s}, name(n))) for n, s in enumerate(TIMERS)]
            await until(lambda: accepted(redis) == len(TIMERS), "every call is accepted")
            for number in range(UNACKNOWLEDGED):
                await order(crumbs, "create", "slow", seconds=OVER_S)
                waiting.append(asyncio.create_task(ask(a, "echo", HELLO, name(-1 - number))))
            await until(lambda: taken(crumbs), "two more are taken, but not acknowledged")
            await a.kill()
            cut_off = await asyncio.gather(*waiting, return_exceptions=True)
            assert [each for each in cut_off[TIMERS.index(LATE_S) :] if not isinstance(each, ConnectionError)] == []

            ends = await asyncio.gather(*(repeat(b, "timer", {"seconds": s}, name(n)) for n, s in enumerate(TIMERS)))
            assert [end["value"]["waited"] for end in ends if end["success"]] == TIMERS, ends
            for number in range(UNACKNOWLEDGED):
                is_unknown(await repeat(b, "echo", HELLO, name(-1 - number)))
            assert await runs_of(crumbs) == [1] * (len(TIMERS) + UNACKNOWLEDGED)


def config(redis: RedisServer, crumbs: DemoServer, *, timeout: str) -> Settings:
    config = crumbs_settings(crumbs)
    config["backends"]["crumbs"]["timeout"] = timeout
    return config | {"state": {"url": redis.url, "keys": [KEY]}}


def name(number: int) -> str:
    return f"call-{number}"


async def ask(at: Replica, tool: str, arguments: Any, call_id: str) -> httpx.Response:
    return await call_once(at.running.url, f"Crumbs.{tool}", arguments, call_id=call_id)


async def repeat(at: Replica, tool: str, arguments: Any, call_id: str) -> dict[str, Any]:
    return await insist([at.running.url], f"Crumbs.{tool}", arguments, call_id, OVER_S)


def is_unknown(end: dict[str, Any]) -> None:
    """What is true of a call of which nobody heard whether the tool server has taken it."""
    assert (end["success"], end["error"]["can_retry"]) == (False, False)
    assert "nobody knows whether the tool ran" in end["error"]["message"]


def accepted(redis: RedisServer) -> int:
    """How many calls are known to have been acknowledged; on a busy machine the first may be over by then."""
    with redis.connect() as data:
        states = [data.hget(key, "state") for key in data.scan_iter("toolgate:*:call", count=1000)]
    return sum(int(state or 0) >= ACCEPTED for state in states)


async def runs_of(crumbs: DemoServer) -> list[int]:
    """How often each request was run."""
    async with httpx.AsyncClient(trust_env=False) as http:
        return list((await http.get(f"{crumbs.url}/executions")).json()["requests"].values())
