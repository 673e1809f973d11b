"""Two replicas on one Redis, each of which has tool servers call back the other, and a caller for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests import plainhttp
from tests.support.calling import call, caller, result
from tests.support.ports import lasting_port
from tests.support.processes import DemoServer, GatewayProcess, Settings, demo_server, gateway, settings, until
from tests.support.redis_server import RedisServer, running_redis

TIMEOUT = "1s"  # of a call: most here outlive it and are asked for again
DONE_S = 40.0  # a lease of 10 s, and what a busy machine adds
KEY = "a key of the tests with 32 characters"
OWNER_ID = "00000000-0000-0000-0000-000000000001"
AGENT_ID = "6f1c0a1e-0000-4000-8000-000000007c11"


@dataclass(frozen=True)
class Replica:
    """A gateway process and a caller of it."""

    running: GatewayProcess
    http: httpx.AsyncClient

    async def kill(self) -> None:
        """Ends it as an out-of-memory killer would."""
        self.running.process.kill()
        await self.running.process.wait()


@dataclass(frozen=True)
class Site:
    """Everything, running."""

    redis: RedisServer
    builds: DemoServer
    a: Replica
    b: Replica


def callback_settings(
    url: str, backend: Settings | None = None, others: Mapping[str, Settings] | None = None, **more: Any
) -> Settings:
    """A gateway in front of the tool server that calls back, and of others."""
    # On a busy machine a call would else be over before anything was sent.
    builds = {"protocol": "callback", "url": url, "timeout": TIMEOUT, "connect_timeout": "1m"} | (backend or {})
    return settings({"builds": builds, **(others or {})}, **more)


def crumbs_settings(crumbs: DemoServer) -> Settings:
    """A gateway in front of the breadcrumb server."""
    backend = {
        "protocol": "rcrt",
        "url": crumbs.url,
        "owner_id": OWNER_ID,
        "agent_id": AGENT_ID,
        "toolkit": "Crumbs",
        "timeout": "5s",
    }
    return settings({"crumbs": backend})


@asynccontextmanager
async def replica(config: Settings) -> AsyncIterator[Replica]:
    async with gateway(config) as running, caller(running.url) as http:
        yield Replica(running, http)


@asynccontextmanager
async def pair(
    redis: RedisServer, url: str, state: Settings | None = None, **more: Any
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas in front of the tool server that calls back, each of which has it call back the other."""
    ports = lasting_port(), lasting_port()

    def config(own: int, other: int) -> Settings:
        server = {"port": own, "admin": {"port": 0}, "callback_url": f"http://127.0.0.1:{other}"}
        remembered = {"url": redis.url, "keys": [KEY]} | (state or {})
        return callback_settings(url, server=server, state=remembered, **more)

    async with replica(config(*ports)) as a, replica(config(*reversed(ports))) as b:
        yield a, b


@asynccontextmanager
async def site(directory: Path, *, lasting: bool = False, **more: Any) -> AsyncIterator[Site]:
    """Runs it with the demonstration server."""
    with running_redis(directory, lasting=lasting) as redis:
        async with demo_server("rap") as builds, pair(redis, builds.url, **more) as (a, b):
            yield Site(redis, builds, a, b)


async def order(server: DemoServer, operation: str, fault: str, seconds: float = 1.0) -> None:
    """Has a demonstration server do something wrong, once."""
    async with plainhttp.async_client() as http:
        document = {"operation": operation, "fault": fault, "seconds": seconds}
        (await http.post(f"{server.url}/faults", json=document)).raise_for_status()


async def taken(server: DemoServer) -> bool:
    """Whether the tool server has met every fault it was ordered."""
    async with plainhttp.async_client() as http:
        return not (await http.get(f"{server.url}/faults")).json()["due"]


async def ran(server: DemoServer) -> list[int]:
    """How often each call ran, by the ids the tool server was given."""
    async with plainhttp.async_client() as http:
        return list((await http.get(f"{server.url}/executions")).json()["ids"].values())


async def outcome(http: httpx.AsyncClient, tool: str, arguments: Any, call_id: str) -> dict[str, Any]:
    """Repeats a call as callers are told to, until it is over."""
    last: dict[str, Any] = {}

    async def over() -> bool:
        nonlocal last
        response = await call(http, tool, arguments, call_id=call_id)
        if response.status_code != httpx.codes.OK:  # the state is away: the same call, later
            assert "retry-after" in response.headers, response.text
            return False
        last = result(response)
        return last["success"] is True or not last["error"].get("can_retry", False)

    await until(over, f"the call {call_id} is over", DONE_S)
    return last
