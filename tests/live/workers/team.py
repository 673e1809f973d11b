"""A gateway of several worker processes in front of tool servers of the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests import plainhttp
from tests.support.processes import GatewayProcess, Settings, gateway, settings

WORKERS = 2


@asynccontextmanager
async def team(redis_url: str, backends: Mapping[str, Settings], **more: Any) -> AsyncIterator[GatewayProcess]:
    """Runs it until the end of the block; what the workers share is sealed with a key the gateway makes."""
    server = {"port": 0, "admin": {"port": 0}, "workers": WORKERS}
    async with gateway(settings(backends, server=server, state={"url": redis_url}, **more)) as running:
        yield running


async def details(running: GatewayProcess) -> dict[str, Any]:
    """The detailed health of all workers."""
    async with plainhttp.async_client() as http:
        document: dict[str, Any] = (await http.get(f"{running.admin_url}/health")).json()
    return document


async def pids(running: GatewayProcess) -> list[int]:
    """The worker processes that serve callers."""
    return [worker["pid"] for worker in (await details(running))["workers"] if worker["status"] == "ok"]


async def metric(running: GatewayProcess, name: str, **labels: str) -> float:
    """The sum of all samples of a metric that have these labels."""
    async with plainhttp.async_client() as http:
        text = (await http.get(f"{running.admin_url}/metrics")).text
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    samples = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in samples if all(each in line for each in wanted))


def connections_from(ports: Set[int], pid: int) -> int:
    """How many connections from these ports a process has accepted (proc_pid_fd(5), proc_net_tcp(5))."""
    held = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            held.add(os.readlink(entry.path))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[2].partition(":")[2], 16) in ports and f"socket:[{row[9]}]" in held for row in rows)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but not been waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
