"""The backends: what is up, what waits, what is left out, and why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.console.site import Waiting
from tests.console.visit import Visit, visiting
from tests.support import processes
from tests.support.calling import call, caller
from tests.support.ports import lasting_port
from tests.support.processes import GatewayProcess, until
from tests.support.toolserver import Exchange, ToolServer, definition, echo, tool_server

pytestmark = pytest.mark.anyio


async def break_off(exchange: Exchange) -> None:
    """The tool of a server that fails before it answers."""
    exchange.reset()


@dataclass(frozen=True)
class Yard:
    """A gateway before tool servers in every state."""

    gateway: GatewayProcess
    lab: ToolServer
    waiting: Waiting = field(default_factory=Waiting)


@pytest.fixture(scope="module")
async def yard(anyio_backend: object) -> AsyncIterator[Yard]:
    waiting = Waiting()
    wrong: list[Any] = [definition("Lab.Odd", input_schema={"parameters": {"type": "objekt"}})]
    good = [definition("Lab.Echo"), definition("Lab.Wait")]
    async with (
        tool_server({"Lab.Echo": echo, "Lab.Wait": waiting}, good + wrong) as lab,
        tool_server({"Ill.Fail": break_off}) as ill,
    ):
        config = processes.settings(
            {
                "lab": {"protocol": "otc", "url": lab.url, "max_concurrency": 1, "max_queue": 7},
                "ill": {"protocol": "otc", "url": ill.url, "breaker": {"failures": 1, "open_for": "10m"}},
                "away": {"protocol": "oxp", "url": f"http://127.0.0.1:{lasting_port()}"},
            }
        )
        async with processes.gateway(config) as running:
            yield Yard(running, lab, waiting)


@pytest.fixture
async def visit(browser: Browser, yard: Yard) -> AsyncIterator[Visit]:
    async with visiting(browser, yard.gateway.admin_url) as reader:
        await reader.open("#/backends")
        yield reader


async def test_each_backend_has_its_protocol_its_state_its_tools_and_the_age_of_its_catalogue(visit: Visit) -> None:
    lab = visit.card("lab")
    for words in ("otc", "State✓ up", "Breakerclosed", "In flight0 of 1", "Queue0 of 7", "Tools2"):
        await expect(lab).to_contain_text(words)
    await expect(lab).to_contain_text(re.compile(r"Cataloguefetched (just now|\d+ (s|ms|min).* ago)"))
    await lab.get_by_role("link", name="2 tools of lab").click()
    await visit.sees("2 of 3 tools")
    await expect(visit.field("Backend")).to_have_value("lab")


async def test_a_tool_that_is_left_out_is_named_with_why(visit: Visit) -> None:
    summary = visit.card("lab").get_by_text(re.compile("1 tools? left out"))
    await summary.click()
    await expect(visit.card("lab").get_by_text("Lab.Odd@1.0.0")).to_be_visible()
    await expect(visit.card("lab").get_by_text("Its input schema cannot be used.")).to_be_visible()


async def test_one_that_does_not_answer_is_down_and_says_why_and_since_when(visit: Visit) -> None:
    away = visit.card("away")
    await expect(away).to_contain_text(re.compile("State✕ down: .*[Cc]onnect"))
    await expect(away).to_contain_text("not fetched yet")
    state = away.get_by_role("definition").filter(has_text="down")
    await expect(state.get_by_role("time")).to_be_visible()


async def test_an_open_breaker_shows_with_the_replica_and_since_when(visit: Visit, yard: Yard) -> None:
    async with caller(yard.gateway.url) as http:
        await call(http, "Ill.Fail")
    ill = visit.card("ill")
    await expect(ill).to_contain_text("Breakeropen")
    await expect(ill).to_contain_text("1 replica, 1 down")
    replica = ill.get_by_role("row").filter(has_text="✕ down")
    await expect(replica.get_by_role("time")).to_be_visible()  # it opens by itself


async def test_calls_in_flight_and_in_the_queue_are_counted(visit: Visit, yard: Yard) -> None:
    async with caller(yard.gateway.url) as http:
        calls = [asyncio.create_task(call(http, "Lab.Wait")) for _ in range(3)]
        await expect(visit.card("lab")).to_contain_text("In flight1 of 1")
        await expect(visit.card("lab")).to_contain_text("Queue2 of 7")
        yard.waiting.release.set()
        for answer in await asyncio.gather(*calls):
            assert answer.status_code == 200
    await expect(visit.card("lab")).to_contain_text("In flight0 of 1")


async def test_refresh_asks_the_tool_server_again_and_shows_what_it_has_now(visit: Visit, yard: Yard) -> None:
    def listings() -> int:
        return sum(request.method == "GET" for request in yard.lab.requests)

    before = listings()
    yard.lab.definitions = [*yard.lab.definitions, definition("Lab.New")]
    await visit.button("Refresh lab").click()
    await until(lambda: listings() > before, "the tool server is asked")
    await expect(visit.card("lab")).to_contain_text("Tools3")
    await expect(visit.page.get_by_text("lab: fetched anew")).to_be_attached()
