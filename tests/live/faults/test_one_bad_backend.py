"""One dead, one slow and one flapping tool server beside a good one: what the good one's callers notice of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.support.calling import assert_unavailable, call, call_once, caller, value
from tests.support.processes import DemoServer, GatewayProcess, demo_server, gateway, settings, until
from tests.support.toolserver import Exchange, ToolServer, echo, tool_server

LOAD_S = 1.5  # at the least: on a busy machine, until the good one has had its calls
CALLERS = 4  # of each tool server, one call after the other
SLOW_TIMEOUT_S = 0.5
NOTICED_S = 2.0  # what calls to the good one may take on a busy machine; behind slow ones they would wait for ever
OUTCOMES = {"ok", "failed", "unavailable"}


async def hang(exchange: Exchange) -> None:
    await exchange.until_closed()


class Flapping:
    """Answers for a while, then breaks off for a while."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, exchange: Exchange) -> None:
        self.calls += 1
        if self.calls // 7 % 2:
            exchange.reset()
        else:
            await echo(exchange)


@dataclass
class Fleet:
    running: GatewayProcess
    good: ToolServer

    async def health(self, backend: str) -> Any:
        async with plainhttp.async_client() as http:
            return (await http.get(f"{self.running.admin_url}/health")).json()["backends"][backend]


@asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    """Four tool servers, listed while all were well; then one is gone."""
    async with AsyncExitStack() as living:
        good = await living.enter_async_context(tool_server({"Good.Echo": echo}))
        slow = await living.enter_async_context(tool_server({"Slow.Echo": hang}))
        flapping = await living.enter_async_context(tool_server({"Flapping.Echo": Flapping()}))
        dying = AsyncExitStack()
        dead = await dying.enter_async_context(tool_server({"Dead.Echo": echo}))
        common: dict[str, Any] = {"protocol": "otc", "max_concurrency": 2, "max_queue": 2}
        backends = {
            "good": {"protocol": "otc", "url": good.url},
            "slow": common | {"url": slow.url, "timeout": f"{SLOW_TIMEOUT_S * 1000:.0f}ms"},
            "flapping": common | {"url": flapping.url, "breaker": {"failures": 3, "open_for": "100ms"}},
            "dead": common | {"url": dead.url},
        }
        running = await living.enter_async_context(gateway(settings(backends)))
        await dying.aclose()
        yield Fleet(running, good)


async def keep_calling(url: str, tool: str, over: asyncio.Event) -> list[tuple[str, float]]:
    """Calls one after the other until the load is over; how each ended and what it took."""
    ended: list[tuple[str, float]] = []
    async with caller(url) as http:
        while not over.is_set():
            begun = time.monotonic()
            answer = await call(http, tool, {"n": len(ended)})
            if answer.status_code != httpx.codes.OK:
                assert_unavailable(answer)
                how = "unavailable"
                await asyncio.sleep(0.005)  # or refusals alone would keep the machine busy
            else:
                how = "ok" if answer.json()["result"]["success"] else "failed"
            ended.append((how, time.monotonic() - begun))
    return ended


@pytest.mark.anyio
async def test_bad_tool_servers_cost_a_good_one_neither_failures_nor_waiting() -> None:
    async with fleet() as of:
        over = asyncio.Event()
        tools = ["Good.Echo", "Slow.Echo", "Flapping.Echo", "Dead.Echo"]
        loads = [keep_calling(of.running.url, tool, over) for tool in tools for _ in range(CALLERS)]
        load, most_queued = asyncio.gather(*loads), asyncio.create_task(watch_queue(of, over))
        await asyncio.sleep(LOAD_S)
        await until(lambda: len(of.good.calls("Good.Echo")) > 10 * CALLERS, "the good one is called on", LOAD_S * 10)
        over.set()
        ended = await load
        good, slow, flapping, dead = (list(chain(*ended[at : at + CALLERS])) for at in range(0, len(ended), CALLERS))

        assert {how for how, _ in good} == {"ok"}
        assert median(took for _, took in good) < NOTICED_S
        assert await most_queued == 0
        assert len(of.good.calls("Good.Echo")) == len(good)

        assert {how for how, _ in slow} <= {"failed", "unavailable"}
        assert {how for how, _ in flapping} == OUTCOMES
        assert {how for how, _ in dead} == {"unavailable"}
        assert (await of.health("dead"))["breaker"] == "open"
        assert (await of.health("good"))["replicas"][0]["failures"] == 0


async def watch_queue(of: Fleet, over: asyncio.Event) -> int:
    """The most calls seen waiting for the good tool server."""
    most = 0
    while not over.is_set():
        most = max(most, (await of.health("good"))["queued"])
        await asyncio.sleep(0.02)
    return most


@pytest.mark.anyio
async def test_of_three_replicas_one_may_be_killed_or_frozen_and_come_back() -> None:
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(demo_server("otc")) for _ in range(3)]
        backend = {
            "protocol": "otc",
            "urls": [replica.url for replica in replicas],
            "timeout": "1s",
            "breaker": {"failures": 2, "open_for": "100ms"},
        }
        running = await stack.enter_async_context(gateway(settings({"calculator": backend})))
        killed, frozen, well = replicas
        await killed.kill()
        assert [value(await add(running, number)) for number in range(30)] == list(range(1, 31))

        frozen.freeze()
        while frozen.url in await open_to_add(running):
            await add(running, 1)  # the first few cannot know
        assert [value(await add(running, number)) for number in range(30)] == list(range(1, 31))
        frozen.thaw()
        again = await stack.enter_async_context(demo_server("otc", killed.port))

        async def all_well() -> bool:
            assert value(await add(running, 1)) == 2
            return len(await open_to_add(running)) == 3

        await until(all_well, "all replicas take calls again")
        for _ in range(9):
            await add(running, 1)
        assert all([await ran(replica) for replica in (again, frozen, well)])


async def add(running: GatewayProcess, number: int) -> httpx.Response:
    return await call_once(running.url, "Calculator.Add", {"a": number, "b": 1})


async def open_to_add(running: GatewayProcess) -> list[str]:
    """The replicas that calls of the tool are sent to; a replica that is frozen has but shut the tool."""
    async with plainhttp.async_client() as http:
        health = (await http.get(f"{running.admin_url}/health")).json()
    replicas = health["backends"]["calculator"]["replicas"]
    return [each["url"] for each in replicas if each["breaker"] == "closed" and not each["tools_shut"]["count"]]


async def ran(replica: DemoServer) -> bool:
    return sum((await replica.executions()).values()) > 0
