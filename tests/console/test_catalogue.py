"""The tools: found as one types, and each with all that a caller has to know."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import expect

from tests.console.site import EVERY_KIND, Site
from tests.console.visit import Visit
from tests.support.calling import call

pytestmark = pytest.mark.anyio


async def test_words_narrow_the_list_as_they_are_typed_and_the_address_keeps_them(visit: Visit) -> None:
    await visit.open("#/tools")
    await visit.sees("31 tools")
    await visit.field("Search").press_sequentially("MAIL sender")
    await visit.sees("1 of 31 tools")  # by a word of its description
    await expect(visit.link(re.compile("."))).to_have_text(["Mail.Search"])
    assert visit.page.url.endswith("#/tools?q=MAIL+sender")
    await visit.page.reload()
    await expect(visit.field("Search")).to_have_value("MAIL sender")
    await visit.sees("1 of 31 tools")


async def test_tools_whose_name_has_the_word_come_first(visit: Visit) -> None:
    await visit.open("#/tools?q=echo")
    first = visit.main.get_by_role("list", name="Tools").get_by_role("listitem").first
    await expect(first).to_contain_text(re.compile(r"^(Crumbs\.echo|Text\.Echo)"))


async def test_the_list_can_be_that_of_one_backend(visit: Visit) -> None:
    await visit.open("#/tools")
    await visit.field("Backend").select_option("crumbs")
    await visit.sees("3 of 31 tools")
    items = visit.main.get_by_role("list", name="Tools").get_by_role("listitem")
    await expect(items).to_have_count(3)
    await expect(items.first).to_contain_text("crumbs (rcrt)")
    await visit.field("Search").fill("time")
    await expect(items).to_have_count(1)


async def test_a_row_says_what_the_tool_needs(visit: Visit) -> None:
    await visit.open("#/tools")
    items = visit.main.get_by_role("list", name="Tools").get_by_role("listitem")
    await expect(items.filter(has_text="Mail.Search")).to_contain_text("needs user")
    await expect(items.filter(has_text="Mail.Search")).to_contain_text("needs consent")
    await expect(items.filter(has_text="Sms.Send")).to_contain_text("needs secret")
    await expect(items.filter(has_text="Forms.Everything")).to_contain_text("scope forms:fill")
    await expect(items.filter(has_text="Calculator.Add")).to_contain_text("(2 versions)")


async def test_nothing_found_is_said(visit: Visit) -> None:
    await visit.open("#/tools?q=zeppelin")
    await visit.sees("No tool matches.")


async def test_a_tools_page_has_its_route_its_scopes_and_what_it_needs(visit: Visit) -> None:
    await visit.open("#/tools/Builds.build")
    for words in ("Builds, for as long as told.", "builds (callback)", "Route*", "Timeout3 s", "Scopesnone"):
        await visit.sees(words)
    await visit.open("#/tools/Forms.Everything")
    for words in ("RouteForms.*", "Scopesforms:fill", "In MCPForms_Everything", "Takes an order."):
        await visit.sees(words)
    await visit.open("#/tools/Mail.Search")
    await visit.sees("Needsa user, consent demo-mail")


async def test_each_version_has_a_page_of_its_own(visit: Visit) -> None:
    await visit.open("#/tools/Calculator.Add")
    await visit.sees("Version1.1.0, 1.0.0")
    await visit.link("1.0.0", exact=True).click()
    await visit.sees("Version1.0.0, 1.1.0")
    assert visit.page.url.endswith("#/tools/Calculator.Add?version=1.0.0")


async def test_the_schema_is_a_tree_that_can_be_read_as_json(visit: Visit) -> None:
    await visit.open("#/tools/Forms.Everything")
    tree = visit.main.get_by_role("list", name="What it takes")
    for words in (
        "Who orders.",
        "1 to 9",
        "default 3",
        'one of "red" "green" "blue"',
        "matches ^[0-9]{4}$",
        "each item",
    ):
        await expect(tree).to_contain_text(words)
    await expect(tree.get_by_role("listitem").filter(has_text=re.compile("^street"))).to_contain_text("required")
    await visit.main.get_by_text("JSON Schema").first.click()
    written = visit.field("What it takes, as JSON Schema")
    await expect(written).to_contain_text("{")
    assert json.loads(await written.inner_text())["properties"] == EVERY_KIND["properties"]


async def test_a_tools_page_counts_its_calls_and_failures_and_says_how_long_they_took(visit: Visit, site: Site) -> None:
    async with site.caller() as http:
        for _ in range(2):
            await call(http, "Calculator.Divide", {"a": 6, "b": 3})
        await call(http, "Calculator.Divide", {"a": 6, "b": 0})
    await visit.open("#/tools/Calculator.Divide")
    await visit.sees(re.compile("Calls.*ok: 2, "))
    await visit.sees(re.compile("Calls.*tool error: 1"))
    await visit.sees(re.compile(r"Times lately.* half of 3 calls, .* nearly all"))


async def test_a_tool_that_is_not_there_is_said_with_a_way_out(visit: Visit) -> None:
    visit.expect_error("404")
    await visit.open("#/tools/No.Tool")
    await expect(visit.heading).to_have_text("No.Tool")
    await visit.sees("There is no such tool.")
    await expect(visit.button("Try again")).to_be_visible()


async def test_a_page_that_is_not_there_leads_to_the_overview(visit: Visit) -> None:
    await visit.open("#/nowhere/at/all")
    await expect(visit.heading).to_have_text("There is no such page")
    await visit.link("Go to the overview").click()
    await expect(visit.heading).to_have_text("Overview")
