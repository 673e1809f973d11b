"""The memory of a gateway that is attacked, that fails and that changes is flat: nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import httpx
import pytest

from gateway.net.server.run import raise_open_files
from tests.support.authority import Authority
from tests.support.calling import call, caller, connect, encoded_call, value
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, definition, echo, tool_server

pytestmark = [pytest.mark.anyio, pytest.mark.soak, pytest.mark.alone]

MIB = 1024 * 1024
ROUNDS = 6  # the first two fill what stays: caches, the heap's free memory
MORE_BYTES = 24 * MIB  # than after the second round; 16 MiB may lie free in the heap before they are given back
SETTLE_S = 2.5  # two looks at the heap
FILES = 4000
CUT_OFF = "callers who did not read their answers were disconnected to make room"
BODIES = 256 * MIB  # the default of max_memory_bodies
RELOADED = "the configuration was read again"


async def assert_flat(
    running: GatewayProcess, one_round: Callable[[], Awaitable[None]], more_bytes: int = MORE_BYTES
) -> None:
    """Repeats a round; memory after the last one is as after the second."""
    after = []
    for _ in range(ROUNDS):
        await one_round()
        await asyncio.sleep(SETTLE_S)
        after.append(running.memory_bytes())
    assert max(after[2:]) - after[1] < more_bytes, [each // MIB for each in after]


async def test_silent_connections_over_tls_leave_nothing_behind_and_others_are_served(tmp_path: Path) -> None:
    if raise_open_files() < FILES:
        pytest.skip("too few files may be open")
    authority = Authority(tmp_path)
    files, client = authority.serving(), authority.trusting()
    server = {"port": 0, "admin": {"port": 0}, "tls": {"cert": files.cert, "key": files.key}}
    async with (
        tool_server({"Lab.Echo": echo}) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url}}, server=server), ready=False) as running,
    ):
        where = httpx.URL(running.url)
        url, address = f"https://{where.host}:{where.port}", (where.host, where.port or 443)
        async with caller(url, verify=client) as http:

            async def answers() -> bool:
                return (await http.get("/health")).status_code == httpx.codes.OK

            await until(answers, "the gateway is ready")
            before = running.memory_bytes()

        def crowd() -> list[socket.socket]:
            return [socket.create_connection(address) for _ in range(3000)]

        async def one_round() -> None:
            silent = await asyncio.to_thread(crowd)
            assert running.memory_bytes() - before < 100 * MIB  # 3,000 would take 150
            async with caller(url, verify=client) as http:
                assert value(await call(http, "Lab.Echo", {"n": 1})) == {"n": 1}
            for each in silent:
                each.close()

        await assert_flat(running, one_round)


async def test_calls_that_time_out_beside_a_list_that_changes_leave_nothing_behind() -> None:
    """Whatever is garbage when a list changes is freed, and arguments are freed with their call."""
    changes = count()

    async def never(exchange: Exchange) -> None:
        await exchange.until_closed()

    async def listing(exchange: Exchange) -> None:
        tools = [definition("Lab.Never"), definition("Lab.New", description=f"The change number {next(changes)}.")]
        await exchange.reply({"$schema": "otc://1.0", "tools": tools})

    async with tool_server({"Lab.Never": never}, listing=listing) as lab:
        backend = {"protocol": "otc", "url": lab.url, "breaker": {"failures": 100_000}, "discovery": {"refresh": "1s"}}
        routes = [{"tools": "*", "backend": "lab", "timeout": "200ms"}]
        async with gateway(settings({"lab": backend}, routes=routes)) as running, caller(running.url) as http:

            async def one_round() -> None:
                before = len(lab.requests)
                for _ in range(12):
                    arguments = {"text": "x" * (MIB // 2)}
                    calls = [call(http, "Lab.Never", arguments) for _ in range(8)]
                    assert "timeout" in {each.headers["toolgate-code"] for each in await asyncio.gather(*calls)}
                assert any(request.method == "GET" for request in lab.requests[before:])
                lab.requests.clear()

            await assert_flat(running, one_round)


async def test_reloads_leave_nothing_behind() -> None:
    async with (
        tool_server({"Lab.Echo": echo}) as lab,
        gateway(settings({"lab": {"protocol": "otc", "url": lab.url}})) as running,
    ):

        async def reload() -> None:
            before = len(running.logged(RELOADED))
            running.process.send_signal(signal.SIGHUP)
            await until(lambda: len(running.logged(RELOADED)) > before, "it has read its file again")

        async def one_round() -> None:
            for _ in range(60):
                await reload()

        await assert_flat(running, one_round, more_bytes=6 * MIB)


async def test_results_that_nobody_reads_take_what_is_counted_for_them() -> None:
    size = 7 * MIB

    async def big(exchange: Exchange) -> None:
        await exchange.finish(value={"text": "x" * size})

    async with tool_server({"Lab.Big": big}) as lab:
        backend = {"protocol": "otc", "url": lab.url, "max_concurrency": 100}
        async with gateway(settings({"lab": backend})) as running, caller(running.url) as http:
            assert value(await call(http, "Lab.Big")) == {"text": "x" * size}

            async def one_round() -> None:
                before = running.memory_bytes()
                writers = [(await connect(running.url))[1] for _ in range(45)]
                for writer in writers:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                    writer.write(encoded_call("Lab.Big"))
                cut_off = len(running.logged(CUT_OFF))
                await until(lambda: len(running.logged(CUT_OFF)) > cut_off, "there is no more room")
                # Half as much again, because what has begun to arrive when all is full may still come whole.
                assert running.memory_bytes() - before < BODIES * 15 // 8
                for writer in writers:
                    writer.transport.abort()

            await assert_flat(running, one_round)
