"""The official conformance suite of MCP on tasks, an extension that no revision requires."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.mcp.programs import HERE, conformance, tool_server
from tests.support import processes
from tests.support.redis_server import running_redis

TOOLS = {"slow": "slow.compute", "failing": "failing.job"}  # published as slow_compute and failing_job
SCENARIOS = (
    "lifecycle",
    "capability-negotiation",
    "wire-fields",
    "request-state-removal",
    "request-headers",
    "dispatch-and-envelope",
)


@pytest.fixture(scope="module")
async def gateway(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Where callers of MCP find it; each of its toolkits has one tool of the same server."""
    folder: Path = tmp_path_factory.mktemp("redis")
    with tool_server("fixtures.py") as url, running_redis(folder) as redis:
        backends = {name: {"protocol": "mcp", "url": f"{url}/mcp", "toolkit": name} for name in TOOLS}
        state = {"url": redis.url, "keys": ["k" * 43]}
        config = processes.settings(backends, state=state, mcp={"task_after": "100ms"})
        config["routes"] = [{"tools": tool, "backend": name} for name, tool in TOOLS.items()]
        async with processes.gateway(config) as running:
            yield f"{running.url.replace('127.0.0.1', 'localhost')}/mcp"


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_mcp_43_tasks_are_as_the_suite_expects(gateway: str, scenario: str) -> None:
    baseline = str(HERE / "surface-tasks.yml")
    done = conformance("server", "--url", gateway, "--scenario", f"tasks-{scenario}", "--expected-failures", baseline)
    assert done.returncode == 0, done.stdout + done.stderr
