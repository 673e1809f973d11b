"""A gateway in front of a gateway that turns long calls into tasks of MCP: the tool runs once, whoever asks (ours)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.flow.mcp_tasks import TaskCaller
from tests.live.calls.site import callback_settings
from tests.support.calling import call, caller, result
from tests.support.ports import lasting_port
from tests.support.processes import Settings, gateway, settings, until
from tests.support.yard import Yard, yard

SOON: Settings = {"state": {}, "mcp": {"task_after": "100ms"}}
TOOL, NAME = "inner.Yard_work", "inner_Yard_work"


@asynccontextmanager
async def two_gateways() -> AsyncIterator[tuple[Yard, httpx.AsyncClient]]:
    """The tool server behind both, and a caller of the outer one."""
    port = lasting_port()
    server = {"port": port, "admin": {"port": 0}, "callback_url": f"http://127.0.0.1:{port}"}
    async with yard() as tools, gateway(callback_settings(tools.url, server=server, state={})) as inner:
        config = settings({"inner": {"protocol": "mcp", "url": f"{inner.url}/mcp", "timeout": "60s"}}, **SOON)
        async with gateway(config) as outer, caller(outer.url) as http:
            yield tools, http


async def taken(tools: Yard, number: int) -> dict[str, Any]:
    await until(lambda: number in tools.taken, f"the tool server has call {number}")
    return tools.taken[number]


@pytest.mark.anyio
async def test_mcp_71_a_task_of_an_mcp_server_answers_a_call_of_any_dialect_and_ends_with_it() -> None:
    async with two_gateways() as (tools, http):
        calling = asyncio.create_task(call(http, TOOL, {"number": 1}, call_id="one"))
        await taken(tools, 1)
        assert set(await tools.call_back([1])) == {200}
        assert result(await calling)["value"] == {"number": 1}

        tasks = TaskCaller(http)
        made = await tasks.call(NAME, {"number": 2})
        assert made["resultType"] == "task"
        await taken(tools, 2)
        assert set(await tools.call_back([2])) == {200}
        ended = await tasks.ended(made["taskId"])
        assert ended["result"]["structuredContent"] == {"number": 2}

        cancelled = await tasks.call(NAME, {"number": 3})
        invoked = await taken(tools, 3)
        await tasks.result("tasks/cancel", taskId=cancelled["taskId"])
        await until(lambda: tools.cancelled == [invoked["id"]], "the tool server hears of the cancellation")
        assert tools.ran_once
