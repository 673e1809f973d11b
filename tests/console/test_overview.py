"""The first page: how the gateway stands, how it was used, and what went wrong with its configuration."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, expect

from gateway import __version__
from tests import plainhttp
from tests.console.site import Site
from tests.console.visit import ZONE, Visit, visiting
from tests.support import processes
from tests.support.calling import call, caller
from tests.support.changing import REFUSED, change
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

PLOTS = ("Calls per second", "Failures per second", "Refusals", "Time of a call", "The gateway's own share")


async def overview(url: str) -> dict[str, Any]:
    """What the page is given."""
    async with plainhttp.async_client() as http:
        document: dict[str, Any] = (await http.get(f"{url}/console/api/overview")).json()
    return document


async def test_it_says_how_the_gateway_stands_since_when_and_where_calls_are_remembered(visit: Visit) -> None:
    await visit.open()
    for words in (f"Version{__version__}", "Statusok", "Uptime", "Last reload", "in use", "Kept inmemory"):
        await visit.sees(words)
    await visit.sees("this one")  # the replica
    await expect(visit.page.get_by_role("banner")).to_contain_text(f"{__version__} ✓ ok")


async def test_times_are_those_of_its_readers_zone(visit: Visit, site: Site) -> None:
    await visit.open()
    started_at = (await overview(site.url))["started_at"]
    there = datetime.fromtimestamp(started_at, ZoneInfo(ZONE))
    shown = visit.main.get_by_role("time").first
    await expect(shown).to_have_text(f"{there.day} {there:%b %Y, %H:%M:%S}")
    stated = datetime.fromisoformat(str(await shown.get_attribute("datetime")))
    assert abs(stated.timestamp() - started_at) < 1


async def test_calls_failures_and_refusals_are_drawn_with_their_numbers(visit: Visit, site: Site) -> None:
    async with site.caller() as http, caller(site.gateway.url) as nobody:
        for _ in range(3):
            assert (await call(http, "Text.Echo", {"value": 1})).status_code == 200
        await call(http, "Doorbell.Ring", {"doorbell_id": "doorbell1"})  # fails
        assert (await call(http, "No.Tool")).status_code == 400
        assert (await call(nobody, "Text.Echo", {"value": 1})).status_code == 401
    await visit.open()
    for name in PLOTS:
        await expect(visit.main.get_by_role("img", name=f"{name} in 15 minutes: now ")).to_be_visible()
    refusals = visit.main.get_by_role("figure").filter(has_text="Refusals")
    await expect(refusals).to_contain_text("tool_not_found")
    await expect(refusals).to_contain_text("unauthenticated")
    history = (await overview(site.url))["history"]
    assert sum(history["calls"]) >= 4
    assert sum(history["failures"]) >= 1


async def test_a_gateway_that_nobody_has_called_leads_to_its_tools(browser: Browser) -> None:
    async with tool_server({"Lab.Echo": echo}) as lab:
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            await visit.open()
            await visit.sees("No calls in the last 15 minutes.")
            await visit.link("Try a tool").click()
            await visit.link("Lab.Echo").click()
            await expect(visit.heading).to_have_text("Lab.Echo")


async def test_the_problems_of_a_file_that_cannot_be_used_are_shown_until_it_can(browser: Browser) -> None:
    async with tool_server({"Lab.Echo": echo}) as lab:
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            await visit.open()
            await change(running, config | {"server": {"port": 0, "admin": {"port": 0}, "prot": 1}}, expects=REFUSED)
            problems = visit.main.get_by_role("list", name="Problems of the last reload")
            await expect(problems).to_contain_text("prot: is not a known key; did you mean 'port'?")
            await visit.sees("failed: the configuration before it is in use")

            await visit.follow("Configuration")
            await visit.sees("did you mean 'port'?")
            await visit.sees("The file has changed and cannot be used; the last good one stays in use.")

            await change(running, config)
            await visit.follow("Overview")
            await visit.sees("· in use")
            await expect(problems).to_have_count(0)
