"""Behind trusted proxies each caller has limits of his own; in front of anybody else a header changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

ONCE = {"name": "once", "key": "ip", "rate": "1/d", "burst": 1, "operations": ["call", "poll"]}
OURS, ELSEWHERE = "127.0.0.0/8", "10.0.0.0/8"  # where the callers of these tests are, and where not
FIRST, SECOND = "203.0.113.1", "203.0.113.2"


async def caller_of(start: StartGateway, server: ToolServer, *proxies: str, **more: Any) -> Caller:
    text = config({"scripted": server.url}, rate_limits=[ONCE], server={"trusted_proxies": list(proxies)}, **more)
    return (await start(text)).caller


async def status(caller: Caller, forwarded: str, name: str = "x-forwarded-for") -> int:
    """How a call is answered that a proxy has passed on."""
    return (await caller.call("oxp", "Echo.Say", headers={name: forwarded})).status


async def test_each_caller_behind_a_proxy_has_his_own_limit(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, OURS)
    assert [await status(caller, FIRST) for _ in range(2)] == [200, 429]
    assert await status(caller, SECOND) == 200
    assert await status(caller, f"for={SECOND}", "forwarded") == 429
    assert await status(caller, "[2001:db8::1]:4711, 127.0.0.9") == 200


async def test_nobody_gets_a_new_limit_by_claiming_to_be_another(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, OURS)
    assert [await status(caller, f"198.51.100.{n}, {FIRST}") for n in range(3)] == [200, 429, 429]


@pytest.mark.parametrize("proxies", [(), (ELSEWHERE,)])
async def test_who_is_no_proxy_of_ours_is_not_believed(
    start: StartGateway, server: ToolServer, proxies: tuple[str, ...]
) -> None:
    caller = await caller_of(start, server, *proxies)
    assert [await status(caller, ip) for ip in (FIRST, SECOND)] == [200, 429]


async def test_polls_count_by_the_same_address(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, OURS)
    polls = [await caller.http.get("/calls/x", headers={"x-forwarded-for": ip}) for ip in (FIRST, FIRST, SECOND)]
    assert [poll.status_code for poll in polls] == [404, 429, 404]


async def test_links_are_built_from_the_configuration_whatever_a_proxy_says(
    start: StartGateway, server: ToolServer
) -> None:
    caller = await caller_of(start, server, OURS)
    said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "ftp", "forwarded": "host=evil.example;proto=ftp"}
    answer = await caller.call("oxp", "Echo.Say", call_id="kept", headers=said)
    assert answer.headers["location"].startswith("http://toolgate.test/calls/")


@pytest.mark.parametrize("name", ["authorization", "oxp-api-key", "host", "oxp-version"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_kept_call_is_not_shown_to_a_head_with_two_meanings(
    start: StartGateway, server: ToolServer, name: str, method: str
) -> None:
    caller = await caller_of(start, server, auth={"jwt": [{"secret": SECRET}]})
    twice = [(name, f"Bearer {token()}"), (name, "Bearer another")]
    answer = await caller.send("bare" if name != "oxp-version" else "oxp", "kept", method, "/calls/x", headers=twice)
    assert (answer.status, answer.message) == (400, f"The header {name} is repeated.")
