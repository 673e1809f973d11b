"""Health: ready or not, for everybody, in words every caller can read."""

from __future__ import annotations

import asyncio

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import WAIT_S, Running, config, until
from tests.flow.keeping import begun, gated
from tests.flow.toolserver import ToolServer, silence, tool_server

pytestmark = pytest.mark.anyio

SECRET = "a secret of more than thirty-two bytes"


async def health(caller: Caller, dialect: str, prefix: str) -> tuple[int, str]:
    """Status and word; that there is a JSON body with an `OXP-Version` beside it is the oracle's to say."""
    answer = await caller.send(dialect, "health", "GET", f"{prefix}/health")
    return answer.status, answer.document["status"]


@every_dialect
async def test_a_ready_gateway_is_healthy_under_every_prefix(demo: Caller, dialect: str) -> None:
    """Spec: RFC, OTC 1.0 and OXP 1.0, Health."""
    assert await health(demo, dialect, f"/{dialect}") == (200, "ok")


async def test_health_on_the_bare_path_has_the_version_header_and_a_json_body(demo: Caller) -> None:
    """Spec: OXP 1.0, Versioning, for the header. Ours: the body, which one real caller parses unasked."""
    assert await health(demo, "oxp", "") == (200, "ok")


@pytest.mark.parametrize("credential", ["", "Bearer rubbish"])
async def test_health_needs_no_credential_and_minds_no_bad_one(start: Start, credential: str) -> None:
    """Spec: OXP 1.0, Security: health is exempt."""
    caller = (await start(config({}, auth={"jwt": [{"secret": SECRET}]}))).caller
    answer = await caller.send("oxp", "health", "GET", "/health", headers={"authorization": credential})
    assert answer.status == 200


async def test_a_starting_gateway_is_not_ready_but_answers(start: Start, server: ToolServer) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Health: 503. Ours: what is known already can be called meanwhile."""
    async with tool_server() as mute:
        mute.list_handler = silence
        gateway = await start(config({"mute": mute.url, "scripted": server.url}), wait=False)
        assert await health(gateway.caller, "oxp", "") == (503, "starting")
        await until(lambda: gateway.gateway.catalogue.status("scripted").up)
        assert (await gateway.caller.call("oxp", "Echo.Say", {"n": 1})).value == {"n": 1}
        assert await health(gateway.caller, "oxp", "") == (503, "starting")


async def test_a_draining_gateway_is_not_ready_but_answers(start: Start, server: ToolServer) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Health: 503. Ours: draining refuses no call."""
    gateway = await start(config({"scripted": server.url}))
    gateway.gateway.drain()
    assert await health(gateway.caller, "oxp", "") == (503, "draining")
    assert (await gateway.caller.call("oxp", "Echo.Say", {"n": 1})).value == {"n": 1}


async def left_running(start: Start, server: ToolServer) -> tuple[Running, asyncio.Event]:
    """A gateway that is to stop while a call runs whose caller does not wait; the event lets that end."""
    server.handler, opened = gated(server)
    gateway = await start(config({"scripted": server.url}))
    accepted = await gateway.caller.call("oxp", "Echo.Say", {"n": 1}, call_id="k", headers={"prefer": "respond-async"})
    assert accepted.status == 202
    await begun(server)
    gateway.gateway.drain()
    return gateway, opened


async def test_a_draining_gateway_lets_async_calls_end(start: Start, server: ToolServer) -> None:
    """Ours: they are calls that run, too, and their results are asked for elsewhere."""
    gateway, opened = await left_running(start, server)
    (last,) = gateway.gateway.requests
    assert (await asyncio.wait([last], timeout=0.1))[1], "it waits"
    opened.set()
    await asyncio.wait_for(last, WAIT_S)
    assert (await gateway.caller.call("oxp", "Echo.Say", {"n": 1}, call_id="k")).value == {"run": 1, "input": {"n": 1}}
    assert not gateway.gateway.requests


async def test_async_calls_are_cancelled_when_draining_ends(start: Start, server: ToolServer) -> None:
    gateway, _ = await left_running(start, server)
    (last,) = gateway.gateway.requests
    await asyncio.sleep(0)  # it has begun to wait
    last.cancel()
    await until(lambda: not gateway.gateway.calls.running())
