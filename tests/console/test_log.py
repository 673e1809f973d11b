"""The log: the latest lines as they are written, filtered and held."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import expect

from tests.console.site import Site
from tests.console.visit import ZONE, Visit
from tests.support.calling import call

pytestmark = pytest.mark.anyio

KEPT = 500


async def test_lines_come_by_themselves_and_say_all_they_have(visit: Visit, site: Site) -> None:
    await visit.open("#/log?q=clock.sleep")
    await expect(visit.row("Clock.Sleep")).to_have_count(0)
    async with site.caller() as http:
        await call(http, "Clock.Sleep", {"seconds": 0}, call_id="logged-1")
    row = visit.row("Clock.Sleep").first
    await expect(row).to_contain_text(re.compile(r"200.*ada"))
    await row.get_by_role("button", name="Details of Clock.Sleep").click()
    details = visit.row("logged-1")
    for words in ("office", "otc", "logged-1"):
        await expect(details).to_contain_text(words)
    stated = datetime.fromisoformat(str(await row.get_by_role("time").get_attribute("datetime")))
    await expect(row.get_by_role("time")).to_have_text(f"{stated.astimezone(ZoneInfo(ZONE)):%H:%M:%S}")


async def test_a_filter_takes_words_and_fields(visit: Visit, site: Site) -> None:
    async with site.caller() as http:
        await call(http, "Text.Echo", {"value": 1})
        await call(http, "Text.Echo", {"value": 1, "unknown": 2})
    await visit.open("#/log")
    await visit.field("Filter").fill("status:4 tool:text")
    await visit.sees(re.compile(r"\d+ of \d+ lines"))
    await expect(visit.row("Text.Echo").first).to_contain_text("422")
    await expect(visit.row(re.compile(r"\b200\b"))).to_have_count(0)


async def test_a_held_log_stands_still_and_catches_up(visit: Visit, site: Site) -> None:
    await visit.page.clock.install()
    await visit.open("#/log?q=paused")
    await visit.button("Pause").click()
    async with site.caller() as http:
        await call(http, "Text.Echo", {"value": 1}, call_id="paused-1")
        asked = len(visit.requests)
        await visit.page.clock.fast_forward(10_000)  # longer than until the next look
        assert not any("api/log" in url for url in visit.requests[asked:])
        await expect(visit.row("Text.Echo")).to_have_count(0)
        await visit.button("Resume").click()
        await expect(visit.row("Text.Echo")).to_have_count(1)


async def test_no_more_than_the_last_lines_are_shown(visit: Visit, site: Site) -> None:
    await visit.open("#/log")
    async with site.caller() as http:
        for number in range(KEPT + 1):
            await call(http, "Text.Echo", {"value": number}, call_id=f"many-{number}")
    await visit.sees(f"{KEPT} lines")
    await visit.field("Filter").fill("many-")
    await visit.sees(f"{KEPT} lines")
    await expect(visit.main.get_by_role("button", name="Details of")).to_have_count(KEPT)
    await visit.page.reload()
    await visit.sees(f"{KEPT} lines")
