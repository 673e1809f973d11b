"""A call without an id of the caller's whose result the caller got takes no more of its room. All of it is ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.caller import Answer, Caller
from tests.flow.conftest import StartGateway
from tests.flow.gateways import PUBLIC_URL, Running, config, running, until
from tests.flow.toolserver import ToolServer
from tests.unit.backends.calling_back import OK, Toolset
from tests.unit.transport.scripted import serving

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
NOT_KEPT = "The call is over. Its result was told to the caller who waited for it, and is not kept."


class Builds:
    """A gateway before a tool server that calls back when a test says so."""

    def __init__(self, gateway: Running, toolset: Toolset) -> None:
        self._gateway = gateway
        self._toolset = toolset

    @property
    def caller(self) -> Caller:
        return self._gateway.caller

    async def post(self, told: Any, text: str) -> int:
        """Brings a result for what the tool server was told; returns the status of the answer."""
        message = {"type": "tool_result", "group_id": told["group_id"], "id": told["id"], "text": text}
        path = told["callback_url"].removeprefix(PUBLIC_URL)
        headers = {"content-type": "application/json"}
        return (await self.caller.http.post(path, content=json.dumps(message), headers=headers)).status_code

    async def answered(self, **members: Any) -> tuple[Answer, Any]:
        """A call whose result came while its caller waited, and what the tool server was told of it."""
        before = self.runs
        async with asyncio.timeout(DEADLINE_S):
            asking = asyncio.create_task(self.caller.call("oxp", "builds.lint", **members))
            await until(lambda: self.runs > before)
            told = [told for path, told in self._toolset.noted if path == "/invoke"][-1]
            assert await self.post(told, "done") == 200
            return await asking, told

    @property
    def runs(self) -> int:
        return [path for path, _ in self._toolset.noted].count("/invoke")


@pytest.fixture
async def builds() -> AsyncIterator[Builds]:
    toolset = Toolset(OK)
    async with serving(toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url}}
        async with running(config(backends, state={"max_records_per_caller": 2})) as gateway:
            yield Builds(gateway, toolset)


async def test_its_caller_may_make_as_many_as_it_likes(builds: Builds) -> None:
    for _ in range(5):
        answer, told = await builds.answered()
        assert (answer.status, answer.value, "location" in answer.headers) == (200, "done", False)
        assert answer.headers["toolgate-call-id"] == told["id"]


async def test_who_looks_is_told_that_it_is_over(builds: Builds) -> None:
    answer, _ = await builds.answered()
    path = f"/calls/{answer.headers['toolgate-call-id']}"
    for method, status in (("GET", 200), ("DELETE", 202), ("GET", 200)):
        looked = await builds.caller.send("oxp", "kept", method, path)
        assert (looked.status, looked.error["message"], looked.error["can_retry"]) == (status, NOT_KEPT, False)


async def test_a_caller_who_would_take_the_result_later_but_has_it_is_not_told_where_it_is(
    start: StartGateway, server: ToolServer
) -> None:
    caller = (await start(config({"scripted": server.url}, state={"max_records_per_caller": 2}))).caller
    for _ in range(5):
        answer = await caller.call("oxp", "Echo.Say", {"a": 1}, headers={"prefer": "respond-async, wait=60"})
        assert (answer.status, answer.value, "location" in answer.headers) == (200, {"a": 1}, False)
