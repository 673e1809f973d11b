"""The first minute: `toolgate demo`, its link, and a tool that is called."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, expect

from tests.console.visit import visiting
from tests.support.demonstration import Demo, running_demo

pytestmark = pytest.mark.anyio

LINK = re.compile(r"^(http://\S+)/console/#credential=(\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def demo(browser: Browser) -> Iterator[Demo]:
    with running_demo() as running:
        yield running


async def test_three_clicks_lead_from_the_overview_to_a_tool_that_was_called(browser: Browser, demo: Demo) -> None:
    ((url, credential),) = LINK.findall(demo.screen)
    async with visiting(browser, url) as visit:
        await visit.page.goto(f"{url}/console/#credential={credential}")
        await expect(visit.heading).to_have_text("Overview")
        assert credential not in visit.page.url
        await visit.offer.get_by_role("button", name="Use it").click()

        await visit.navigation.get_by_role("link", name="Tools", exact=True).click()
        await visit.link(re.compile(r"^Crumbs\.random")).click()
        await visit.button("Call").click()
        await visit.sees('"numbers"')
