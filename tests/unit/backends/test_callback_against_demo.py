"""The callback backend and the demonstration tool server, as two processes that call each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.backends.callback import CallbackBackend
from gateway.model import Invocation, JsonObject, ToolDefinition, ToolResult
from tests import plainhttp
from tests.support.servers import running
from tests.unit.backends.calling_back import Ends, backend_at
from tests.unit.backends.facing import reply
from tests.unit.transport.scripted import Peer, serving, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def demo_url() -> Iterator[str]:
    with running("tests.support.faulty_rap_server") as (url, _):
        yield url


class Both(NamedTuple):
    """A backend whose callbacks are received, and the tool server it faces."""

    backend: CallbackBackend
    ends: Ends
    tools: dict[str, ToolDefinition]
    callback_url: str
    demo: httpx.AsyncClient
    statuses: list[int]

    async def dispatch(self, operation: str, call_id: str, **arguments: Any) -> ToolResult | None:
        invocation = Invocation(
            call_id=call_id,
            tool=self.tools[operation],
            arguments=arguments,
            timeout_s=5.0,
            group=f"grp-{call_id}",
        )
        return await self.backend.dispatch(invocation, f"{self.callback_url}/{call_id}")

    async def run(self, operation: str, call_id: str, **arguments: Any) -> ToolResult | None:
        """Dispatches a call and waits for its outcome."""
        assert await self.dispatch(operation, call_id, **arguments) is None
        await until(lambda: call_id in self.ends.results)
        return self.ends.results[call_id]

    async def notices(self) -> list[JsonObject]:
        found: list[JsonObject] = (await self.demo.get("/notices")).json()
        return found


@asynccontextmanager
async def together(demo_url: str) -> AsyncIterator[Both]:
    ends, statuses = Ends(), list[int]()
    backend = backend_at(demo_url, ends, [])

    async def receive(peer: Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            call_id = head.split(b" ")[1].decode().removeprefix("/")
            statuses.append(await backend.receiver.receive(call_id, f"grp-{call_id}", body, "application/json"))
            await peer.send(reply(statuses[-1], b""))

    async with serving(receive) as server, plainhttp.async_client(base_url=demo_url) as demo:
        listing = await backend.list_tools()
        assert listing.rejected == ()
        tools = {tool.remote_id: tool for tool in listing.tools}
        try:
            yield Both(backend, ends, tools, server.url, demo, statuses)
        finally:
            await backend.aclose()


async def test_results_failures_and_images_come_back(demo_url: str) -> None:
    async with together(demo_url) as both:
        assert both.tools["lint"].tool == "Builds.lint"
        clean = await both.run("lint", "tg-a1", source="x = 1\n")
        assert clean == ToolResult(value={"clean": True, "problems": []})
        failed = await both.run("explode", "tg-a2")
        assert failed is not None
        assert failed.failure is not None
        assert failed.failure.message == "The boiler has no water; fill it and build again"
        photo = await both.run("photo", "tg-a3")
        assert photo is not None
        assert [part["type"] for part in photo.value] == ["text", "image"]
        assert both.statuses == [200, 200, 200]


async def test_a_choice_gets_its_default(demo_url: str) -> None:
    async with together(demo_url) as both:
        assert await both.run("ask", "tg-b1") == ToolResult(value={"choice": "Keep"})


async def test_a_subscription_is_over_once_it_is_confirmed(demo_url: str) -> None:
    async with together(demo_url) as both:
        result = await both.run("watch", "tg-c1", events=50, pause_s=1)
        assert result == ToolResult(value="Watching the builds (subscription tg-c1)")
        await both.backend.aclose()
        cancelled = {"kind": "cancel", "thread_id": "grp-tg-c1", "tool_call_id": "tg-c1"}
        assert [notice for notice in await both.notices() if notice.get("tool_call_id") == "tg-c1"] == [cancelled]


async def test_consent_comes_first_and_the_result_after_it(demo_url: str) -> None:
    async with together(demo_url) as both:
        assert await both.dispatch("deploy", "tg-d1", target="staging") is None
        await until(lambda: bool(both.ends.challenges))
        ((call_id, challenge),) = both.ends.challenges
        assert call_id == "tg-d1"
        await both.demo.post(challenge["url"])
        await until(lambda: "tg-d1" in both.ends.results)
        assert both.ends.results["tg-d1"] == ToolResult(value={"status": "deployed", "target": "staging"})
