"""Callers of MCP who listen: on every replica they hear of changes, and they hear when it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import plainhttp
from tests.support.changing import change
from tests.support.listening import SUBSCRIPTION, asking, listening, request
from tests.support.processes import GatewayProcess, Settings, gateway, settings, until
from tests.support.redis_server import running_redis
from tests.support.toolserver import ToolServer, definition, echo, tool_server

pytestmark = pytest.mark.anyio

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": {SUBSCRIPTION: 1}}}
ALL_DAY, SOON = "1d", "1s"
SHARED_KEY = "k" * 43
LIMIT_BYTES = 12 * 1024  # for one listener who hears nothing


@asynccontextmanager
async def lab() -> AsyncIterator[ToolServer]:
    """A tool server that a test gives more tools."""
    async with tool_server({"Lab.Echo": echo}) as server:
        server.definitions = list(server.definitions)
        yield server


def backends(server: ToolServer, refresh: str) -> dict[str, Settings]:
    return {"lab": {"protocol": "otc", "url": server.url, "discovery": {"refresh": refresh}}}


def configured(server: ToolServer, refresh: str = ALL_DAY, **more: Any) -> Settings:
    return settings(backends(server, refresh), **more)


def extend(server: ToolServer, tool: str) -> None:
    server.definitions = [*server.definitions, definition(tool)]


async def listeners(running: GatewayProcess) -> float:
    """How many it says that there are."""
    async with plainhttp.async_client() as http:
        shown = (await http.get(f"{running.admin_url}/metrics")).text.splitlines()
    return float(next(line.split()[1] for line in shown if line.startswith("toolgate_listeners ")))


async def capabilities(running: GatewayProcess) -> Any:
    async with asking(running.url, request("server/discover", {})) as answer:
        return (await answer.body())["result"]["capabilities"]


async def test_mcp_24_a_change_reaches_listeners_and_the_end_is_a_response() -> None:
    async with lab() as server, gateway(configured(server, SOON)) as running:
        assert await capabilities(running) == {"tools": {"listChanged": True}}
        async with listening(running.url) as hears, listening(running.url, {}, id_="d") as deaf:
            fields = {name: hears.headers.get(name) for name in ("content-type", "cache-control", "x-accel-buffering")}
            expected = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
            assert fields == expected
            extend(server, "Lab.Second")
            assert await hears.message() == CHANGED
            running.process.send_signal(signal.SIGTERM)
            for stream, id_ in ((hears, 1), (deaf, "d")):
                ended = await stream.message()
                assert (ended["id"], ended["result"]["resultType"]) == (id_, "complete")
                assert ended["result"]["_meta"][SUBSCRIPTION] == id_
                assert await stream.message() is None
        assert await running.process.wait() == 0
        ends = [line for line in running.logged("request") if line["operation"] == "listen"]
        assert [(line["status"], line["outcome"], line["dialect"]) for line in ends] == [(200, "ok", "mcp")] * 2
        assert all(line["bytes_out"] > 0 for line in ends)


async def test_mcp_24_a_replica_that_learns_of_a_change_tells_the_others(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        state = {"url": redis.url, "keys": [SHARED_KEY]}
        async with (
            lab() as server,
            gateway(configured(server, SOON, state=state)) as asks,
            gateway(configured(server, ALL_DAY, state=state)) as waits,
            listening(asks.url) as first,
            listening(waits.url) as second,
        ):
            extend(server, "Lab.Second")
            assert await first.message() == CHANGED
            assert await second.message() == CHANGED


async def test_mcp_25_listeners_are_limited_and_give_their_places_back() -> None:
    listen = {"max": 10, "max_per_caller": 2}
    async with lab() as server, gateway(configured(server, mcp={"listen": listen})) as running:
        async with listening(running.url), listening(running.url):
            asked = request("subscriptions/listen", {"notifications": {}}, id_="third")
            async with asking(running.url, asked) as answer:
                assert answer.status == 429
                assert int(answer.headers["retry-after"]) > 0
                document = await answer.body()
                assert (document["id"], document["error"]["code"]) == ("third", 429)

        async def nobody() -> bool:
            return await listeners(running) == 0

        await until(nobody, "those who left are forgotten")
        async with listening(running.url):
            assert await listeners(running) == 1


async def test_mcp_25_a_reload_that_turns_listening_off_ends_it_and_any_other_does_not() -> None:
    async with lab() as server, gateway(configured(server)) as running, listening(running.url) as stream:
        await change(running, configured(server, mcp={"instructions": "Be brief."}))
        routes = [{"tools": "*", "backend": "lab", "deny": True}]
        await change(running, configured(server, routes=routes))
        assert await stream.message() == CHANGED  # the list that this caller sees is another one now
        await change(running, configured(server, routes=routes, mcp={"listen": {"max": 0}}))
        assert (await stream.message())["result"]["resultType"] == "complete"
        assert await stream.message() is None
        assert await capabilities(running) == {"tools": {}}
        async with asking(running.url, request("subscriptions/listen", {"notifications": {}})) as answer:
            assert answer.status == 404
            assert (await answer.body())["error"]["code"] == -32601


async def test_a_backend_that_is_taken_out_is_closed_although_callers_listen() -> None:
    async with lab() as server, lab() as other, gateway(configured(server)) as running, listening(running.url):
        await change(running, configured(other))
        closed = "a backend that was taken out of the configuration is closed"
        await until(lambda: bool(running.logged(closed)), closed)


@pytest.mark.parametrize("crowd", [300, pytest.param(1000, marks=pytest.mark.soak)])
async def test_mcp_25_a_listener_who_hears_nothing_costs_little_memory(crowd: int) -> None:
    listen = {"max": crowd + 10, "max_per_caller": crowd + 10}
    async with (
        lab() as server,
        gateway(configured(server, mcp={"listen": listen})) as running,
        AsyncExitStack() as stack,
    ):
        for _ in range(10):
            await stack.enter_async_context(listening(running.url))
        before = running.memory_bytes()
        for number in range(crowd):
            await stack.enter_async_context(listening(running.url, id_=number))
        assert (running.memory_bytes() - before) / crowd <= LIMIT_BYTES


@pytest.mark.soak
async def test_mcp_20_a_listener_who_hears_nothing_gets_a_comment_every_15_s() -> None:
    async with lab() as server, gateway(configured(server)) as running, listening(running.url) as stream:
        async with asyncio.timeout(60):
            assert [await stream.piece(), await stream.piece()] == [b":\n\n", b":\n\n"]
