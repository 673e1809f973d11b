"""A real Prometheus, a real gateway that is busy, and a tool server that dies."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import yaml

from tests.deploy import promql
from tests.deploy.tools import program
from tests.support.authority import Authority
from tests.support.processes import DemoServer, GatewayProcess, demo_server, gateway, settings, until

SECRET = "monitoring-secret-of-at-least-32-bytes"
KINDS = {"otc": "office", "oxp": "postbox", "rap": "builds", "rcrt": "crumbs", "mcp": "studio", "openapi": "weather"}
PROTOCOLS = {kind: "callback" if kind == "rap" else kind for kind in KINDS}
MORE: dict[str, dict[str, str]] = {
    "rcrt": {
        "owner_id": "00000000-0000-0000-0000-000000000001",
        "agent_id": "00000000-0000-0000-0000-00000000d003",
        "toolkit": "Crumbs",
    },
    "mcp": {"toolkit": "Studio"},
    "openapi": {"toolkit": "Weather", "document": "{url}/openapi.json"},
}
PATHS = {"mcp": "/mcp"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Calculator.Add", {"a": 2, "b": 40}),
    ("Calculator.Add", {"a": "two"}),  # invalid
    ("Calculator.Divide", {"a": 1, "b": 0}),  # the tool fails
    ("Mail.Search", {"query": "invoice"}),
    ("Builds.lint", {"source": "print(1) "}),
    ("Crumbs.random", {"min": 1, "max": 6}),
    ("Studio.palette", {"colour": "3366cc"}),
    ("Weather.readStation", {"station": "bergen"}),
]
SOON_S = 60.0  # a few scrapes and evaluations, each every second, on a busy machine


@dataclass
class Site:
    """All that runs. `monitor` asks Prometheus, `agent` calls tools."""

    running: GatewayProcess
    servers: dict[str, DemoServer]
    monitor: httpx.AsyncClient
    agent: httpx.AsyncClient

    async def ask(self, expression: str) -> list[Any]:
        """What Prometheus finds."""
        response = await self.monitor.get("/api/v1/query", params={"query": expression})
        assert response.status_code == 200, f"{expression}: {response.text}"
        found: list[Any] = response.json()["data"]["result"]
        return found

    async def busy(self) -> None:
        """One of everything that is counted."""
        for tool, arguments in CALLS:
            await self.agent.post("/oxp/tools/call", json={"tool_id": tool, "input": arguments})
        await self.agent.get("/oxp/tools")
        await self.agent.get("/oxp/tools", headers={"authorization": "Bearer nobody"})
        self.running.process.send_signal(signal.SIGHUP)

    async def firing(self) -> set[tuple[str, str]]:
        """Alerts that are raised, with the tool server each is about."""
        alerts = (await self.monitor.get("/api/v1/alerts")).json()["data"]["alerts"]
        labels = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {(label["alertname"], label.get("backend", "")) for label in labels}


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    """A gateway in front of one tool server of each kind, scraped every second."""
    async with AsyncExitStack() as stack:
        servers = {kind: await stack.enter_async_context(demo_server(kind)) for kind in KINDS}
        running = await stack.enter_async_context(gateway(_settings(servers, folder)))
        url = await stack.enter_async_context(_prometheus(folder, running.admin_url.removeprefix("http://")))
        monitor = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
        token = jwt.encode({"sub": "ada", "exp": int(time.time()) + 600}, SECRET, "HS256")
        headers = {"authorization": f"Bearer {token}"}
        client = httpx.AsyncClient(base_url=running.url, trust_env=False, headers=headers, timeout=SOON_S)
        yield Site(running, servers, monitor, await stack.enter_async_context(client))


def _settings(servers: dict[str, DemoServer], folder: Path) -> dict[str, Any]:
    backends = {
        KINDS[kind]: {"protocol": PROTOCOLS[kind], "discovery": {"refresh": "1s"}}
        | {"url": server.url + PATHS.get(kind, "")}
        | {key: text.replace("{url}", server.url) for key, text in MORE.get(kind, {}).items()}
        for kind, server in servers.items()
    }
    # An issuer that is away, for the expiry of what its certificate is checked with.
    away: dict[str, Any] = {"issuer": "https://127.0.0.1:1", "discovery": True, "tls": {"ca": Authority(folder).path}}
    away |= {"audience": ["toolgate"], "algorithms": ["RS256"]}
    limit = {"name": "lists", "key": "caller", "rate": "1/h", "operations": ["list"]}
    return settings(backends, auth={"jwt": [{"secret": SECRET}, away]}, rate_limits=[limit], logging={"level": "info"})


@asynccontextmanager
async def _prometheus(folder: Path, target: str) -> AsyncIterator[str]:
    """Runs Prometheus with our alerts, of which none waits longer than a second; yields its URL."""
    rules = yaml.safe_load(promql.ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = "1s"
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "toolgate", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    options = (
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}",
        f"--web.listen-address={listen}",
    )
    command = program("prometheus", "prometheus")
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(command, *options, stderr=log)
    try:
        async with httpx.AsyncClient(trust_env=False) as http:

            async def ready() -> bool:
                try:
                    return (await http.get(f"http://{listen}/-/ready")).status_code == httpx.codes.OK
                except httpx.TransportError:
                    return False

            await until(ready, "Prometheus is ready", SOON_S)
        yield f"http://{listen}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.anyio
async def test_the_dashboard_shows_a_busy_gateway_and_a_killed_tool_server_raises_its_alert(tmp_path: Path) -> None:
    program("prometheus", "prometheus")
    async with site(tmp_path) as running:
        await _every_panel_shows_something(running)
        await _nothing_is_wrong_with_the_metrics(running)
        assert not {alert for alert in await running.firing() if alert[0] == "ToolgateBackendDown"}
        await running.servers["otc"].kill()

        async def raised() -> bool:
            return ("ToolgateBackendDown", "office") in await running.firing()

        await until(raised, "the alert is raised", SOON_S)
        assert {backend for name, backend in await running.firing() if name == "ToolgateBackendDown"} == {"office"}


async def _every_panel_shows_something(running: Site) -> None:
    empty = promql.shown()

    async def none_is_empty() -> bool:
        nonlocal empty
        await running.busy()
        empty = [expression for expression in empty if not await running.ask(expression)]
        return not empty

    try:
        await until(none_is_empty, "every panel shows something", SOON_S)
    except AssertionError:
        raise AssertionError(f"nothing to show: {empty}") from None


async def _nothing_is_wrong_with_the_metrics(running: Site) -> None:
    text = (await running.agent.get(f"{running.running.admin_url}/metrics")).content
    promtool = (program("promtool", "prometheus"), "check", "metrics")
    process = await asyncio.create_subprocess_exec(*promtool, stdin=PIPE, stdout=PIPE, stderr=STDOUT)
    said, _ = await process.communicate(text)
    assert (process.returncode, said) == (0, b"")
