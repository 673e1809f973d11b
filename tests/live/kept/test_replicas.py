"""Two replicas on one Redis: any may take the callback, any may be asked, and one that dies takes no result with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.contract.state.calls import ACCEPTED
from tests.contract.state.server import RedisServer
from tests.live.faults.calling import call, call_once, value
from tests.live.faults.processes import until
from tests.live.kept.crowd import insist
from tests.live.kept.site import Replica, pair, ran, redis_server, site, statuses
from tests.live.kept.yard import WORK, Yard, yard

CROWDS = [100, pytest.param(500, marks=pytest.mark.soak)]
LEASE_S = 10.0  # after which a replica counts as dead
SOON_S = 30.0  # for a crowd to be through, on a busy machine


@pytest.mark.anyio
async def test_a_callback_elsewhere_answers_the_caller_here_and_its_repetition_there(tmp_path: Path) -> None:
    async with site(tmp_path) as place:
        build = {"seconds": 0.3}
        assert value(await call(place.a.http, "Builds.build", build, call_id="one"))["status"] == "built"
        assert await statuses(place.builds) == [200]  # of the other one: it is the only one that was named
        assert value(await call(place.b.http, "Builds.build", build, call_id="one"))["status"] == "built"
        assert await ran(place.builds) == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("many", CROWDS)
async def test_a_replica_that_is_killed_with_its_calls_loses_none_and_none_runs_twice(
    tmp_path: Path, many: int
) -> None:
    state, backend = {"max_pending_per_caller": 2 * many}, {"timeout": "30s"}
    with redis_server(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url, state, backend=backend) as (a, b):
            waiting = [asyncio.create_task(_ask(a, number)) for number in range(many)]
            await until(lambda: _accepted(redis) == many, "every call is accepted", SOON_S)
            tools.acknowledges.clear()
            waiting += [asyncio.create_task(_ask(a, number)) for number in (many, many + 1)]
            await until(lambda: len(tools.taken) == many + 2, "two more are taken, but not acknowledged", SOON_S)
            await a.kill()
            tools.acknowledges.set()
            cut_off = await asyncio.gather(*waiting, return_exceptions=True)
            assert [each for each in cut_off if not isinstance(each, ConnectionError)] == []

            early = await tools.call_back(range(0, many, 2))
            repeating = [asyncio.create_task(_insist(b, number)) for number in range(many)]
            late = await tools.call_back(range(1, many, 2))
            assert {*early, *late} == {200}
            ends = await asyncio.gather(*repeating)
            assert [end["value"] for end in ends] == [{"number": number} for number in range(many)]
            await _go_on_by_the_rules(tools, b, many)
            assert tools.ran_once
            assert len(tools.runs) == many + 2


async def _go_on_by_the_rules(tools: Yard, heir: Replica, first: int) -> None:
    """Nobody knows whether two calls ran, until one of them calls back after all."""
    unknown, late = await asyncio.gather(_insist(heir, first), _insist(heir, first + 1))
    for end in (unknown, late):
        assert end["success"] is False
        assert end["error"]["can_retry"] is False
        assert "nobody knows whether the tool ran" in end["error"]["message"]
    assert await tools.call_back([first + 1]) == [200]
    assert (await _insist(heir, first + 1))["value"] == {"number": first + 1}
    assert await _insist(heir, first) == unknown


def _name(number: int) -> str:
    return f"call-{number}"


async def _ask(at: Replica, number: int) -> Any:
    return await call_once(at.running.url, WORK, {"number": number}, call_id=_name(number))


async def _insist(at: Replica, number: int) -> dict[str, Any]:
    return await insist([at.running.url], WORK, {"number": number}, _name(number), LEASE_S + SOON_S)


def _accepted(redis: RedisServer) -> int:
    """How many calls are known to have been acknowledged."""
    with redis.connect() as data:
        states = [data.hget(name, "state") for name in data.scan_iter("toolgate:*:call", count=1000)]
    return states.count(b"%d" % ACCEPTED)
