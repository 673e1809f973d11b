"""Calls that take their time: consent that is waited for, results that come later, and calls that are cancelled."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.console.site import Site
from tests.console.visit import Visit
from tests.support.processes import until

pytestmark = pytest.mark.anyio


async def consent(visit: Visit, answer: str) -> None:
    """Opens the link in a page of its own, as a reader does, and answers there."""
    link = visit.outcome.get_by_role("link", name=re.compile("^http:..127.0.0.1:"))
    await expect(link).to_have_attribute("target", "_blank")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    async with visit.page.expect_popup() as opened:
        await link.click()
    page = await opened.value
    await page.get_by_role("button", name=answer).click()
    await expect(page.get_by_role("button", name=answer)).to_have_count(0)
    await page.close()


@pytest.mark.parametrize("dialect", ["oxp", "otc", "mcp"])
async def test_a_call_that_needs_consent_goes_on_by_itself_once_it_is_given(
    visit: Visit, site: Site, dialect: str
) -> None:
    await visit.open(credential=site.token)
    await visit.call("Mail.Search", {"query": "invoice", "User": f"reader-{dialect}"}, dialect=dialect)
    await expect(visit.outcome).to_contain_text("Open this page and give your consent.")
    await consent(visit, "Connect")
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome).to_contain_text("subject")


async def test_a_call_whose_user_declines_is_refused(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Mail.Search", {"query": "invoice", "User": "decliner"})
    await consent(visit, "Decline")
    await expect(visit.outcome).to_contain_text("Refused: the tool has not run")
    await expect(visit.outcome).to_contain_text("The user declined, or the link has expired.")


async def test_a_call_under_way_that_asks_for_consent_goes_on_where_it_was(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Builds.deploy", credential=site.token)
    await visit.field("target").select_option(label="staging")
    user = visit.field("User")
    if not await user.is_visible():
        await visit.main.get_by_text("Options", exact=True).click()
    await user.fill("deployer")
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("Open this page and give your consent.")
    await consent(visit, "Connect")
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome).to_contain_text("staging")


@pytest.mark.parametrize("dialect", ["oxp", "mcp"])
async def test_a_call_that_outlasts_its_route_is_followed_to_its_end(visit: Visit, site: Site, dialect: str) -> None:
    await visit.open(credential=site.token)
    await visit.call("Builds.build", {"seconds": "4"}, dialect=dialect)
    await expect(visit.outcome).to_contain_text("The tool is still running")
    await expect(visit.button("Call")).to_be_disabled()
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome).to_contain_text('"built"')
    await expect(visit.button("Call")).to_be_enabled()


async def test_a_call_that_does_not_wait_is_followed_from_the_first_answer_on(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Builds.build", credential=site.token)
    await visit.main.get_by_text("Options", exact=True).click()
    await visit.field("Do not wait: answer at once, and be asked").check()
    await visit.field("seconds").fill("0.5")
    await visit.button("Call").click()
    await visit.sees(re.compile("POST /oxp/tools/call.*202"))
    await expect(visit.outcome).to_contain_text("Result")
    await visit.sees("GET /calls/")


async def test_a_plain_call_is_cancelled_where_it_runs(visit: Visit, site: Site) -> None:
    given_up = site.waiting.given_up
    await visit.open(credential=site.token)
    await visit.call("Slow.Wait")
    await until(lambda: len(site.own.calls("Slow.Wait")) > 0, "the tool runs")
    await visit.main.get_by_role("button", name="Cancel", exact=True).click()
    await expect(visit.outcome).to_contain_text(re.compile("Cancelled|connection was closed"))
    await until(lambda: site.waiting.given_up > given_up, "the tool server is told")
    await expect(visit.button("Call")).to_be_enabled()


async def test_a_call_that_is_asked_for_is_cancelled_by_its_id(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Builds.build", credential=site.token)
    await visit.main.get_by_text("Options", exact=True).click()
    await visit.field("Do not wait: answer at once, and be asked").check()
    await visit.field("seconds").fill("50")
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("The tool is still running")
    await visit.main.get_by_role("button", name="Cancel", exact=True).click()
    await expect(visit.outcome).to_contain_text("Cancelled")
    await visit.sees(re.compile(r"DELETE /calls/\S+"))
    await visit.follow("Calls")
    await expect(visit.row("Builds.build")).to_have_count(0)
