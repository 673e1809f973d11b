"""The calls that run or wait, and how an operator ends one."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, expect

from tests.console.site import Site, Waiting
from tests.console.visit import Visit, visiting
from tests.support import processes
from tests.support.calling import call, caller
from tests.support.processes import until
from tests.support.toolserver import tool_server

pytestmark = pytest.mark.anyio


async def test_a_call_that_waits_is_listed_and_its_caller_is_told_when_it_is_cancelled(
    visit: Visit, site: Site
) -> None:
    before = len(site.own.calls("Slow.Wait"))
    async with site.caller() as http:
        answer = asyncio.create_task(call(http, "Slow.Wait", call_id="listed-1"))
        await until(lambda: len(site.own.calls("Slow.Wait")) > before, "the tool runs")
        await visit.open("#/calls")
        row = visit.row("Slow.Wait")
        await expect(row).to_contain_text("own")
        await expect(row).to_contain_text("ada")
        await expect(row).to_contain_text(re.compile(r"running.*@1\.0\.0.*\d+ s"))

        await row.get_by_role("button", name="Cancel call of Slow.Wait by ").click()
        await expect(row).to_be_visible()  # once is not enough
        assert not answer.done()
        await row.get_by_role("button", name="Really cancel?").click()
        await visit.sees(re.compile(r"The call of Slow\.Wait by .*ada is cancelled\."))
        await expect(row).to_have_count(0)
        document = (await answer).json()
    assert '"cancelled"' in str(document).replace("'", '"')
    await until(lambda: site.waiting.given_up > 0, "the tool server is told")


async def test_a_call_that_a_tool_server_works_on_is_cancelled_too(visit: Visit, site: Site) -> None:
    async with site.caller() as http:
        accepted = await http.post(
            "/oxp/tools/call",
            json={"tool_id": "Builds.build", "input": {"seconds": 55}, "call_id": "listed-2"},
            headers={"oxp-version": "1.0", "prefer": "respond-async"},
        )
        assert accepted.status_code == 202
        await visit.open("#/calls")
        row = visit.row("Builds.build")
        await expect(row).to_contain_text("the tool server works on it")
        await row.get_by_role("button", name="Cancel").click()
        await row.get_by_role("button", name="Really cancel?").click()
        await expect(row).to_have_count(0)
        ended = await http.get(accepted.headers["location"])
    assert ended.json()["error"]["code"] == "cancelled"


async def test_a_call_whose_user_has_to_consent_says_that_it_waits_for_it(visit: Visit, site: Site) -> None:
    async with site.caller() as http:
        body = {"tool_id": "Builds.deploy", "input": {"target": "staging"}, "context": {"user_id": "nobody-there"}}
        await http.post("/oxp/tools/call", json=body, headers={"oxp-version": "1.0"})
    await visit.open("#/calls?q=deploy")
    row = visit.row("Builds.deploy")
    await expect(row).to_contain_text("waits for its user's consent")
    await row.get_by_role("button", name="Cancel").click()
    await row.get_by_role("button", name="Really cancel?").click()
    await expect(row).to_have_count(0)


async def test_the_list_is_filtered_and_comes_and_goes_by_itself(browser: Browser) -> None:
    waiting = Waiting()
    async with tool_server({"Lab.One": waiting, "Lab.Two": waiting}) as lab:
        config = processes.settings({"lab": {"protocol": "otc", "url": lab.url}})
        async with (
            processes.gateway(config) as running,
            caller(running.url) as http,
            visiting(browser, running.admin_url) as visit,
        ):
            await visit.open("#/calls")
            await visit.sees("No calls are running or waiting.")
            calls = [asyncio.create_task(call(http, tool)) for tool in ("Lab.One", "Lab.Two")]
            await expect(visit.row("Lab.One")).to_be_visible()
            await expect(visit.row("Lab.Two")).to_be_visible()
            await visit.field("Filter").fill("two running")
            await expect(visit.row("Lab.One")).to_have_count(0)
            await visit.sees("1 of 2 calls")
            waiting.release.set()
            await asyncio.gather(*calls)
            await visit.sees("No calls are running or waiting.")
            await expect(visit.row("Lab.Two")).to_have_count(0)
