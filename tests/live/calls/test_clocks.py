"""Replicas whose clocks differ: what waits for a user is open for as long as the call, whichever of them is asked."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.live.calls.site import KEY
from tests.support.calling import call, caller
from tests.support.processes import demo_server, gateway, settings
from tests.support.redis_server import running_redis
from tests.support.toolserver import Exchange, definition, tool_server

HOUR_S = 3600.0
PENDING_TTL = "30m"  # shorter than the clocks differ


async def status(http: httpx.AsyncClient, check_url: str) -> str:
    response = await http.get(urlsplit(check_url).path)
    assert response.status_code == 200
    return str(response.json()["status"])


@pytest.mark.anyio
async def test_a_check_url_is_good_for_as_long_as_its_call_though_clocks_differ_by_an_hour(tmp_path: Path) -> None:
    async def challenged(exchange: Exchange) -> None:
        challenge = {"id": "mail", "url": "https://login.example/", "check_url": f"{lab.url}/check"}
        missing = {"authorization": [challenge]}
        await exchange.reply({"message": "Connect first", "missing_requirements": missing}, 400)

    async def checked(exchange: Exchange) -> None:
        if exchange.request.target == "/check":
            await exchange.reply({"status": "pending"})
        else:
            await exchange.reply({"$schema": "otc://1.0", "tools": lab.definitions})

    read = definition("Mail.Read", requirements={"authorization": [{"id": "mail"}]})
    with running_redis(tmp_path) as redis:
        async with demo_server("rap") as builds, tool_server({"Mail.Read": challenged}, [read], checked) as lab:
            backends = {
                "builds": {"protocol": "callback", "url": builds.url, "timeout": "1s"},
                "lab": {"protocol": "otc", "url": lab.url},
            }
            state = {"url": redis.url, "keys": [KEY], "pending_ttl": PENDING_TTL}
            config = settings(backends, state=state)
            async with (
                gateway(config, ahead_s=-HOUR_S) as late,
                gateway(config, ahead_s=HOUR_S) as early,
                caller(late.url) as a,
                caller(early.url) as b,
            ):
                for tool, arguments in (("Mail.Read", {}), ("Builds.deploy", {"target": "staging"})):
                    for here, there in ((a, b), (b, a)):
                        refused = (await call(here, tool, arguments)).json()
                        (challenge,) = refused["missing_requirements"]["authorization"]
                        assert await status(here, challenge["check_url"]) == "pending"
                        assert await status(there, challenge["check_url"]) == "pending"
