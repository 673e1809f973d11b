"""Tool servers that call back before they acknowledge: many run the tool inside the request (RAP, Tool Invocation)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.gateways import PUBLIC_URL, Running, config, running, until
from tests.flow.watching import samples
from tests.unit.backends.calling_back import OK, Toolset
from tests.unit.backends.facing import reply
from tests.unit.transport.scripted import Peer, serving

pytestmark = pytest.mark.anyio

SOON_S = 5.0  # for what takes milliseconds, and half the time that an acknowledgement has
RESULT = {"type": "tool_result", "text": "done"}
CONSENT = {"type": "oauth", "auth_url": "https://login.example/"}
ENDINGS = {"200": OK, "400": reply(400, b""), "500": reply(500, b""), "503": reply(503, b""), "none": None}


class Hasty:
    """A tool server that posts `message`, and acknowledges, or hangs up, when a test says so."""

    def __init__(self) -> None:
        self.toolset = Toolset(self._acknowledge)
        self.gateway: Running | None = None
        self.message: dict[str, Any] = RESULT
        self.ending: bytes | None = OK
        self.ends = asyncio.Event()
        self.posts = self.hung_up_on = 0

    async def _acknowledge(self, peer: Peer) -> None:
        path, told = self.toolset.noted[-1]
        if path != "/invoke":
            await peer.send(OK)
            return
        assert await self.post(self.message, told) == 200
        self.posts += 1
        await self._end(peer)
        if self.ending is None:
            raise ConnectionResetError
        await peer.send(self.ending)

    async def _end(self, peer: Peer) -> None:
        closed, told = asyncio.ensure_future(peer.until_closed()), asyncio.ensure_future(self.ends.wait())
        await asyncio.wait([closed, told], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if closed.done():
            self.hung_up_on += 1
        closed.cancel()
        await asyncio.wait([closed])

    async def post(self, message: dict[str, Any], told: dict[str, Any]) -> int:
        assert self.gateway is not None
        body = json.dumps(message | {"group_id": told["group_id"], "id": told["id"]})
        path = told["callback_url"].removeprefix(PUBLIC_URL)
        return (await self.gateway.caller.http.post(path, content=body)).status_code


@pytest.fixture
async def hasty() -> AsyncIterator[Hasty]:
    it = Hasty()
    async with serving(it.toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url, "breaker": {"failures": 1}}}
        routes = [{"tools": "*", "backend": "builds", "idempotent": True}]
        async with running(config(backends, routes=routes)) as it.gateway:
            yield it


async def in_flight(gateway: Running) -> float:
    """Calls that a tool server was handed and has not acknowledged."""
    found = await samples(gateway, "toolgate_calls_in_flight")
    return found.get("{backend=builds}", 0.0)


async def ends(hasty: Hasty, gateway: Running) -> None:
    """Waits until the end of the invocation has made its way."""
    assert await in_flight(gateway) == 1
    hasty.ends.set()
    async with asyncio.timeout(SOON_S):
        while await in_flight(gateway):  # noqa: ASYNC110 - nobody tells of that
            await asyncio.sleep(0)


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("asked", [{"call_id": "k"}, {}], ids=["keyed", "not"])
async def test_an_early_result_is_answered_at_once_and_stays(
    hasty: Hasty, asked: dict[str, Any], ending: bytes | None
) -> None:
    assert hasty.gateway is not None
    caller, hasty.ending = hasty.gateway.caller, ending
    async with asyncio.timeout(SOON_S):
        assert (await caller.call("oxp", "builds.lint", **asked)).value == "done"
    await ends(hasty, hasty.gateway)
    if asked:
        assert (await caller.call("oxp", "builds.lint", **asked)).value == "done"
    # One failure is enough for the breaker.
    assert (await caller.call("oxp", "builds.lint", call_id="another")).value == "done"
    await until(lambda: hasty.posts == 2)  # the tool server may hear of its callback after the caller has its answer


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("asked", [{"call_id": "k"}, {}], ids=["keyed", "not"])
async def test_an_early_consent_is_answered_at_once_and_stays(
    hasty: Hasty, asked: dict[str, Any], ending: bytes | None
) -> None:
    assert hasty.gateway is not None
    caller, hasty.ending, hasty.message = hasty.gateway.caller, ending, CONSENT
    for _ in range(2):
        async with asyncio.timeout(SOON_S):
            refused = await caller.call("oxp", "builds.lint", **asked)
        challenge = refused.document["missing_requirements"]["authorization"][0]
        assert (refused.status, challenge["url"]) == (400, CONSENT["auth_url"])
        if not hasty.ends.is_set():
            await ends(hasty, hasty.gateway)
    assert await hasty.post(RESULT, hasty.toolset.noted[0][1]) == 200
    assert (await caller.call("oxp", "builds.lint", **asked)).value == "done"
    assert hasty.posts == 1


async def test_a_failure_that_is_posted_first_is_what_the_call_ends_with(hasty: Hasty) -> None:
    assert hasty.gateway is not None
    hasty.message = RESULT | {"text": "Error: no such build"}
    async with asyncio.timeout(SOON_S):
        answer = await hasty.gateway.caller.call("oxp", "builds.lint")
    assert answer.error["message"] == "no such build"
    await ends(hasty, hasty.gateway)


async def test_a_call_is_cancelled_after_a_consent_and_before_the_acknowledgement(hasty: Hasty) -> None:
    assert hasty.gateway is not None
    caller, hasty.message = hasty.gateway.caller, CONSENT
    async with asyncio.timeout(SOON_S):
        assert (await caller.call("oxp", "builds.lint", call_id="k")).status == 400
    assert (await caller.http.delete("/calls/k")).status_code == 202
    assert await in_flight(hasty.gateway) == 0
    await until(lambda: any(path == "/cancel_tool_call" for path, _ in hasty.toolset.noted))
    assert "cancelled" in (await caller.http.get("/calls/k")).json()["error"]["message"]


@pytest.mark.parametrize("message", [RESULT, CONSENT], ids=["result", "consent"])
async def test_an_invocation_without_acknowledgement_is_closed(hasty: Hasty, message: dict[str, Any]) -> None:
    assert hasty.gateway is not None
    caller, hasty.message = hasty.gateway.caller, message
    async with asyncio.timeout(SOON_S):
        await caller.call("oxp", "builds.lint", call_id="k")
        assert await in_flight(hasty.gateway) == 1
        await until(lambda: hasty.hung_up_on == 1)
    assert await in_flight(hasty.gateway) == 0
    hasty.message = RESULT  # one failure would have been enough for the breaker
    assert (await caller.call("oxp", "builds.lint", call_id="another")).value == "done"
