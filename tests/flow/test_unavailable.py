"""Tool servers that failed too often, and those of which several replicas are there. All of it is ours."""

from __future__ import annotations

import pytest

from tests.flow.caller import every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer, silence, tool, tool_server
from tests.streams import Request, http_reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("status", "state"), [(500, "closed"), (502, "open")], ids=["the tool", "its server"])
@every_dialect
async def test_a_call_to_what_failed_too_often_is_a_refusal_with_the_time_of_the_next_try(
    start: StartGateway, server: ToolServer, dialect: str, status: int, state: str
) -> None:
    async def fail(_received: Request) -> bytes:
        return http_reply(status, {"message": "Oops"})

    server.handler = fail
    breaker = {"failures": 2, "open_for": "1h"}
    backend = {"protocol": "oxp", "url": server.url, "breaker": breaker, "discovery": {"refresh": "1d"}}
    running = await start(config({"scripted": backend}))
    for _ in range(2):
        assert (await running.caller.call(dialect, "Echo.Say")).error["can_retry"] is False
    refused = await running.caller.call(dialect, "Echo.Say")
    assert refused.status == 400
    assert 3200 < int(refused.headers["retry-after"]) <= 4000
    assert server.executions == 2
    described = running.gateway.details()["backends"]["scripted"]
    assert (described["up"], described["breaker"], described["in_flight"], described["queued"]) == (True, state, 0, 0)
    assert described["replicas"][0]["tools_shut"]["count"] == int(state == "closed")
    assert [replica["url"] for replica in described["replicas"]] == [server.url]


async def test_a_caller_that_hardly_waits_does_not_close_a_tool_server_to_the_others(
    start: StartGateway, server: ToolServer
) -> None:
    backend = {"protocol": "oxp", "url": server.url, "breaker": {"failures": 1}}
    running = await start(config({"scripted": backend}))
    answering, server.handler = server.handler, silence
    hurried = await running.caller.call("oxp", "Echo.Say", headers={"prefer": "wait=0"})
    assert hurried.error["can_retry"] is False
    server.handler = answering
    assert (await running.caller.call("oxp", "Echo.Say", {"n": 1})).value == {"n": 1}


async def test_all_replicas_share_the_calls(start: StartGateway, server: ToolServer) -> None:
    async with tool_server(tool("Echo.Say")) as second:
        backend = {"protocol": "oxp", "urls": [server.url, second.url]}
        caller = (await start(config({"scripted": backend}))).caller
        for number in range(6):
            assert (await caller.call("oxp", "Echo.Say", {"n": number})).value == {"n": number}
        assert (server.executions, second.executions) == (3, 3)
