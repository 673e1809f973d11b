"""A caller fills the room for kept results; what others have and what they begin is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import KEY
from tests.support.calling import call, caller, value
from tests.support.processes import GatewayProcess, Settings, gateway, settings, until
from tests.support.redis_server import running_redis
from tests.support.tokens import SECRET, token
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

ECHO = "Lab.Echo"
LARGE = {"text": "x" * 200_000}
SMALL = {"text": "x" * 1000}
MANY = 300  # small calls: more than fit where a large result does not
ROOM = {"max_bytes": "8MiB", "max_result": "512KiB"}
FLOOD = 60  # calls with results of 12 MB together
OK, REFUSED = httpx.codes.OK, httpx.codes.TOO_MANY_REQUESTS


@asynccontextmanager
async def place(state: Settings, **more: Any) -> AsyncIterator[GatewayProcess]:
    async with tool_server({ECHO: echo}) as lab:
        backends = {"lab": {"protocol": "otc", "url": lab.url}}
        async with gateway(settings(backends, auth={"jwt": [{"secret": SECRET}]}, state=state, **more)) as running:
            yield running


def tenant(running: GatewayProcess, name: str) -> Any:
    return caller(running.url, headers={"Authorization": f"Bearer {token(name)}"})


async def health(running: GatewayProcess) -> dict[str, Any]:
    async with plainhttp.async_client() as http:
        state: dict[str, Any] = (await http.get(f"{running.admin_url}/health")).json()["state"]
    return state


async def first_refused(http: httpx.AsyncClient) -> httpx.Response:
    """What a caller gets that goes on although there is hardly any room left for it."""
    for number in range(MANY):
        answer = await call(http, ECHO, SMALL, call_id=f"more-{number}")
        if answer.status_code != OK:
            return answer
    raise AssertionError("no caller was refused")


async def test_one_caller_fills_half_of_the_memory_and_no_more() -> None:
    async with place(ROOM) as running, tenant(running, "eve") as eve, tenant(running, "ada") as ada:
        flood = await asyncio.gather(*(call(eve, ECHO, LARGE, call_id=f"c{number}") for number in range(FLOOD)))
        # Who waits has the result, even if there is no room to keep it.
        assert all(value(answer) == LARGE for answer in flood if answer.status_code == OK)
        refused = await first_refused(eve)
        assert refused.status_code == REFUSED
        assert "of your calls" in refused.json()["message"]
        taken = await health(running)
        assert taken["up"] is True
        assert 0.3 < taken["used_bytes"] / taken["max_bytes"] < 0.6

        for number in range(5):
            assert value(await call(ada, ECHO, LARGE, call_id=f"c{number}")) == LARGE
        for number in range(5):
            answer = await call(ada, ECHO, LARGE, call_id=f"c{number}")
            assert value(answer) == LARGE  # from the record
        assert value(await call(eve, ECHO, LARGE)) == LARGE  # a plain call needs no room


async def test_a_redis_without_memory_stops_no_plain_call_and_says_so(tmp_path: Path) -> None:
    limit = {"name": "per-caller", "key": "caller", "rate": "1000/s"}
    with running_redis(tmp_path) as redis:
        async with (
            place({"url": redis.url, "keys": [KEY]}, rate_limits=[limit]) as running,
            tenant(running, "ada") as ada,
        ):
            assert value(await call(ada, ECHO, {}, call_id="before")) == {}
            with redis.connect() as look:
                look.config_set("maxmemory", 1)

                async def is_noticed() -> bool:
                    return (await health(running))["up"] is False

                await until(is_noticed, "a heartbeat finds no memory left")
                assert (await health(running))["reason"] == "Redis has no memory left (maxmemory)"
                assert [value(await call(ada, ECHO, {})) for _ in range(5)] == [{}] * 5
                refused = await call(ada, ECHO, {}, call_id="during")
                assert refused.status_code == REFUSED
                assert "your" not in refused.json()["message"]
                assert value(await call(ada, ECHO, {}, call_id="before")) == {}  # it still returns what it has
                look.config_set("maxmemory", 0)

            async def is_kept() -> bool:
                return (await call(ada, ECHO, {}, call_id="during")).status_code == OK

            await until(is_kept, "there is room again")
