"""A replica that is killed with calls under way: the other one brings their results home.

A callback finds whoever is left. RCRT has nothing like it: whoever goes on with a call of the dead polls for its
response. Both are tried at one death, because it takes ten seconds until a replica counts as dead.
"""

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
from tests.live.calls.crowd import insist
from tests.live.calls.site import Replica, crumbs_settings, order, pair, taken
from tests.support.calling import call_once
from tests.support.processes import DemoServer, demo_server, until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stored_calls import ACCEPTED
from tests.support.yard import WORK, Yard, yard

CROWDS = [100, pytest.param(500, marks=pytest.mark.soak)]  # calls that are called back for
TIMEOUT = "30s"  # of a call: nobody is answered before the replica is killed
LEASE_S = 10.0  # after which a replica counts as dead
SOON_S = 60.0  # for a crowd to be through, on a busy machine
EARLY_S, LATE_S = 1, 12  # how long timers run: over while nobody listens, and only after the calls were adopted
TIMERS = [EARLY_S] * 12 + [LATE_S] * 4
UNACKNOWLEDGED = 2  # of either kind
SILENT_S = 60.0  # how long the breadcrumb server says nothing to these: the longest it can be told
HELLO = {"message": "hello"}

Asked = list[asyncio.Task[httpx.Response]]


@dataclass(frozen=True)
class Works:
    """Everything, running. The first `many` numbers are those of calls that are called back for."""

    redis: RedisServer
    tools: Yard
    crumbs: DemoServer
    a: Replica
    b: Replica
    many: int

    async def end_of(self, tool: str, arguments: Any, call_id: str) -> dict[str, Any]:
        """What comes of a call that is repeated at the replica that is left."""
        return await insist([self.b.running.url], tool, arguments, call_id, LEASE_S + SOON_S)

    async def work_end(self, number: int) -> dict[str, Any]:
        return await self.end_of(WORK, {"number": number}, f"work-{number}")

    def ask(self, tool: str, arguments: Any, call_id: str) -> asyncio.Task[httpx.Response]:
        """Makes a call at the replica that is to die."""
        return asyncio.create_task(call_once(self.a.running.url, tool, arguments, call_id=call_id))


@asynccontextmanager
async def works(directory: Path, many: int) -> AsyncIterator[Works]:
    with running_redis(directory) as redis:
        async with yard() as tools, demo_server("rcrt") as crumbs:
            others = crumbs_settings(crumbs)["backends"]
            others["crumbs"]["timeout"] = TIMEOUT
            state, backend = {"max_pending_per_caller": 2 * many}, {"timeout": TIMEOUT}
            async with pair(redis, tools.url, state, backend=backend, others=others) as (a, b):
                yield Works(redis, tools, crumbs, a, b, many)


@pytest.mark.anyio
@pytest.mark.parametrize("many", CROWDS)
async def test_a_replica_that_is_killed_with_its_calls_loses_none_and_none_runs_twice(
    tmp_path: Path, many: int
) -> None:
    async with works(tmp_path, many) as of:
        work, crumbs = await begin_work(of), await begin_crumbs(of)
        await of.a.kill()
        of.tools.acknowledges.set()
        lasting = crumbs[TIMERS.index(LATE_S) :]  # the others may be over by then
        cut_off = await asyncio.gather(*work, *lasting, return_exceptions=True)
        assert [each for each in cut_off if not isinstance(each, ConnectionError)] == []
        await asyncio.gather(*crumbs, return_exceptions=True)
        await asyncio.gather(end_work(of), end_crumbs(of))


async def begin_work(of: Works) -> Asked:
    """Many calls that are acknowledged, and two that are not; they will be called back for."""
    numbers = range(of.many + UNACKNOWLEDGED)
    asked = [of.ask(WORK, {"number": number}, f"work-{number}") for number in numbers[: of.many]]
    await until(lambda: accepted(of.redis) == of.many, "every call is accepted", SOON_S)
    of.tools.acknowledges.clear()
    asked += [of.ask(WORK, {"number": number}, f"work-{number}") for number in numbers[of.many :]]
    await until(lambda: len(of.tools.taken) == len(numbers), "two more are taken, but not acknowledged", SOON_S)
    return asked


async def begin_crumbs(of: Works) -> Asked:
    """The same with breadcrumbs, some of which are worked on for long."""
    asked = [of.ask("Crumbs.timer", {"seconds": s}, f"timer-{number}") for number, s in enumerate(TIMERS)]
    await until(lambda: accepted(of.redis) == of.many + len(TIMERS), "every breadcrumb is accepted")
    for number in range(UNACKNOWLEDGED):
        await order(of.crumbs, "create", "slow", seconds=SILENT_S)
        asked.append(of.ask("Crumbs.echo", HELLO, f"echo-{number}"))
    await until(lambda: taken(of.crumbs), "two more are taken, but not acknowledged")
    return asked


async def end_work(of: Works) -> None:
    """Half of it is called back for before anybody asks, and half while they do."""
    early = await of.tools.call_back(range(0, of.many, 2))
    repeating = [asyncio.create_task(of.work_end(number)) for number in range(of.many)]
    late = await of.tools.call_back(range(1, of.many, 2))
    assert {*early, *late} == {200}
    assert [end["value"] for end in await asyncio.gather(*repeating)] == [{"number": n} for n in range(of.many)]

    # Nobody knows whether two calls ran, until one of them calls back after all.
    unknown, other = await asyncio.gather(of.work_end(of.many), of.work_end(of.many + 1))
    is_unknown(unknown)
    is_unknown(other)
    assert await of.tools.call_back([of.many + 1]) == [200]
    assert (await of.work_end(of.many + 1))["value"] == {"number": of.many + 1}
    assert await of.work_end(of.many) == unknown
    assert of.tools.ran_once
    assert len(of.tools.runs) == of.many + UNACKNOWLEDGED


async def end_crumbs(of: Works) -> None:
    timers = (of.end_of("Crumbs.timer", {"seconds": s}, f"timer-{number}") for number, s in enumerate(TIMERS))
    ends = await asyncio.gather(*timers)
    assert [end["value"]["waited"] for end in ends if end["success"]] == TIMERS, ends
    for number in range(UNACKNOWLEDGED):
        is_unknown(await of.end_of("Crumbs.echo", HELLO, f"echo-{number}"))
    async with plainhttp.async_client() as http:
        runs = (await http.get(f"{of.crumbs.url}/executions")).json()["requests"]
    assert list(runs.values()) == [1] * (len(TIMERS) + UNACKNOWLEDGED)


def is_unknown(end: dict[str, Any]) -> None:
    """What is true of a call of which nobody heard whether the tool server has taken it."""
    assert (end["success"], end["error"]["can_retry"]) == (False, False)
    assert "it is unknown whether the tool ran" in end["error"]["message"]


def accepted(redis: RedisServer) -> int:
    """How many calls are known to have been acknowledged; on a busy machine the first may be over by then."""
    with redis.connect() as data:
        states = [data.hget(key, "state") for key in data.scan_iter("toolgate:*:call", count=1000)]
    return sum(int(state or 0) >= ACCEPTED for state in states)
