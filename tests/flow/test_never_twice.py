"""No call is sent again unless nothing of it was sent, or the route says that it may. All of it is ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import HangUp, ToolServer, hang_up, silence, tool, tool_server
from tests.streams import Request, http_reply
from tests.support.scraping import scraped

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
IDEMPOTENT = [{"tools": "*", "backend": "scripted", "idempotent": True}]


def paths(server: ToolServer) -> list[str]:
    return [received.target for received in server.calls]


@pytest.mark.parametrize("form", ["rfc", "otc", "oxp", "oxp-env"])
async def test_the_call_path_that_works_is_remembered(start: Start, server: ToolServer, form: str) -> None:
    """Half of the examples print `/call`: a 404 about the path proves that nothing ran."""
    first, other = ("/call", "/tools/call") if form == "rfc" else ("/tools/call", "/call")
    server.form, server.call_paths = form, {other}
    caller = (await start(config({"scripted": server.url}))).caller
    for number in (1, 2):
        assert (await caller.call("oxp", "Echo.Say", {"n": number})).value == {"n": number}
        assert server.executions == number
    assert paths(server) == [first, other, other]
    server.call_paths = {first}
    assert (await caller.call("oxp", "Echo.Say", {"n": 3})).value == {"n": 3}
    assert server.executions == 3


async def test_each_call_path_is_tried_once(caller: Caller, server: ToolServer) -> None:
    server.call_paths = set()
    error = (await caller.call("oxp", "Echo.Say")).error
    assert error["can_retry"] is False
    assert paths(server) == ["/tools/call", "/call"]
    assert server.executions == 0


async def test_the_langchain_family_has_one_path(start: Start, server: ToolServer) -> None:
    server.form, server.call_paths = "lc", {"/call"}
    caller = (await start(config({"scripted": server.url}))).caller
    assert (await caller.call("oxp", "Echo.Say")).error["can_retry"] is False
    assert paths(server) == ["/tools/call"]


async def test_a_broken_idempotent_call_is_repeated_once(start: Start, server: ToolServer) -> None:
    for routes, attempts in ((None, 1), (IDEMPOTENT, 2)):
        caller = (await start(config({"scripted": server.url}, routes))).caller
        server.handler, before = hang_up, server.executions
        error = (await caller.call("oxp", "Echo.Say")).error
        assert error["can_retry"] is (attempts == 2)
        assert server.executions - before == attempts


async def test_the_repeated_call_is_the_same_call(start: Start, server: ToolServer) -> None:
    async def second_time_lucky(received: Request) -> bytes:
        if len(server.calls) == 1:
            raise HangUp
        return server.value(received, "here")

    server.handler = second_time_lucky
    caller = (await start(config({"scripted": server.url}, IDEMPOTENT))).caller
    assert (await caller.call("oxp", "Echo.Say", {"n": 1})).value == "here"
    first, second = server.calls
    assert (first.target, first.body) == (second.target, second.body)


async def test_a_reused_connection_is_not_retried(caller: Caller, server: ToolServer) -> None:
    """Where HTTP libraries send again by themselves: the request went out before the end was seen."""
    assert (await caller.call("oxp", "Echo.Say")).value == {}
    server.handler = hang_up
    assert (await caller.call("oxp", "Echo.Say")).error["can_retry"] is False
    assert (server.connections, len(server.calls)) == (1, 2)


@pytest.mark.parametrize("routes", [None, IDEMPOTENT], ids=["", "idempotent"])
async def test_no_connection_is_a_refusal(start: Start, routes: list[dict[str, object]] | None) -> None:
    """Nothing was sent, so this is a 400 and no tool error; `Retry-After` says that it will pass."""
    async with tool_server(tool("Echo.Say")) as server:
        gateway = await start(config({"scripted": server.url}, routes))
    answer = await gateway.caller.call("oxp", "Echo.Say")
    assert (answer.status, answer.message) == (400, "The tool is temporarily unavailable.")
    assert int(answer.headers["retry-after"]) >= 1
    assert server.url.rpartition(":")[2] not in answer.body.decode()
    assert server.calls == []


async def test_a_call_with_no_room_is_refused(start: Start, server: ToolServer) -> None:
    """One runs, one waits for its connection, the third is refused at once; the first two are answered once each."""
    held, release = asyncio.Event(), asyncio.Event()

    async def wait(received: Request) -> bytes:
        held.set()
        await release.wait()
        return server.value(received, received.call["input"]["n"])

    server.handler = wait
    backend = {"protocol": "oxp", "url": server.url, "max_concurrency": 1, "max_queue": 1}
    caller = (await start(config({"scripted": backend}))).caller
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        first = group.create_task(caller.call("oxp", "Echo.Say", {"n": 1}))
        await held.wait()
        second = group.create_task(caller.call("oxp", "Echo.Say", {"n": 2}))
        await asyncio.sleep(0)  # the second sets out before the third
        refused = await caller.call("oxp", "Echo.Say", {"n": 3})
        release.set()
    assert (refused.status, "retry-after" in refused.headers) == (400, True)
    assert [(await first).value, (await second).value] == [1, 2]
    assert server.executions == 2


@pytest.mark.parametrize(("status", "state"), [(500, "closed"), (502, "open")], ids=["the tool", "its server"])
async def test_an_open_breaker_refuses_with_the_time_of_its_probe(
    start: Start, server: ToolServer, status: int, state: str
) -> None:
    async def fail(_received: Request) -> bytes:
        return http_reply(status, {"message": "Oops"})

    server.handler = fail
    breaker = {"failures": 2, "open_for": "1h"}
    backend = {"protocol": "oxp", "url": server.url, "breaker": breaker, "discovery": {"refresh": "1d"}}
    running = await start(config({"scripted": backend}))
    for _ in range(2):
        assert (await running.caller.call("oxp", "Echo.Say")).error["can_retry"] is False
    refused = await running.caller.call("oxp", "Echo.Say")
    assert refused.status == 400
    assert 3200 < int(refused.headers["retry-after"]) <= 4000
    assert server.executions == 2
    described = running.gateway.health.details()["backends"]["scripted"]
    is_up = state == "closed"
    assert (described["up"], described["breaker"], described["in_flight"], described["queued"]) == (is_up, state, 0, 0)
    shown = await scraped(running.gateway.metrics)
    assert shown[f"toolgate_backend_replica_up{{backend=scripted,replica={server.url}}}"] == is_up
    assert described["replicas"][0]["tools_shut"]["count"] == int(state == "closed")
    assert [replica["url"] for replica in described["replicas"]] == [server.url]


async def test_a_short_wait_does_not_open_the_breaker(start: Start, server: ToolServer) -> None:
    backend = {"protocol": "oxp", "url": server.url, "breaker": {"failures": 1}}
    running = await start(config({"scripted": backend}))
    answering, server.handler = server.handler, silence
    hurried = await running.caller.call("oxp", "Echo.Say", headers={"prefer": "wait=0"})
    assert hurried.error["can_retry"] is False
    server.handler = answering
    assert (await running.caller.call("oxp", "Echo.Say", {"n": 1})).value == {"n": 1}


async def test_all_replicas_share_the_calls(start: Start, server: ToolServer) -> None:
    async with tool_server(tool("Echo.Say")) as second:
        backend = {"protocol": "oxp", "urls": [server.url, second.url]}
        caller = (await start(config({"scripted": backend}))).caller
        for number in range(6):
            assert (await caller.call("oxp", "Echo.Say", {"n": number})).value == {"n": number}
        assert (server.executions, second.executions) == (3, 3)
