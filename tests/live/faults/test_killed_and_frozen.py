"""Tool servers that die or stand still in the middle of calls, as processes do."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.calling import assert_unavailable, call, caller, failure, value
from tests.support.processes import DEADLINE_S, demo_server, gateway, settings, until
from tests.support.toolserver import echo, tool_server

TIMEOUT_S = 1.0
SUM = {"a": 2, "b": 3}


@pytest.mark.anyio
async def test_a_killed_tool_server_costs_the_calls_it_was_running_and_none_of_them_runs_again() -> None:
    async with (
        demo_server("otc") as server,
        gateway(settings({"office": {"protocol": "otc", "url": server.url}})) as running,
        caller(running.url) as http,
    ):

        async def all_run() -> bool:
            return (await server.executions())["Clock.Sleep"] == 3

        sleeping = [asyncio.create_task(call(http, "Clock.Sleep", {"seconds": 30})) for _ in range(3)]
        await until(all_run, "three calls run")
        await server.kill()
        for answer in await asyncio.gather(*sleeping):
            assert failure(answer)["message"] == "The connection to the tool server broke; the tool may have run."
        assert_unavailable(await call(http, "Calculator.Add", SUM))

        async with demo_server("otc", server.port) as back:
            assert value(await call(http, "Calculator.Add", SUM)) == 5
            assert (await back.executions())["Clock.Sleep"] == 0


@pytest.mark.anyio
async def test_a_frozen_tool_server_costs_its_own_calls_their_time_and_others_nothing() -> None:
    async with demo_server("otc") as frozen, tool_server({"Lab.Echo": echo}) as lab:
        backends = {
            "frozen": {"protocol": "otc", "url": frozen.url, "timeout": f"{TIMEOUT_S * 1000:g}ms"},
            "lab": {"protocol": "otc", "url": lab.url},
        }
        async with gateway(settings(backends)) as running, caller(running.url) as http:
            assert value(await call(http, "Calculator.Add", SUM)) == 5  # leaves a connection open
            frozen.freeze()
            started = time.monotonic()
            waiting = [asyncio.create_task(call(http, "Calculator.Add", SUM)) for _ in range(3)]
            # As long as somebody waits for the frozen one, everybody else gets answers.
            answered = 0
            while not all(task.done() for task in waiting):
                assert value(await call(http, "Lab.Echo", {"n": answered})) == {"n": answered}
                answered += 1
            assert answered > 3
            assert TIMEOUT_S <= time.monotonic() - started < TIMEOUT_S + DEADLINE_S
            for task in waiting:
                assert f"within {TIMEOUT_S:g} seconds; it may still be running" in failure(task.result())["message"]
            frozen.thaw()
            assert value(await call(http, "Calculator.Add", SUM)) == 5
