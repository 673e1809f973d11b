"""What the console costs: in bytes, until something is seen, with 10,000 tools, and while nobody does anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from playwright.async_api import Browser, expect

from gateway.console.files import static_files
from tests.console.site import MANY, Site, large_site
from tests.console.visit import Visit, visiting
from tests.support.processes import GatewayProcess, until

pytestmark = pytest.mark.anyio

MAX_BYTES = 150_000  # of all files together, as they are
MAX_FIRST_PAINT_MS = 300.0
VISITS = 5  # the best counts: it says most of the page and least of the machine
PAGE = 100  # tools that the list shows at first, and more of as one scrolls
WALKS, LONG_TASK_MS = 2, 200.0
CONSOLES, IDLE_S, MAX_SHARE = 3, 10.0, 0.01
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
WATCH_TASKS = """() => { window.tasks = [0]; new PerformanceObserver(
  (list) => tasks.push(...list.getEntries().map((task) => task.duration))).observe({type: 'longtask'}); }"""


def test_all_files_together_are_small() -> None:
    assert sum(len(each.content) for each in static_files().values()) <= MAX_BYTES


@pytest.mark.alone
async def test_something_is_seen_at_once(browser: Browser, site: Site) -> None:
    paints: list[float] = []
    for _ in range(VISITS):
        async with visiting(browser, site.url) as visit:
            await visit.open()
            await visit.until(f"() => ({FIRST_PAINT}) !== null", "something is painted")
            paints.append(await visit.page.evaluate(FIRST_PAINT))
    assert min(paints) < MAX_FIRST_PAINT_MS, paints


@pytest.fixture(scope="module")
async def large(anyio_backend: object) -> AsyncIterator[GatewayProcess]:
    async with large_site() as running:
        yield running


async def longest_task_ms(visit: Visit) -> float:
    """Scrolls through a part of a large catalogue, searches it and goes to a tool; the longest time nothing moved.

    The page is looked at by small scripts: to find elements by their roles and labels takes as long as it must not.
    """
    keyboard = visit.page.keyboard

    async def shown(rows: int) -> None:
        await visit.until(f"() => document.querySelectorAll('#tools li').length === {rows}", f"{rows} tools are shown")

    async def scrolled(rows: int) -> bool:
        await keyboard.press("End")  # which is an estimate where rows were never drawn, and so may fall short
        return bool(await visit.page.evaluate(f"document.querySelectorAll('#tools li').length >= {rows}"))

    await visit.open("#/tools")
    await visit.page.reload()
    await visit.sees(f"{MANY:,} tools")
    await shown(PAGE)
    await visit.page.evaluate(WATCH_TASKS)
    for pages in range(2, 6):
        await until(lambda: scrolled(PAGE * pages), "more tools are shown")  # noqa: B023 - awaited here
    await visit.page.evaluate("document.getElementById('search').focus()")
    await keyboard.type("tool1234 many", delay=20)
    await shown(1)
    await keyboard.press("Control+A")
    await keyboard.type("kit7")
    await shown(PAGE)
    await keyboard.press("ArrowDown")
    await keyboard.press("Enter")
    await expect(visit.heading).to_have_text("Kit7.Tool700")
    return float(await visit.page.evaluate("Math.max(...tasks)"))


@pytest.mark.alone
async def test_ten_thousand_tools_are_searched_and_scrolled_without_a_stutter(
    browser: Browser, large: GatewayProcess
) -> None:
    async with visiting(browser, large.admin_url) as visit:
        longest = [await longest_task_ms(visit) for _ in range(WALKS)]
    assert min(longest) < LONG_TASK_MS, longest


@pytest.mark.alone
async def test_consoles_that_nobody_touches_cost_next_to_nothing(browser: Browser, site: Site) -> None:
    """Waits, as nothing else here: what is measured is time in which nothing happens."""
    async with AsyncExitStack() as stack:
        for _ in range(CONSOLES):
            visit = await stack.enter_async_context(visiting(browser, site.url))
            await visit.open()
        before = site.gateway.processor_s()
        await asyncio.sleep(IDLE_S)
        used = site.gateway.processor_s() - before
    assert used <= IDLE_S * MAX_SHARE
