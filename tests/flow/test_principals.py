"""Two callers never meet: not in a result, not in an id, not in a list. All of it is ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.streams import Request
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
CALLERS = ("ada", "bob", "cyd", "dee")


@every_dialect
async def test_callers_with_the_same_call_id_at_the_same_time_get_each_their_own_value(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
    """The tool server answers only when it has all the calls, the last first."""
    everybody_is_in, waiting = asyncio.Event(), []

    async def gather(received: Request) -> bytes:
        waiting.append(received)
        if len(waiting) == len(CALLERS):
            everybody_is_in.set()
        await everybody_is_in.wait()
        for _ in range(len(waiting) - waiting.index(received)):
            await asyncio.sleep(0)
        return server.value(received, f"for {received.call['input']['who']}")

    server.handler = gather
    gateway = await start(config({"scripted": server.url}, auth={"jwt": [{"secret": SECRET}]}))

    async def ask(who: str) -> tuple[str, str]:
        caller: Caller = gateway.caller.with_token(token(who))
        answer = await caller.call(dialect, "Echo.Say", {"who": who}, call_id="the same")
        return answer.value, answer.result["call_id"]

    async with asyncio.timeout(DEADLINE_S):
        answers = await asyncio.gather(*map(ask, CALLERS))
    assert answers == [(f"for {who}", "the same") for who in CALLERS]
    ids = {received.call["call_id"] for received in server.calls}
    assert len(ids) == len(server.calls) == len(CALLERS)
    assert "the same" not in ids
    assert all(b"the same" not in received.body for received in server.calls)


@every_dialect
async def test_callers_with_different_scopes_have_each_their_own_list_and_tag(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
    """The tag of one is no condition that the other's list meets."""
    routes = [{"tools": "Echo.*", "backend": "scripted"}, {"tools": "*", "backend": "scripted", "scopes": ["counts"]}]
    caller = (await start(config({"scripted": server.url}, routes, auth={"jwt": [{"secret": SECRET}]}))).caller
    ada, bob = caller.with_token(token("ada", scope="counts")), caller.with_token(token("bob"))
    for _ in range(2):
        assert (await ada.list(dialect)).ids == ["Count.Up@1.0.0", "Echo.Say@1.0.0"]
        assert (await bob.list(dialect)).ids == ["Echo.Say@1.0.0"]
    tag = (await ada.list(dialect)).headers["etag"]
    assert (await ada.list(dialect, headers={"if-none-match": tag})).status == 304
    assert (await bob.list(dialect, headers={"if-none-match": tag})).ids == ["Echo.Say@1.0.0"]
