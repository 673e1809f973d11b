"""SIGTERM while calls come in: each is answered whole, or certainly never reached a tool server."""

from __future__ import annotations

import asyncio
import signal
from functools import partial

import pytest

from tests import plainhttp
from tests.support.calling import Load, call, call_once, caller, value
from tests.support.processes import STOP_S, gateway, settings, until
from tests.support.toolserver import Exchange, echo, tool_server

CALLERS = 20
ENOUGH = 200  # calls answered before the signal: every caller is well under way


@pytest.mark.anyio
@pytest.mark.parametrize("connections", ["kept alive", "one for each call"])
async def test_no_answer_is_lost_when_the_gateway_is_stopped_under_load(connections: str) -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    async with tool_server({"Lab.Echo": echo, "Lab.Slow": slow}) as lab:
        async with gateway(settings({"lab": {"protocol": "otc", "url": lab.url}})) as running:
            async with caller(running.url) as http:
                load = Load(partial(call, http) if connections == "kept alive" else partial(call_once, running.url))
                slowly = asyncio.create_task(call(http, "Lab.Slow", {"n": -1}))
                callers = [asyncio.create_task(load.keep_calling()) for _ in range(CALLERS)]
                await until(lambda: len(load.answered) > ENOUGH and bool(lab.calls("Lab.Slow")), "load")
                running.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(STOP_S):
                    await asyncio.gather(*callers)
                assert running.process.returncode is None, "it left while a call was running"
                released.set()
                assert value(await slowly) == {"n": -1}
            async with asyncio.timeout(STOP_S):
                assert await running.process.wait() == 0
            assert not [line for line in running.log_text().splitlines() if '"level":"error"' in line]

        ran = [request.call["input"]["n"] for request in lab.calls("Lab.Echo")]
        assert set(ran).isdisjoint(load.unanswered), "a call that ran got no answer"
        assert sorted(ran) == sorted(load.answered), "each answer comes from one run"
        assert len(load.unanswered) == CALLERS


@pytest.mark.anyio
async def test_a_call_without_a_waiting_caller_ends_before_the_gateway_does() -> None:
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await echo(exchange)

    async with (
        tool_server({"Lab.Slow": slow}) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url}})) as running,
        plainhttp.async_client() as http,
    ):
        accepted = await http.post(
            f"{running.url}/oxp/tools/call", json={"tool_id": "Lab.Slow"}, headers={"prefer": "respond-async"}
        )
        assert accepted.status_code == 202
        await until(lambda: bool(lab.calls("Lab.Slow")), "it runs")
        running.process.send_signal(signal.SIGTERM)

        async def is_draining() -> bool:
            return (await http.get(f"{running.admin_url}/health")).status_code == 503

        await until(is_draining, "it is draining")
        released.set()
        async with asyncio.timeout(STOP_S):
            assert await running.process.wait() == 0
        assert not running.logged("calls that are still running are lost")
