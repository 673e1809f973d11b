"""A configuration that is rolled out replica by replica: what comes to one that does not have a backend yet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.calls.site import AGENT_ID, DONE_S, KEY, OWNER_ID, Replica, order, outcome, replica
from tests.support.calling import call, result
from tests.support.changing import change
from tests.support.ports import lasting_port
from tests.support.processes import DemoServer, Settings, demo_server, settings, until
from tests.support.redis_server import RedisServer, running_redis

TIMEOUT = "1s"
CLOSED = "http://127.0.0.1:9"
BEFORE: dict[str, dict[str, Settings]] = {
    "it has no backend of that name": {"other": {"protocol": "oxp", "url": CLOSED}},
    "it has one of another kind": {"builds": {"protocol": "oxp", "url": CLOSED}},
}
LATE_S = 14.0  # after the kill a lease of 10 s has to run out, so that the call has an successor before it is over


def crumbs(server: DemoServer) -> Settings:
    identity = {"owner_id": OWNER_ID, "agent_id": AGENT_ID}
    return {"protocol": "rcrt", "url": server.url, "toolkit": "Crumbs", "timeout": TIMEOUT} | identity


def config(redis: RedisServer, backends: dict[str, Settings], **server: Any) -> Settings:
    server = {"port": 0, "admin": {"port": 0}} | server
    return settings(backends, server=server, state={"url": redis.url, "keys": [KEY]})


@asynccontextmanager
async def rollout(
    directory: Path, new: dict[str, Settings], old: dict[str, Settings]
) -> AsyncIterator[tuple[RedisServer, Replica, Replica]]:
    """One replica with the new backends, and one with the old to which tool servers call back."""
    port = lasting_port()
    with running_redis(directory) as redis:
        first = config(redis, new, callback_url=f"http://127.0.0.1:{port}")
        async with replica(first) as a, replica(config(redis, old, port=port)) as b:
            yield redis, a, b


@pytest.mark.anyio
@pytest.mark.parametrize("old", BEFORE.values(), ids=BEFORE)
async def test_a_result_counts_that_comes_where_its_backend_is_not_yet(
    tmp_path: Path, old: dict[str, Settings]
) -> None:
    async with demo_server("rap") as builds:
        new = {"builds": {"protocol": "callback", "url": builds.url, "timeout": "30s"}}  # all are answered at once
        async with rollout(tmp_path, new, old) as (_, a, b):
            answer = result(await call(a.http, "Builds.lint", {"source": "print(1) "}, call_id="k"))
            assert answer["value"]["clean"] is False
            a.http.headers["prefer"] = "wait=1"
            asked = result(await call(a.http, "Builds.ask", {}, call_id="choice"))
            assert asked["error"]["code"] == "still_running"
            (line,) = b.running.logged("a callback was refused")
            assert line["reason"] == "its tool server is not configured here, and cannot be answered"
            refused = (await call(a.http, "Builds.deploy", {"target": "staging"}, call_id="consent")).json()
            (challenge,) = refused["missing_requirements"]["authorization"]
            assert (await b.http.get(urlsplit(challenge["check_url"]).path)).json() == {"status": "pending"}
            (line, *_) = b.running.logged("callbacks come for a backend that is not configured here")
            assert line["backend"] == "builds"


@pytest.mark.anyio
async def test_a_call_of_a_dead_replica_is_looked_for_when_its_successor_has_the_backend(tmp_path: Path) -> None:
    async with demo_server("rcrt") as server:
        await order(server, "echo", "late", seconds=LATE_S)
        new = {"crumbs": crumbs(server)}
        async with rollout(tmp_path, new, BEFORE["it has no backend of that name"]) as (redis, a, b):
            assert result(await call(a.http, "Crumbs.echo", {"message": "hello"}, call_id="k"))["success"] is False
            await a.kill()
            await until(
                lambda: bool(b.running.logged("the process that ran a call has died")), "it has an successor", DONE_S
            )
            await change(b.running, config(redis, new))
            assert (await outcome(b.http, "Crumbs.echo", {"message": "hello"}, "k"))["value"] == {"echo": "hello"}
