"""One reader of the console: a page of a real browser, watched for everything that must never happen on it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from tests.console.programs import axe
from tests.support.processes import until

DEADLINE_MS = 30_000.0  # for anything a reader waits for; all of it takes a moment on an idle machine
ZONE = "America/New_York"  # not that of the machine: times are those of the reader
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
WATCH = """addEventListener('securitypolicyviolation',
  (event) => reportViolation(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`))"""
WIDER_THAN_THE_WINDOW = """() => document.documentElement.scrollWidth > innerWidth
  ? [...document.querySelectorAll('body *')].filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
      .map((node) => node.outerHTML.slice(0, 120)) : []"""

expect.set_options(timeout=DEADLINE_MS)


class Visit:
    """A reader of the console at `url`; `problems` is what went wrong, `expect_error` takes a kind of it out."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.problems.append(f"asked another host: {request.url}")

    def expect_error(self, pattern: str) -> None:
        """Takes errors of the browser's console for part of the test, such as that of a gateway that is away."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """The problems the test did not announce."""
        return [line for line in self.problems if not any(pattern.search(line) for pattern in self._expected)]

    async def open(self, path: str = "#/", *, credential: str | None = None) -> None:
        """Opens the console at a page; waits until its heading is there. The credential is that of a link."""
        if credential is not None:
            await self.page.goto(f"{self.url}/console/#credential={credential}")
            await expect(self.heading).to_be_visible()
            await self.offer.get_by_role("button", name="Use it").click()
        await self.page.goto(f"{self.url}/console/{path}")
        await expect(self.heading).to_be_visible()

    async def follow(self, name: str) -> None:
        """Goes to a page by its link in the navigation."""
        await self.navigation.get_by_role("link", name=name, exact=True).click()
        await expect(self.heading).to_have_text(name)

    @property
    def navigation(self) -> Locator:
        return self.page.get_by_role("navigation").first

    @property
    def offer(self) -> Locator:
        """What asks whether to use the credential of a link."""
        return self.page.get_by_role("region", name="Credential of a link")

    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    @property
    def heading(self) -> Locator:
        return self.page.get_by_role("heading", level=1)

    def button(self, name: str | re.Pattern[str]) -> Locator:
        return self.main.get_by_role("button", name=name)

    def link(self, name: str | re.Pattern[str], *, exact: bool = False) -> Locator:
        return self.main.get_by_role("link", name=name, exact=exact)

    def row(self, text: str | re.Pattern[str]) -> Locator:
        """The rows of tables that have a text."""
        return self.main.get_by_role("row").filter(has_text=text)

    def field(self, name: str) -> Locator:
        """A field by the whole of its label."""
        return self.main.get_by_label(name, exact=True)

    def card(self, name: str) -> Locator:
        """The part of a list under a heading."""
        heading = self.page.get_by_role("heading", name=name, exact=True)
        return self.main.get_by_role("listitem").filter(has=heading)

    @property
    def outcome(self) -> Locator:
        return self.main.get_by_role("region", name="Outcome of the call")

    async def call(self, tool: str, fields: Mapping[str, str] | None = None, *, dialect: str | None = None) -> None:
        """Opens a tool's page, fills in the fields and calls it; what is typed in already stays, as the page does."""
        await self.open(f"#/tools/{tool}")
        if dialect is not None:
            await self.field("Dialect").select_option(dialect)
        for name, value in (fields or {}).items():
            await self.field(name).fill(value)
        await self.button("Call").click()

    async def sees(self, text: str | re.Pattern[str]) -> None:
        """Waits for a text on the page."""
        await expect(self.main).to_contain_text(text)

    async def until(self, script: str, what: str) -> None:
        """Waits until a function of the page returns true."""

        async def reached() -> bool:
            return bool(await self.page.evaluate(script))

        await until(reached, what)

    async def too_wide(self) -> list[str]:
        """The elements that are cut off at the right of a page that scrolls sideways."""
        found: list[str] = await self.page.evaluate(WIDER_THAN_THE_WINDOW)
        return found

    async def judged(self) -> list[str]:
        """The serious findings of axe-core."""
        await self.page.evaluate(axe())
        found: dict[str, Any] = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{finding['impact']}: {finding['help']}: {node['html'][:200]}: {node['failureSummary']}"
            for finding in found["violations"]
            if finding["impact"] in ("serious", "critical")
            for node in finding["nodes"]
        ]


@asynccontextmanager
async def visiting(browser: Browser, url: str, **options: Any) -> AsyncIterator[Visit]:
    """Opens a window for a reader, and closes it; fails when something happened that must not."""
    settings = {"timezone_id": ZONE, "locale": "en-GB", "viewport": DESKTOP, "reduced_motion": "reduce"} | options
    context: BrowserContext = await browser.new_context(**settings)
    try:
        context.set_default_timeout(DEADLINE_MS)
        violations: list[str] = []
        await context.expose_binding("reportViolation", lambda _source, text: violations.append(text))
        await context.add_init_script(WATCH)
        visit = Visit(await context.new_page(), url)
        yield visit
        assert violations == [], "the page breaks its own policy"
        assert visit.unexpected() == []
    finally:
        await context.close()
