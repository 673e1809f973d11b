"""A gateway that goes away and comes back, and a page that outlives it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, expect

from tests.console.visit import Visit, visiting
from tests.support import processes
from tests.support.calling import call, caller
from tests.support.ports import lasting_port
from tests.support.processes import GatewayProcess, Settings
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

NO_ANSWER = "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING"


@asynccontextmanager
async def reader(browser: Browser) -> AsyncIterator[tuple[Visit, GatewayProcess, Settings]]:
    """A reader of a gateway whose ports are those of its configuration, so that it can be started again."""
    async with tool_server({"Lab.Echo": echo}) as lab:
        server = {"port": lasting_port(), "admin": {"port": lasting_port()}}
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}}, server=server)
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            visit.expect_error(NO_ANSWER)
            yield visit, running, config


async def kill(running: GatewayProcess) -> None:
    running.process.kill()
    await running.process.wait()


@pytest.mark.parametrize("path", ["#/", "#/log", "#/calls"])
async def test_a_page_says_that_the_gateway_is_away_and_goes_on_when_it_is_back(browser: Browser, path: str) -> None:
    async with reader(browser) as (visit, running, config):
        await visit.open(path)
        banner = visit.page.get_by_text("The gateway does not answer. Trying again…", exact=True).first
        await expect(banner).to_be_hidden()
        title = await visit.heading.inner_text()
        await kill(running)
        await expect(banner).to_be_visible()
        await expect(visit.heading).to_have_text(title)  # what was there stays
        async with processes.gateway(config) as again:
            await expect(banner).to_be_hidden()
            async with caller(again.url) as http:
                await call(http, "Lab.Echo")
            await visit.follow("Log")
            await expect(visit.row("Lab.Echo").first).to_be_visible()


async def test_what_was_typed_in_stays_while_the_gateway_is_away(browser: Browser) -> None:
    async with reader(browser) as (visit, running, config):
        await visit.open("#/tools/Lab.Echo")
        await visit.button("JSON").click()
        await visit.field("Arguments").fill('{"n": 1}')
        await kill(running)
        await visit.button("Call").click()
        await expect(visit.outcome).to_contain_text("No answer")
        async with processes.gateway(config):
            await expect(visit.page.locator("#banner")).to_be_hidden()
            await expect(visit.field("Arguments")).to_have_value('{"n": 1}')
            await visit.button("Call").click()
            await expect(visit.outcome).to_contain_text('"n": 1')


@pytest.mark.parametrize(
    ("page", "words"),
    {"Backends": "lab", "Tools": "Lab.Echo", "Configuration": "server.port"}.items(),
)
async def test_a_page_that_could_not_be_shown_comes_by_itself(browser: Browser, page: str, words: str) -> None:
    """Configuration is one that was not open before, so that its script has yet to come."""
    async with reader(browser) as (visit, running, config):
        visit.expect_error("module")
        await visit.open("#/backends")
        await visit.follow("Tools")
        await visit.follow("Overview")
        await kill(running)
        await visit.follow(page)
        await expect(visit.page.locator("#banner")).to_be_visible()
        await expect(visit.main).not_to_contain_text(words)
        async with processes.gateway(config):
            await expect(visit.page.locator("#banner")).to_be_hidden()
            await visit.sees(words)
