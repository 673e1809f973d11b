"""SIGTERM while results wait for Redis, or calls for their outcomes: within the grace, what can be brought home is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.state.port import DONE
from tests import plainhttp
from tests.live.calls.site import AGENT_ID, KEY, OWNER_ID, callback_settings, order
from tests.support.calling import caller
from tests.support.ports import lasting_port
from tests.support.processes import STOP_S, GatewayProcess, Settings, demo_server, gateway, until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.yard import WORK, Yard, yard

NUMBERS = range(20)
LONG, SHORT = "15s", "300ms"  # graces: more than all of it takes, and less
LATE_S = 1.0
HELD = "results that waited for the state are lost"
UNFINISHED = "calls that are still running are lost"


def shared(redis: RedisServer, tools: Yard, grace: str, workers: int) -> Settings:
    server = {"port": lasting_port(), "workers": workers, "admin": {"port": 0}, "shutdown_grace": grace}
    return callback_settings(tools.url, server=server, state={"url": redis.url, "keys": [KEY]})


def alone(tools: Yard, grace: str, others: dict[str, Settings] | None = None) -> Settings:
    server = {"port": 0, "admin": {"port": 0}, "shutdown_grace": grace}
    return callback_settings(tools.url, server=server, others=others)


async def accepted(running: GatewayProcess, numbers: Iterable[int], tool: str = WORK, **more: Any) -> list[str]:
    """Makes calls without a waiting caller; their ids without the prefix, as Redis knows them."""
    async with caller(running.url) as http:

        async def one(number: int) -> str:
            request = {"tool_id": tool, "input": more or {"number": number}, "call_id": f"k-{number}"}
            answer = await http.post("/oxp/tools/call", json=request, headers={"prefer": "respond-async"})
            assert answer.status_code == 202, answer.text
            return answer.headers["toolgate-call-id"].removeprefix("tg-")

        return await asyncio.gather(*(one(number) for number in numbers))


async def begun(running: GatewayProcess, tools: Yard, numbers: Iterable[int]) -> list[str]:
    """As `accepted`; all of them run."""
    ids = await accepted(running, numbers)
    await until(lambda: len(tools.taken) == len(ids), "every call runs")
    return ids


async def asked_to_stop(running: GatewayProcess) -> None:
    running.process.send_signal(signal.SIGTERM)

    async def drains() -> bool:
        async with plainhttp.async_client() as http:
            return bool((await http.get(f"{running.admin_url}/health")).json()["status"] == "draining")

    await until(drains, "it drains")


async def ended(running: GatewayProcess) -> int:
    async with asyncio.timeout(STOP_S):
        return await running.process.wait()


def named(running: GatewayProcess, message: str) -> list[str]:
    """The calls that such lines of the log name as callers know them; their ids without the prefix."""
    lines = running.logged(message)
    names = [name for line in lines for name in line["calls"]]
    assert sum(line["count"] for line in lines) == len(names)
    assert all(name.startswith("tg-") for name in names)
    return sorted(name.removeprefix("tg-") for name in names)


@pytest.mark.anyio
async def test_results_that_were_taken_while_redis_was_frozen_are_written_within_the_grace(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, gateway(shared(redis, tools, LONG, 1)) as running:
            ids = await begun(running, tools, NUMBERS)
            redis.freeze()
            assert set(await tools.call_back(NUMBERS)) == {200}
            await asked_to_stop(running)
            assert running.process.returncode is None
            redis.thaw()
            assert await ended(running) == 0
            assert not running.logged(HELD)
        with redis.connect() as data:
            states = [data.hget(f"toolgate:{{{id_}}}:call", "state") for id_ in ids]
        assert states == [b"%d" % DONE] * len(ids)
        assert tools.ran_once


@pytest.mark.anyio
@pytest.mark.parametrize("workers", [1, 2])
async def test_results_that_cannot_be_written_within_the_grace_are_named_and_the_exit_code_tells(
    tmp_path: Path, workers: int
) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, gateway(shared(redis, tools, SHORT, workers)) as running:
            ids = await begun(running, tools, NUMBERS)
            redis.freeze()
            assert set(await tools.call_back(NUMBERS)) == {200}
            running.process.send_signal(signal.SIGTERM)
            assert await ended(running) == 1
            assert named(running, HELD) == sorted(ids)


@pytest.mark.anyio
async def test_without_redis_calls_without_a_waiting_caller_go_on_within_the_grace() -> None:
    async with yard() as tools, demo_server("rcrt") as server:
        await order(server, "echo", "late", seconds=LATE_S)
        identity = {"owner_id": OWNER_ID, "agent_id": AGENT_ID}
        crumbs = {"protocol": "rcrt", "url": server.url, "toolkit": "Crumbs"} | identity
        async with gateway(alone(tools, LONG, {"crumbs": crumbs})) as running:
            await begun(running, tools, [1])
            await accepted(running, [2], "Crumbs.echo", message="hello")
            await until(lambda: pending(running, {"builds": 1, "crumbs": 1}), "both are waited for")
            await asked_to_stop(running)
            await until(lambda: pending(running, {"builds": 1, "crumbs": 0}), "the breadcrumb is heard of")
            assert await tools.call_back([1]) == [200]
            assert await ended(running) == 0
            assert not running.logged(UNFINISHED)


async def pending(running: GatewayProcess, expected: dict[str, int]) -> bool:
    """Whether so many calls of each backend wait for their outcome."""
    async with plainhttp.async_client() as http:
        metrics = (await http.get(f"{running.admin_url}/metrics")).text
    lines = [f'toolgate_pending_callbacks{{backend="{name}"}} {count}' for name, count in expected.items()]
    return all(f"{line}.0\n" in metrics or f"{line}\n" in metrics for line in lines)


@pytest.mark.anyio
async def test_without_redis_calls_that_outlast_the_grace_are_named() -> None:
    async with yard() as tools, gateway(alone(tools, SHORT)) as running:
        ids = await begun(running, tools, NUMBERS)
        running.process.send_signal(signal.SIGTERM)
        assert await ended(running) == 0
        assert named(running, UNFINISHED) == sorted(ids)
