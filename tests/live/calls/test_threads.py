"""What a callback tool server receives when calls are over: subscriptions end, and so do threads of one call.

Reactive Agent Protocol: Subscription Events, Tool Cancellation, Thread Closure, User Choice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import order, replica
from tests.support.calling import call, failure, value
from tests.support.processes import DemoServer, demo_server, settings, until

Notice = dict[str, str]


@dataclass(frozen=True)
class Place:
    """A gateway in front of the tool server that calls back."""

    builds: DemoServer
    http: httpx.AsyncClient

    async def seen(self, what: str) -> list[Any]:
        """What the tool server was told (`notices`), or has told (`deliveries`), in order."""
        async with plainhttp.async_client() as http:
            records: list[Any] = (await http.get(f"{self.builds.url}/{what}")).json()
        return records

    async def notices_since(self, before: int, count: int) -> list[Notice]:
        """Waits for so many notices and those of one more call: by then a superfluous one would be there, too."""
        await self.call("Builds.lint", {"source": ""})
        notices: list[Notice] = []

        async def complete() -> bool:
            notices[:] = (await self.seen("notices"))[before:]
            return len(notices) > count

        await until(complete, "the tool server has every notice")
        return notices

    async def call(self, tool: str, arguments: Any, **members: Any) -> Any:
        return value(await call(self.http, tool, arguments, **members))


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    async with demo_server("rap") as builds:
        routes = [
            {"tools": "Builds.photo", "backend": "builds", "timeout": "500ms", "on_timeout": "cancel"},
            {"tools": "*", "backend": "builds"},
        ]
        config = settings({"builds": {"protocol": "callback", "url": builds.url}}, routes=routes)
        async with replica(config) as only:
            yield Place(builds, only.http)


def kinds(notices: list[Notice]) -> list[str]:
    return sorted(notice["kind"] for notice in notices)


@pytest.mark.anyio
async def test_the_thread_of_a_call_without_a_conversation_is_closed_once_it_is_over(place: Place) -> None:
    before = len(await place.seen("notices"))
    await order(place.builds, "build", "duplicate")
    assert (await place.call("Builds.build", {"seconds": 0}))["status"] == "built"
    notices = await place.notices_since(before, 1)
    assert kinds(notices) == ["close", "close"]
    assert len({notice["thread_id"] for notice in notices}) == 2


@pytest.mark.anyio
async def test_a_conversation_that_may_go_on_is_never_closed(place: Place) -> None:
    before = len(await place.seen("notices"))
    for _ in range(2):
        await place.call("Builds.build", {"seconds": 0}, context={"group_id": "trip"})
    assert kinds(await place.notices_since(before, 0)) == ["close"]  # of the other call


@pytest.mark.anyio
@pytest.mark.parametrize("fault", [None, "event_before_confirmation", "still_running"])
async def test_a_subscription_is_confirmed_and_then_cancelled_once(place: Place, fault: str | None) -> None:
    """Ours: no caller is there to see its events."""
    before = len(await place.seen("notices"))
    arguments: dict[str, Any] = {"events": 50, "pause_s": 1}
    if fault is not None:
        arguments = {"events": 1, "pause_s": 0}
        await order(place.builds, "watch", fault)
    text = await place.call("Builds.watch", arguments)
    assert text.startswith("Still running" if fault == "still_running" else "Watching the builds")
    *notices, _ = sorted(await place.notices_since(before, 2), key=lambda notice: notice["kind"])
    assert kinds(notices) == ["cancel", "close"]


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_is_told_to_the_tool_server_once(place: Place) -> None:
    before = len(await place.seen("notices"))
    request = {"tool_id": "Builds.build", "input": {"seconds": 9}}
    started = await place.http.post("/oxp/tools/call", json=request, headers={"prefer": "respond-async"})
    assert started.status_code == 202
    our_id = started.headers["toolgate-call-id"]
    for _ in range(2):
        assert (await place.http.delete(f"/calls/{our_id}")).status_code == 202
    notices = await place.notices_since(before, 2)
    assert kinds(notices) == ["cancel", "close", "close"]
    assert [notice["tool_call_id"] for notice in notices if notice["kind"] == "cancel"] == [our_id]


@pytest.mark.anyio
async def test_a_call_that_outlasts_a_route_that_cancels_is_told_to_the_tool_server_once(place: Place) -> None:
    before = len(await place.seen("notices"))
    await order(place.builds, "photo", "delayed", seconds=30)
    error = failure(await call(place.http, "Builds.photo", {}))
    assert error["message"].startswith("The tool took too long, and the gateway stopped waiting")
    assert kinds(await place.notices_since(before, 2)) == ["cancel", "close", "close"]


@pytest.mark.anyio
async def test_a_subscription_that_goes_on_after_it_was_cancelled_is_taken_and_dropped(place: Place) -> None:
    await order(place.builds, "watch", "ignore_cancel")
    before = len(await place.seen("deliveries"))
    await place.call("Builds.watch", {"events": 2, "pause_s": 0.1})

    async def ended() -> bool:
        return len((await place.seen("deliveries"))[before:]) == 3

    await until(ended, "every event was sent")
    assert [sent["status"] for sent in (await place.seen("deliveries"))[before:]] == [200] * 3


@pytest.mark.anyio
async def test_a_question_that_comes_after_the_end_of_its_call_is_not_answered(place: Place) -> None:
    await order(place.builds, "ask", "result_first")
    before = len(await place.seen("deliveries"))
    assert await place.call("Builds.ask", {}) == "Decided without asking"

    async def asked() -> bool:
        return len((await place.seen("deliveries"))[before:]) == 2

    await until(asked, "the question was sent")
    assert await place.call("Builds.ask", {}) == {"choice": "Keep"}  # by now an answer would have had a result, too
    sent = [(record["type"], record["status"]) for record in (await place.seen("deliveries"))[before:]]
    late, answered = sent[:2], sent[2:]
    assert late == [("tool_result", 200), ("user_choice", 410)]
    assert sorted(answered) == [("tool_result", 200), ("user_choice", 200)]
