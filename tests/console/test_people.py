"""For people: by keyboard alone, with a screen reader, on a phone, in light and in dark."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser, expect

from tests.console.site import EVERY_KIND, Site
from tests.console.visit import PHONE, Visit, visiting
from tests.support import processes
from tests.support.calling import call
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

PAGES = {
    "Overview": "#/",
    "Backends": "#/backends",
    "Tools": "#/tools",
    "Calls": "#/calls",
    "Log": "#/log",
    "Configuration": "#/configuration",
}
FOCUSED = "() => document.activeElement.textContent.trim() || document.activeElement.id"

Judge = Callable[[Visit], Awaitable[list[str]]]


async def tab_to(visit: Visit, words: str) -> None:
    """Presses Tab until what has the focus is called that."""
    for _ in range(60):
        await visit.page.keyboard.press("Tab")
        if await visit.page.evaluate(FOCUSED) == words:
            return
    raise AssertionError(f"Tab does not lead to {words}")


async def see_all(visit: Visit, site: Site, judge: Judge) -> None:
    """Judges every page while it has something to show, and a tool's page before and after calls."""
    async with site.caller() as http:
        await call(http, "Text.Echo", {"value": 1})
        await call(http, "No.Tool")
        body = {"tool_id": "Builds.build", "input": {"seconds": 50}}
        headers = {"oxp-version": "1.0", "prefer": "respond-async"}
        accepted = await http.post("/oxp/tools/call", json=body, headers=headers)
        found = {}
        await visit.open(credential=site.token)
        for name, path in PAGES.items():
            await visit.open(path)
            await expect(visit.heading).to_have_text(name)
            await visit.sees(re.compile("Builds|builds|State store"))
            found[name] = await judge(visit)
        await visit.row("Builds.build").or_(visit.heading).first.wait_for()
        await visit.open("#/log")
        await visit.main.get_by_role("button", name="Details of").first.click()
        found["a line of the log"] = await judge(visit)
        await visit.open("#/tools/Forms.Everything")
        for name in ("address", "items", "payment"):
            await visit.field(f"Send {name}").check()
        await visit.button("Add item").first.click()
        found["a form"] = await judge(visit)
        await visit.button("Call").click()
        await expect(visit.outcome).to_contain_text("Refused")
        found["a refusal"] = await judge(visit)
        await visit.call("Calculator.Add", {"a": "2", "b": "40"})
        await expect(visit.outcome).to_contain_text("Result")
        found["a result"] = await judge(visit)
        await visit.open("#/tools/Hostile.Attack")
        found["words of others"] = await judge(visit)
        await http.delete(accepted.headers["location"])
    assert {name: findings for name, findings in found.items() if findings} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_has_nothing_serious_to_say_of_any_page(browser: Browser, site: Site, scheme: str) -> None:
    async with visiting(browser, site.url, color_scheme=scheme) as visit:
        await see_all(visit, site, Visit.judged)


async def test_no_page_scrolls_sideways_on_a_phone(browser: Browser, site: Site) -> None:
    async with visiting(browser, site.url, viewport=PHONE, has_touch=True, is_mobile=True) as visit:
        await see_all(visit, site, Visit.too_wide)


async def test_a_tool_is_found_and_called_by_keyboard_alone(visit: Visit, site: Site) -> None:
    keyboard = visit.page.keyboard
    await visit.open(credential=site.token)
    await visit.page.evaluate("document.activeElement.blur()")
    await keyboard.press("Tab")
    assert await visit.page.evaluate(FOCUSED) == "Skip to the content"
    await keyboard.press("Enter")
    assert await visit.page.evaluate("document.activeElement.id") == "main"

    await tab_to(visit, "Tools")
    await keyboard.press("Enter")
    await expect(visit.heading).to_have_text("Tools")
    await expect(visit.heading).to_be_focused()  # where a screen reader goes on
    await tab_to(visit, "search")
    await keyboard.type("calculator")
    await visit.sees("2 of 31 tools")
    await keyboard.press("ArrowDown")
    assert await visit.page.evaluate(FOCUSED) == "Calculator.Add"
    await keyboard.press("ArrowDown")
    assert await visit.page.evaluate(FOCUSED) == "Calculator.Divide"
    await keyboard.press("ArrowUp")
    await keyboard.press("Enter")
    await expect(visit.heading).to_have_text("Calculator.Add")

    for label, text in (("a", "2"), ("b", "40")):
        for _ in range(30):
            await keyboard.press("Tab")
            if await visit.field(label).evaluate("(node) => node === document.activeElement"):
                break
        await keyboard.type(text)
    await keyboard.press("Control+Enter")
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome.get_by_label("Result")).to_have_text("42")
    await expect(visit.page.locator("#notice")).to_have_text("The call has a result.")


async def test_every_field_of_a_form_has_a_name_and_its_hint(visit: Visit) -> None:
    await visit.open("#/tools/Forms.Everything")
    for name in ("name", "note", "count", "weight", "express", "colour", "size", "anything"):
        assert name in EVERY_KIND["properties"]
        await expect(visit.field(name)).to_be_visible()
    await expect(visit.field("name")).to_have_accessible_description(re.compile("Who orders.*at least 2 characters"))


async def test_focus_and_words_outlive_the_updates_of_a_page(visit: Visit, site: Site) -> None:
    await visit.open("#/backends")
    button = visit.button("Refresh office")
    await button.focus()
    before = len([url for url in visit.requests if url.endswith("api/backends")])

    async def asked_again() -> bool:
        return len([url for url in visit.requests if url.endswith("api/backends")]) >= before + 2

    await processes.until(asked_again, "the page has asked again")
    await expect(button).to_be_focused()


async def test_a_gateway_without_tools_says_on_every_page_that_there_is_nothing(browser: Browser) -> None:
    async with tool_server({"Lab.Echo": echo}, []) as lab:
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with processes.gateway(config) as running, visiting(browser, running.admin_url) as visit:
            for path, words in {
                "#/": "No calls in the last 15 minutes.",
                "#/tools": "No tool is known yet. The backends say why.",
                "#/calls": "No calls are running or waiting.",
                "#/log": "No requests yet.",
            }.items():
                await visit.open(path)
                await visit.sees(words)
                assert await visit.judged() == []
