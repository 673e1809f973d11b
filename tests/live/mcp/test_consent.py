"""Consent over MCP with real processes: the demonstration's builds deploy once their user has allowed it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tests import plainhttp
from tests.flow.caller import Caller
from tests.flow.mcp_requests import OPENS_URLS, ask, call_in, session
from tests.support.calling import WAIT_S, caller
from tests.support.processes import demo_server, gateway, settings

pytestmark = pytest.mark.anyio

ACCEPT = {"action": "accept"}
DEPLOYED = {"status": "deployed", "target": "staging"}
FIRST = "The user has to authorize this call first."
CALL: dict[str, Any] = {"name": "Builds_deploy", "arguments": {"target": "staging"}}


@dataclass(frozen=True)
class Site:
    """A caller of a gateway in front of the demonstration's builds."""

    caller: Caller
    builds: str

    async def modern(self, capabilities: Any = None, **more: Any) -> Any:
        """The result of the call, by a caller that needs no session."""
        return (await ask(self.caller, "tools/call", {**CALL, **more}, capabilities=capabilities)).json()["result"]

    async def says(self, url: str, button: str = "") -> None:
        """The user opens a URL and presses a button there."""
        assert url.startswith(self.builds)
        async with plainhttp.async_client() as browser:
            assert (await browser.post(url + button)).status_code == (404 if button else 200)  # its page is gone

    async def ended(self, ask_again: Callable[[], Awaitable[Any]]) -> Any:
        """The response to the same call, asked again until its tool has seen what the user said."""
        async with asyncio.timeout(WAIT_S):
            while FIRST in (answer := await ask_again()).text:  # noqa: ASYNC110 - the tool server has no event for tests
                await asyncio.sleep(0.02)
        return answer.json()["result"]

    async def deliveries(self) -> list[str]:
        """What the tool server has called back about the latest call, in order."""
        async with plainhttp.async_client() as http:
            done = (await http.get(f"{self.builds}/deliveries")).json()
        return [one["type"] for one in done if one["id"] == done[-1]["id"]]


@pytest.fixture(scope="module")
async def site(anyio_backend: object) -> AsyncIterator[Site]:
    async with demo_server("rap") as builds:
        config = settings({"builds": {"protocol": "callback", "url": builds.url, "timeout": "20s"}})
        async with gateway(config) as running, caller(running.url) as http:
            yield Site(Caller(http), builds.url)


async def test_mcp_45_a_modern_caller_has_its_user_consent_and_the_tool_goes_on(site: Site) -> None:
    asked = await site.modern(OPENS_URLS)
    [(key, request)] = asked["inputRequests"].items()
    back = {"requestState": asked["requestState"], "inputResponses": {key: ACCEPT}}
    again = asyncio.create_task(site.modern(OPENS_URLS, **back))
    await site.says(request["params"]["url"])
    assert (await again)["structuredContent"] == DEPLOYED
    assert await site.deliveries() == ["oauth", "tool_result"]  # it was asked once, and has run once


async def test_mcp_45_a_session_is_told_where_its_user_consents_and_calls_again(site: Site) -> None:
    known = await session(site.caller, OPENS_URLS)
    error = (await call_in(site.caller, known, CALL["name"], CALL["arguments"], id_=1)).json()["error"]
    assert error["code"] == -32042
    [elicitation] = error["data"]["elicitations"]
    await site.says(elicitation["url"])
    ids = count(2)
    done = await site.ended(lambda: call_in(site.caller, known, CALL["name"], CALL["arguments"], id_=next(ids)))
    assert done["structuredContent"] == DEPLOYED
    assert await site.deliveries() == ["oauth", "tool_result"]


@pytest.mark.parametrize(("button", "is_error"), [("", False), ("/decline", True)])
async def test_mcp_45_others_read_where_their_user_consents(site: Site, button: str, is_error: bool) -> None:
    result = await site.modern()
    assert result["isError"] is True
    [challenge] = result["_meta"]["toolgate/error"]["missing_requirements"]["authorization"]
    assert challenge["url"] in result["content"][0]["text"]
    await site.says(challenge["url"], button)
    done = await site.ended(lambda: ask(site.caller, "tools/call", CALL))
    assert done.get("isError", False) is is_error
    assert ("did not allow" if is_error else "deployed") in done["content"][0]["text"]
    assert await site.deliveries() == ["oauth", "tool_result"]
