"""Tasks of MCP as others ask for them: the conformance suite's scenarios, and the inspector, a client that takes them.

The suite leaves scenarios of extensions out of its requirements. Its tool `greet` has no toolkit, so no tool behind a
gateway has that name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.interop.mcp.programs import HERE, conformance, node
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.terminal import finished
from tests.support.toolserver import Exchange, tool_server

SCENARIOS = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
]
INSPECTOR = ("--transport", "http", "--protocol-era", "modern", "--method", "tools/call", "--format", "json")


async def compute(exchange: Exchange) -> None:
    await asyncio.sleep(max(0.5, exchange.request.call["input"].get("seconds", 0)))  # enough to become a task
    await exchange.finish(value="computed")


async def fail(exchange: Exchange) -> None:
    await asyncio.sleep(1)
    await exchange.finish(error={"message": "out of paper", "can_retry": False})


TOOLS = {"slow.compute": compute, "failing.job": fail, "protocol.error_job": fail, "confirm.delete": compute}


@pytest.fixture(scope="module")
async def running(anyio_backend: object) -> AsyncIterator[GatewayProcess]:
    async with tool_server(TOOLS) as tools:
        backend = {"protocol": "otc", "url": tools.url, "timeout": "90s"}
        config = settings({"tools": backend}, state={}, mcp={"task_after": "100ms"})
        async with gateway(config) as it:
            yield it


@pytest.mark.alone
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_mcp_43_the_suite_finds_tasks_as_it_wants_them(running: GatewayProcess, scenario: str) -> None:
    url = f"{running.url.replace('127.0.0.1', 'localhost')}/mcp"
    words = ("--url", url, "--scenario", scenario, "--force", "--spec-version", "2026-07-28")
    done = await asyncio.to_thread(conformance, "server", *words, "--expected-failures", str(HERE / "tasks.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


async def test_mcp_43_the_inspector_asks_for_the_result_of_a_task(running: GatewayProcess) -> None:
    tool = ("--tool-name", "slow_compute", "--tool-args-json", '{"seconds": 2}')
    words = node("mcp-inspector", "--cli", f"{running.url}/mcp", *INSPECTOR, *tool)
    done = await asyncio.to_thread(finished, words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["result"]["content"] == [{"type": "text", "text": "computed"}]
    calls = [line for line in running.logged("request") if line["operation"] == "call"]
    assert calls[-1]["outcome"] == "accepted"
