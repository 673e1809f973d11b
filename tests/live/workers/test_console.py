"""The console of a gateway of several workers shows all of them as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.live.console.asking import console
from tests.live.workers.team import WORKERS, pids, team
from tests.support.calling import call_once, failure
from tests.support.processes import until
from tests.support.toolserver import Exchange, echo, tool_server

pytestmark = pytest.mark.anyio

MANY = 40  # calls over connections of their own: that all of them meet one worker of two happens once in 2^39 times


async def test_it_shows_all_workers_and_what_each_of_them_does(redis_url: str) -> None:
    begun = 0

    async def slow(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        await exchange.until_closed()

    async with (
        tool_server({"Lab.Echo": echo, "Lab.Slow": slow}) as lab,
        team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running,
        console(running) as it,
    ):
        await asyncio.gather(*(call_once(running.url, "Lab.Echo", {"n": number}) for number in range(MANY)))
        overview = await it.get("overview")
        assert overview["status"] == "ok"
        assert {each["pid"] for each in overview["workers"]} == set(await pids(running))
        assert [each["is_this"] for each in overview["replicas"]] == [True] * WORKERS
        assert overview["state"]["kept_in"] == "redis"

        (backend,) = (await it.get("backends"))["backends"]
        assert (backend["up"], backend["tools"], backend["max_in_flight"]) == (True, 2, 256 * WORKERS)
        lines = (await it.get("log"))["lines"]
        assert len(lines) == len({line["key"] for line in lines}) == MANY
        assert {line["key"].partition(":")[0] for line in lines} == {"0", "1"}
        assert await _counted(it) == {"ok": MANY}

        waiting = [asyncio.create_task(call_once(running.url, "Lab.Slow")) for _ in range(MANY)]
        await until(lambda: begun == MANY, "all calls run")
        calls = (await it.get("calls"))["calls"]
        assert len({each["id"] for each in calls}) == MANY
        (backend,) = (await it.get("backends"))["backends"]
        assert backend["in_flight"] == MANY
        assert all([await it.cancel(each["id"]) for each in calls])
        assert {failure(answer)["code"] for answer in await asyncio.gather(*waiting)} == {"cancelled"}
        assert (await it.post("backends/lab/refresh", {})).status_code == 200
        assert (await it.post("backends/none/refresh", {})).status_code == 404


async def _counted(it: Any) -> dict[str, int]:
    """How the calls of the echo ended, once every worker has reported them."""
    found: dict[str, int] = {}

    async def reported() -> bool:
        nonlocal found
        found = (await it.get("tools/Lab.Echo"))["outcomes"]
        return sum(found.values()) == MANY

    await until(reported, "all calls are counted")
    return found


async def test_the_cursor_of_the_log_is_of_every_worker(redis_url: str) -> None:
    async with (
        tool_server({"Lab.Echo": echo}) as lab,
        team(redis_url, {"lab": {"protocol": "otc", "url": lab.url}}) as running,
        console(running) as it,
    ):
        first = await it.get("log")
        await asyncio.gather(*(call_once(running.url, "Lab.Echo", {"n": number}) for number in range(MANY)))
        second = await it.get("log", after=first["cursor"])
        assert len(second["lines"]) == MANY
        assert (await it.get("log", after=second["cursor"]))["lines"] == []
        settings = {each["path"]: each for each in (await it.get("configuration"))["settings"]}
        assert settings["server.workers"]["value"] == WORKERS
        assert settings["server.workers"]["origin"].startswith("gateway.yaml:")
