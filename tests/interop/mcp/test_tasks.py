"""The inspector, a client that takes tasks of MCP, in front of a call that lasts."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.interop.mcp.programs import node
from tests.support.processes import gateway, settings
from tests.support.terminal import finished
from tests.support.toolserver import Exchange, tool_server

INSPECTOR = ("--transport", "http", "--protocol-era", "modern", "--method", "tools/call", "--format", "json")


async def compute(exchange: Exchange) -> None:
    await asyncio.sleep(2)
    await exchange.finish(value="computed")


@pytest.mark.anyio
async def test_mcp_43_the_inspector_asks_for_the_result_of_a_task() -> None:
    async with tool_server({"Slow.compute": compute}) as tools:
        config = settings({"slow": {"protocol": "otc", "url": tools.url}}, state={}, mcp={"task_after": "100ms"})
        async with gateway(config) as running:
            words = node("mcp-inspector", "--cli", f"{running.url}/mcp", *INSPECTOR, "--tool-name", "Slow_compute")
            done = await asyncio.to_thread(finished, words)
            assert done.returncode == 0, done.stdout + done.stderr
            assert json.loads(done.stdout)["result"]["content"] == [{"type": "text", "text": "computed"}]
            (call,) = [line for line in running.logged("request") if line["operation"] == "call"]
            assert call["outcome"] == "accepted"
