"""Callers who hold what they send or what they are sent: it has a limit, and the memory is given back."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from tests import plainhttp
from tests.protocols.mcp.server_double import EVENTS, Talk, chunk, serving
from tests.support.calling import call, caller, value
from tests.support.processes import DEADLINE_S, GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, echo, tool_server

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LIMIT = 64 * MIB  # the least that can be configured
CROWD = 14
RESULT_BYTES = 7 * MIB  # more than sockets hold
CALL = json.dumps({"request": {"tool_id": "Lab.Big", "input": {}}}).encode()
HEAD = "POST /otc/tools/call HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


async def held(running: GatewayProcess) -> float:
    """What it says that bodies and answers hold."""
    async with plainhttp.async_client() as http:
        shown = (await http.get(f"{running.admin_url}/metrics")).text.splitlines()
    return float(next(line.split()[1] for line in shown if line.startswith("toolgate_body_memory_bytes ")))


async def nothing_held(running: GatewayProcess) -> bool:
    return await held(running) == 0


async def test_callers_who_do_not_read_and_half_sent_bodies_hold_no_more_than_the_limit() -> None:
    async def big(exchange: Exchange) -> None:
        await exchange.finish(value={"text": "x" * RESULT_BYTES})

    server = {"port": 0, "admin": {"port": 0}, "max_memory_bodies": "64MiB"}
    async with (
        tool_server({"Lab.Big": big, "Lab.Echo": echo}) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url}}, server=server)) as running,
        caller(running.url) as http,
    ):
        assert value(await call(http, "Lab.Big")) == {"text": "x" * RESULT_BYTES}
        before, host, port = running.memory_bytes(), *running.url.removeprefix("http://").split(":")
        async with AsyncExitStack() as stack:

            async def say(words: bytes) -> asyncio.StreamReader:
                reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
                stack.callback(writer.close)
                writer.write(words)
                return reader

            for _ in range(CROWD):
                await say(HEAD.format(len(CALL)).encode() + CALL)
            cut_off = "callers who did not read their answers were disconnected to make room"
            await until(lambda: bool(running.logged(cut_off)), "room is made")
            assert value(await call(http, "Lab.Echo", {"n": 1})) == {"n": 1}
            halves = [await say(HEAD.format(MIB).encode() + b"[" * (MIB - 1)) for _ in range(CROWD)]
            answered = [asyncio.create_task(reader.readline()) for reader in halves]
            done, others = await asyncio.wait(answered, timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                other.cancel()
            assert {task.result().split()[1] for task in done} == {b"429"}
            assert await held(running) < LIMIT * 3 // 2  # what waits to be read when all is full may still come whole
        await until(lambda: running.memory_bytes() - before < LIMIT // 2, "the memory is given back")
        await until(lambda: nothing_held(running), "all of it is forgotten")


async def test_events_that_never_end_are_counted_and_gone_with_their_calls() -> None:
    half = b"data: " + b"x" * RESULT_BYTES

    async def begin(talk: Talk) -> None:
        await talk.send(EVENTS + chunk(half))
        await talk.until_closed()

    server = {"port": 0, "admin": {"port": 0}, "max_memory_bodies": "64MiB"}
    async with serving("legacy", begin) as double:
        backends = {"lab": {"protocol": "mcp", "url": double.url, "toolkit": "Lab", "era": "legacy"}}
        routes = [{"tools": "*", "backend": "lab", "timeout": "8s"}]
        async with (
            gateway(settings(backends, server=server) | {"routes": routes}) as running,
            caller(running.url) as http,
        ):
            before = running.memory_bytes()
            calls = [asyncio.create_task(call(http, "Lab.find_it")) for _ in range(CROWD)]
            await until(lambda: full(running), "as much is counted as there is room for")
            counted, taken = await held(running), running.memory_bytes() - before
            assert taken < counted * 5 / 4 + 2 * RESULT_BYTES
            await asyncio.gather(*calls)
            await until(lambda: nothing_held(running), "all of it is forgotten")
            await until(lambda: running.memory_bytes() - before < LIMIT // 4, "the memory is given back")


async def full(running: GatewayProcess) -> bool:
    return await held(running) > LIMIT


async def test_the_arguments_of_a_call_count_until_it_is_over_though_its_request_is_not() -> None:
    size, release = MIB // 2, asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await release.wait()
        await exchange.finish(value={})

    async with (
        tool_server({"Lab.Wait": wait}) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url}})) as running,
        caller(running.url) as http,
    ):
        body = {"request": {"call_id": "a", "tool_id": "Lab.Wait", "input": {"text": "x" * size}}}
        answer = await http.post("/otc/tools/call", json=body, headers={"prefer": "respond-async"})
        assert answer.status_code == 202
        await until(lambda: bool(lab.calls("Lab.Wait")), "it runs")
        assert size <= await held(running) < size * 5 // 4
        release.set()
        await until(lambda: nothing_held(running), "it is over")
