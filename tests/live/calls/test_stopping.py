"""SIGTERM while callers wait for tools that call back: they get their answers, and new callers are refused."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.protocols.rap.backend import ACK_TIMEOUT_S
from tests import plainhttp
from tests.live.calls.site import KEY, callback_settings
from tests.support.calling import call, caller, value
from tests.support.ports import lasting_port
from tests.support.processes import STOP_S, GatewayProcess, gateway, until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, Yard, yard

NUMBERS = range(8)
BEYOND = {"number": 8}


async def _asked_to_stop(running: GatewayProcess) -> None:
    running.process.send_signal(signal.SIGTERM)
    await until(lambda: _turned_away(running), "new callers are turned away")


async def _turned_away(running: GatewayProcess) -> bool:
    try:
        async with plainhttp.async_client() as http:
            answer = await http.get(f"{running.url}/tools")
    except httpx.TransportError:  # it came in just before, and was idle when idle connections were closed
        return False
    if answer.status_code == httpx.codes.OK:
        return False
    refused = {"message": "The gateway is stopping.", "code": "gateway_unavailable"}
    assert (answer.status_code, answer.json()) == (503, refused)
    assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
    noted = {(line["status"], line.get("reason"), line["request_id"]) for line in running.logged("request")}
    return (503, "draining", answer.headers["x-request-id"]) in noted


async def _answered_while_stopping(running: GatewayProcess, tools: Yard) -> None:
    async with caller(running.url) as http:
        waiting = [
            asyncio.create_task(
                call(http, WORK, {"number": number}, **({"call_id": f"{number}"} if number % 2 else {}))
            )
            for number in NUMBERS
        ]
        await until(lambda: len(tools.taken) == len(NUMBERS), "every call runs")
        await _asked_to_stop(running)
        async with plainhttp.async_client() as latecomer:
            refused = await latecomer.post(f"{running.url}/oxp/tools/call", json={"tool_id": WORK, "input": BEYOND})
        assert refused.status_code == 503
        assert set(await tools.call_back(NUMBERS)) == {200}
        results: list[Any] = [value(answer) for answer in await asyncio.gather(*waiting)]
        assert results == [{"number": number} for number in NUMBERS]
    async with asyncio.timeout(STOP_S):
        assert await running.process.wait() == 0
    assert tools.ran_once
    assert BEYOND["number"] not in tools.runs


@pytest.mark.anyio
async def test_who_waits_for_a_callback_is_answered() -> None:
    async with yard() as tools, gateway(callback_settings(tools.url, {"timeout": "30s"})) as running:
        await _answered_while_stopping(running, tools)


@pytest.mark.anyio
async def test_who_waits_for_a_callback_at_a_worker_is_answered(tmp_path: Path) -> None:
    server = {"port": lasting_port(), "workers": 2, "admin": {"port": 0}}
    with running_redis(tmp_path) as redis:
        state = {"url": redis.url, "keys": [KEY]}
        async with yard() as tools:
            config = callback_settings(tools.url, {"timeout": "30s"}, server=server, state=state)
            async with gateway(config) as running:
                await _answered_while_stopping(running, tools)


@pytest.mark.anyio
async def test_a_caller_who_is_let_in_late_and_says_nothing_delays_no_end() -> None:
    async with yard() as tools, gateway(callback_settings(tools.url, {"timeout": "30s"})) as running:
        async with caller(running.url) as http:
            waiting = asyncio.create_task(call(http, WORK, {"number": 1}))
            await until(lambda: 1 in tools.taken, "the call runs")
            await _asked_to_stop(running)
            host, _, port = running.url.removeprefix("http://").partition(":")
            silent, writer = await asyncio.open_connection(host, int(port))
            assert await tools.call_back([1]) == [200]
            assert value(await waiting) == {"number": 1}
        try:
            async with asyncio.timeout(STOP_S):
                assert await running.process.wait() == 0
                assert await silent.read() == b""
        finally:
            writer.close()


@pytest.mark.anyio
async def test_a_needless_acknowledgement_does_not_delay_the_end() -> None:
    async with yard() as tools, gateway(callback_settings(tools.url, {"timeout": "30s"})) as running:
        tools.acknowledges.clear()
        async with caller(running.url) as http:
            waiting = asyncio.create_task(call(http, WORK, {"number": 1}))
            await until(lambda: 1 in tools.taken, "the call runs")
            assert await tools.call_back([1]) == [200]
            assert value(await waiting) == {"number": 1}
        running.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(ACK_TIMEOUT_S / 2):
            assert await running.process.wait() == 0


@pytest.mark.anyio
async def test_calls_that_are_cut_off_at_the_end_of_the_grace_are_not_noted_as_left_by_their_callers() -> None:
    server = {"port": 0, "admin": {"port": 0}, "shutdown_grace": "200ms"}
    async with yard() as tools, gateway(callback_settings(tools.url, {"timeout": "30s"}, server=server)) as running:
        async with caller(running.url) as staying, caller(running.url) as leaving:
            left = asyncio.create_task(call(leaving, WORK, {"number": 1}, call_id="1"))
            await until(lambda: 1 in tools.taken, "the first call runs")
            left.cancel()
            await asyncio.wait([left])
            waiting = [
                asyncio.create_task(call(staying, WORK, {"number": number}, **more))
                for number, more in {2: {"call_id": "2"}, 3: dict[str, str]()}.items()
            ]
            await until(lambda: len(tools.taken) == 3, "every call runs")
            running.process.send_signal(signal.SIGTERM)
            ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(end, httpx.TransportError) for end in ends)
        assert await running.process.wait() == 0
        noted = [(line["status"], line["outcome"]) for line in running.logged("request") if line["operation"] == "call"]
    assert sorted(noted) == [(0, "unknown"), (0, "unknown"), (499, "unknown")]
