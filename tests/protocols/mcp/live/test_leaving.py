"""Callers of MCP who leave: a modern one cancels its call by that, a legacy one does not (2026-07-28, 2025-11-25)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.protocols.mcp.live.callers import Session, begin, line, modern_call
from tests.protocols.mcp.live.desk import Desk
from tests.protocols.mcp.live.test_listening import replica
from tests.protocols.mcp.server_double import serving
from tests.support.listening import META, PREFIX
from tests.support.processes import settings, until
from tests.support.toolserver import tool_server
from tests.support.yard import Yard, yard

pytestmark = pytest.mark.anyio

KINDS = ["otc", "callback", "mcp modern", "mcp legacy"]
STREAMING = {"stream_after": "100ms"}
CAPABILITIES, TASKS = f"{PREFIX}clientCapabilities", f"{PREFIX}tasks"
MINE = {"toolgate/call_id": "mine"}


@dataclass
class Tool:
    """A tool that works until it is let go: how often it was begun, and how often its server was told to stop."""

    name: str
    settings: dict[str, Any]
    begun: Callable[[], int]
    stopped: Callable[[], int]
    finish: Callable[[str], Awaitable[None]]  # takes the URL of the gateway


@asynccontextmanager
async def tool(kind: str) -> AsyncIterator[Tool]:
    """Runs the server of a tool of some protocol."""
    desk, protocol = Desk(), kind.partition(" ")[0]
    async with AsyncExitStack() as stack:
        if kind == "otc":
            server = await stack.enter_async_context(tool_server({"Desk.work": desk.exchange}))
            yield Tool("Desk_work", _at(protocol, server.url), lambda: desk.begun, lambda: desk.stopped, desk.finish)
        elif kind == "callback":
            tools = await stack.enter_async_context(yard())
            began, stopped = tools.runs.total, lambda: len(tools.cancelled)
            yield Tool("Yard_work", _at(protocol, tools.url), began, stopped, partial(_call_back, tools))
        else:
            double = await stack.enter_async_context(serving(kind.partition(" ")[2], desk.talk))
            told = {"mcp modern": lambda: desk.stopped, "mcp legacy": lambda: len(double.of("notifications/cancelled"))}
            far = _at(protocol, double.url) | {"toolkit": "Far"}
            yield Tool("Far_find_it", far, lambda: desk.begun, told[kind], desk.finish)


async def _call_back(tools: Yard, url: str) -> None:
    """Brings the result to a gateway that could not say where it would listen."""
    asked = tools.taken[1]
    asked["callback_url"] = url + urlsplit(asked["callback_url"]).path
    assert await tools.call_back([1]) == [200]


def _at(protocol: str, url: str) -> dict[str, Any]:
    return {"protocol": protocol, "url": url, "timeout": "60s"}


@pytest.mark.parametrize("kind", KINDS)
async def test_mcp_39_a_modern_call_without_an_id_ends_with_its_caller(kind: str) -> None:
    async with tool(kind) as it, replica(settings({"far": it.settings}, mcp=STREAMING)) as (_, url):
        async with line(url, modern_call(it.name, {"number": 1})) as on:
            await until(lambda: it.begun() == 1, "the tool is at work")
            on.leave()
            await until(lambda: it.stopped() == 1, "its server hears that nobody waits")
        async with line(url, modern_call(it.name, {"number": 1})) as on:
            await on.begun()
            assert on.headers["content-type"] == "text/event-stream"
            on.leave()
            await until(lambda: it.stopped() == 2, "the same in the middle of a stream")
        assert it.begun() == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_mcp_39_a_call_with_an_id_of_its_own_goes_on_and_is_there_to_be_joined(kind: str) -> None:
    async with tool(kind) as it, replica(settings({"far": it.settings}, mcp=STREAMING)) as (_, url):
        async with line(url, modern_call(it.name, {"number": 1}, **MINE)) as on:
            await on.begun()
        async with line(url, modern_call(it.name, {"number": 1}, **MINE)) as on:
            await on.begun()
            await it.finish(url)
            assert (await on.result())["structuredContent"] == {"number": 1}
        assert (it.begun(), it.stopped()) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_mcp_40_a_legacy_call_goes_on_without_its_caller(kind: str) -> None:
    async with tool(kind) as it, replica(settings({"far": it.settings}, mcp=STREAMING)) as (_, url):
        session = await begin(url)
        async with line(url, session.call(7, it.name, {"number": 1})) as on:
            await on.begun()
        async with line(url, session.call(7, it.name, {"number": 1})) as on:  # as a proxy repeats it (check 37)
            await on.begun()
            await it.finish(url)
            assert (await on.result())["structuredContent"] == {"number": 1}
        assert (it.begun(), it.stopped()) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_mcp_40_a_legacy_call_without_a_session_goes_on_too(kind: str) -> None:
    async with tool(kind) as it, replica(settings({"far": it.settings}, mcp=STREAMING)) as (_, url):
        stray = Session("unknown")
        async with line(url, stray.call(1, it.name, {"number": 1})) as on:
            await on.begun()
        async with line(url, stray.call(2, it.name, {"number": 1})) as on:
            await on.begun()
            await it.finish(url)
            assert (await on.result())["structuredContent"] == {"number": 1}
        assert (it.begun(), it.stopped()) == (2, 0)


async def test_mcp_39_a_call_for_whose_record_there_is_no_room_ends_with_its_caller_too() -> None:
    sections = {"mcp": STREAMING | {"task_after": "30s"}, "state": {"max_pending_per_caller": 1}}
    takes_tasks = {**META, CAPABILITIES: {"extensions": {TASKS: {}}}}
    async with (
        tool("otc") as it,
        replica(settings({"far": it.settings}, **sections)) as (_, url),
        line(url, modern_call(it.name, {"number": 1}, **MINE)) as on,
    ):
        await on.begun()
        async with line(url, modern_call(it.name, {"number": 2}, **takes_tasks)):
            await until(lambda: it.begun() == 2, "it runs all the same")
        await until(lambda: it.stopped() == 1, "its server hears that nobody waits")
        await it.finish(url)
        assert (await on.result())["structuredContent"] == {"number": 1}
