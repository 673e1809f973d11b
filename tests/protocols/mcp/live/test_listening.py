"""Callers of MCP who listen: on every replica they hear of changes, and they hear when it ends."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.settings.load import read
from tests.live.server.harness import serving
from tests.support.listening import SUBSCRIPTION, asking, listening, request
from tests.support.processes import Settings, gateway, settings, until
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
        yield server


def configured(server: ToolServer, refresh: str = ALL_DAY, **more: Any) -> Settings:
    return settings({"lab": {"protocol": "otc", "url": server.url, "discovery": {"refresh": refresh}}}, **more)


def extend(server: ToolServer, tool: str) -> None:
    server.definitions = [*server.definitions, definition(tool)]


@asynccontextmanager
async def replica(config: Settings) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway in this process on a socket, and its URL."""
    gateway = Gateway(read(json.dumps(config), env={}))
    await gateway.start()
    try:
        await gateway.catalogue.wait_ready()
        async with serving(gateway.public) as addresses:
            host, port = addresses.public
            yield gateway, f"http://{host}:{port}"
    finally:
        await gateway.aclose()


def shown(gateway: Gateway, name: str, *labels: str) -> float:
    """The value of a metric, 0 if there is none."""
    found = [one.values[0] for one in gateway.metrics.series() if (one.family.name, one.labels) == (name, labels)]
    return sum(found)


async def capabilities(url: str) -> Any:
    async with asking(url, request("server/discover", {})) as answer:
        return (await answer.body())["result"]["capabilities"]


async def test_mcp_24_a_change_reaches_listeners_and_the_end_is_a_response() -> None:
    async with lab() as server, replica(configured(server, SOON)) as (gateway, url):
        assert await capabilities(url) == {"tools": {"listChanged": True}}
        async with listening(url) as hears, listening(url, {}, id_="d") as deaf:
            fields = {name: hears.headers.get(name) for name in ("content-type", "cache-control", "x-accel-buffering")}
            expected = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
            assert fields == expected
            assert shown(gateway, "toolgate_listeners") == 2
            extend(server, "Lab.Second")
            assert await hears.message() == CHANGED
            gateway.drain()
            for stream, id_ in ((hears, 1), (deaf, "d")):
                ended = await stream.message()
                assert (ended["id"], ended["result"]["resultType"]) == (id_, "complete")
                assert ended["result"]["_meta"][SUBSCRIPTION] == id_
                assert await stream.message() is None
        assert shown(gateway, "toolgate_requests_total", "mcp", "listen", "200") == 2
        assert shown(gateway, "toolgate_listeners") == 0


async def test_mcp_24_a_replica_that_learns_of_a_change_tells_the_others(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        state = {"url": redis.url, "keys": [SHARED_KEY]}
        async with (
            lab() as server,
            replica(configured(server, SOON, state=state)) as (_, asks),
            replica(configured(server, ALL_DAY, state=state)) as (_, waits),
            listening(asks) as first,
            listening(waits) as second,
        ):
            extend(server, "Lab.Second")
            assert await first.message() == CHANGED
            assert await second.message() == CHANGED


async def test_mcp_25_listeners_are_limited_and_give_their_places_back() -> None:
    listen = {"max": 10, "max_per_caller": 2}
    async with lab() as server, replica(configured(server, mcp={"listen": listen})) as (gateway, url):
        async with listening(url), listening(url):
            asked = request("subscriptions/listen", {"notifications": {}}, id_="third")
            async with asking(url, asked) as answer:
                assert answer.status == 429
                assert int(answer.headers["retry-after"]) > 0
                document = await answer.body()
                assert (document["id"], document["error"]["code"]) == ("third", 429)
        await until(lambda: shown(gateway, "toolgate_listeners") == 0, "those who left are forgotten")
        async with listening(url):
            assert shown(gateway, "toolgate_listeners") == 1


async def test_mcp_25_a_reload_that_turns_listening_off_ends_it_and_any_other_does_not() -> None:
    async with lab() as server, replica(configured(server)) as (gateway, url), listening(url) as stream:
        before = weakref.ref(gateway.catalogue)
        routes = [{"tools": "*", "backend": "lab", "deny": True}]
        await gateway.apply(read(json.dumps(configured(server, routes=routes)), env={}))
        assert await stream.message() == CHANGED  # the list that this caller sees is another one now
        gc.collect()
        assert before() is None  # a stream of days must not hold the tools of all reloads
        await gateway.apply(read(json.dumps(configured(server, routes=routes, mcp={"listen": {"max": 0}})), env={}))
        assert (await stream.message())["result"]["resultType"] == "complete"
        assert await stream.message() is None
        assert await capabilities(url) == {"tools": {}}
        async with asking(url, request("subscriptions/listen", {"notifications": {}})) as answer:
            assert answer.status == 404
            assert (await answer.body())["error"]["code"] == -32601


async def test_a_backend_that_is_taken_out_is_closed_although_callers_listen() -> None:
    async with lab() as server, lab() as other, replica(configured(server)) as (gateway, url), listening(url):
        new = settings({"other": {"protocol": "otc", "url": other.url}})
        await gateway.apply(read(json.dumps(new), env={}))
        await until(lambda: "lab" not in gateway.backends, "the backend that is gone is closed")


async def test_mcp_25_a_listener_who_hears_nothing_costs_little_memory() -> None:
    crowd = 300
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
