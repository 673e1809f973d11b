"""One browser and one site for all tests of a process; they change nothing the others rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

from tests.console import programs
from tests.console.site import Site, fleet_site
from tests.console.visit import Visit, visiting


@pytest.fixture(scope="session")
async def browser(anyio_backend: object) -> AsyncIterator[Browser]:
    path = programs.browser()
    async with async_playwright() as playwright:
        # Who runs as root in a container, as the tests may, has to do without its sandbox.
        running = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        await running.close()


@pytest.fixture(scope="session")
async def site(anyio_backend: object, browser: Browser) -> AsyncIterator[Site]:
    async with fleet_site() as running:
        yield running


@pytest.fixture
async def visit(browser: Browser, site: Site) -> AsyncIterator[Visit]:
    """A reader with a window of their own, who has not opened a page yet."""
    async with visiting(browser, site.url) as reader:
        yield reader
