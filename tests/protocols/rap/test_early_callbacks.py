"""Tool servers that call back before they acknowledge: many run the tool inside the request (RAP, Tool Invocation)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.builds import Builds, builds
from tests.flow.gateways import until
from tests.flow.watching import samples
from tests.unit.net.client.scripted import Peer
from tests.unit.protocols.rap.calling_back import OK
from tests.unit.upstream.facing import reply

pytestmark = pytest.mark.anyio

SOON_S = 5.0  # for what takes milliseconds, and half the time that an acknowledgement has
RESULT = {"type": "tool_result", "text": "done"}
CONSENT = {"type": "oauth", "auth_url": "https://login.example/"}
KEYED: dict[str, Any] = {"call_id": "k"}
# How the invocation ends afterwards, and what its caller sends; the unit tests of dispatch have every status.
ENDINGS = [(OK, KEYED), (reply(500, b""), {}), (reply(503, b""), KEYED), (None, {})]


class Hasty:
    """Makes a tool server post `message`, and acknowledge, or hang up, when a test sets `ends`."""

    server: Builds

    def __init__(self) -> None:
        self.message: dict[str, Any] = RESULT
        self.ending: bytes | None = OK
        self.ends = asyncio.Event()
        self.posts = self.hung_up_on = 0

    async def acknowledge(self, peer: Peer) -> None:
        if self.server.paths[-1] != "/invoke":
            await peer.send(OK)
            return
        invoked = await self.server.invoked(self.server.paths.count("/invoke"))
        assert await invoked.post(invoked.message() | self.message) == 200
        self.posts += 1
        await self._end(peer)
        if self.ending is None:
            raise ConnectionResetError
        await peer.send(self.ending)

    async def _end(self, peer: Peer) -> None:
        closed, ends = asyncio.ensure_future(peer.until_closed()), asyncio.ensure_future(self.ends.wait())
        await asyncio.wait([closed, ends], return_when=asyncio.FIRST_COMPLETED)
        ends.cancel()
        if closed.done():
            self.hung_up_on += 1
        closed.cancel()
        await asyncio.wait([closed])

    async def in_flight(self) -> float:
        """Calls that the tool server was handed and has not acknowledged."""
        found = await samples(self.server.gateway, "toolgate_calls_in_flight")
        return found.get("{backend=builds}", 0.0)

    async def end(self) -> None:
        """Lets the invocation end, and waits until the gateway has noticed."""
        assert await self.in_flight() == 1
        self.ends.set()
        async with asyncio.timeout(SOON_S):
            while await self.in_flight():  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)


@pytest.fixture
async def hasty() -> AsyncIterator[Hasty]:
    it = Hasty()
    # One failure is enough for the breaker.
    async with builds(it.acknowledge, backend={"breaker": {"failures": 1}}, route={"idempotent": True}) as it.server:
        yield it


@pytest.mark.parametrize(("ending", "members"), ENDINGS, ids=["200", "500", "503", "none"])
async def test_an_early_result_is_answered_at_once_and_stays(
    hasty: Hasty, ending: bytes | None, members: dict[str, Any]
) -> None:
    server, hasty.ending = hasty.server, ending
    async with asyncio.timeout(SOON_S):
        assert (await server.call(**members)).value == "done"
    await hasty.end()
    if members:
        assert (await server.call(**members)).value == "done"
    assert (await server.call(call_id="another")).value == "done"
    await until(lambda: hasty.posts == 2)  # the tool server may hear of its callback after the caller has its answer


@pytest.mark.parametrize(("ending", "members"), ENDINGS, ids=["200", "500", "503", "none"])
async def test_an_early_consent_is_answered_at_once_and_stays(
    hasty: Hasty, ending: bytes | None, members: dict[str, Any]
) -> None:
    server, hasty.ending, hasty.message = hasty.server, ending, CONSENT
    for _ in range(2):
        async with asyncio.timeout(SOON_S):
            refused = await server.call(**members)
        challenge = refused.document["missing_requirements"]["authorization"][0]
        assert (refused.status, challenge["url"]) == (400, CONSENT["auth_url"])
        if not hasty.ends.is_set():
            await hasty.end()
    assert await (await server.invoked()).bring("done") == 200
    assert (await server.call(**members)).value == "done"
    assert hasty.posts == 1


async def test_an_early_failure_ends_the_call(hasty: Hasty) -> None:
    hasty.message = RESULT | {"text": "Error: no such build"}
    async with asyncio.timeout(SOON_S):
        answer = await hasty.server.call()
    assert answer.error["message"] == "no such build"
    await hasty.end()


async def test_a_call_is_cancelled_before_its_acknowledgement(hasty: Hasty) -> None:
    server, hasty.message = hasty.server, CONSENT
    async with asyncio.timeout(SOON_S):
        assert (await server.call(call_id="k")).status == 400
    assert (await server.caller.http.delete("/calls/k")).status_code == 202
    assert await hasty.in_flight() == 0
    await until(lambda: "/cancel_tool_call" in server.paths)
    assert "cancelled" in (await server.caller.http.get("/calls/k")).json()["error"]["message"]


@pytest.mark.parametrize("message", [RESULT, CONSENT], ids=["result", "consent"])
async def test_an_invocation_without_acknowledgement_is_closed(hasty: Hasty, message: dict[str, Any]) -> None:
    server, hasty.message = hasty.server, message
    async with asyncio.timeout(SOON_S):
        await server.call(call_id="k")
        assert await hasty.in_flight() == 1
        await until(lambda: hasty.hung_up_on == 1)
    assert await hasty.in_flight() == 0
    hasty.message = RESULT  # one failure would have been enough for the breaker
    assert (await server.call(call_id="another")).value == "done"
