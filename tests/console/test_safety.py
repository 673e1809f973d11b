"""What must never happen, whatever tool servers and other sites try; `visiting` looks for most of it in every test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, expect

from tests.console.site import ATTACK_HTML, ATTACK_MARKDOWN, Site
from tests.console.visit import Visit
from tests.streams import accepting, http_reply, read_request
from tests.support import processes
from tests.support.calling import call
from tests.support.tokens import token

pytestmark = pytest.mark.anyio

QUESTIONS = ("session", "overview", "backends", "tools", "tools/Text.Echo", "calls", "log", "configuration")
CHANGES = ("backends/own/refresh", "calls/cancel", "send")
MARKUP = """() => [...document.querySelectorAll('main *')].some((node) => node.matches(
  'script, style, iframe, object, main img, [onerror], [href^="javascript:"], [href*="198.51.100.7"]'))"""
STORED = (
    "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.title])"
)


async def harmless(visit: Visit) -> None:
    """Asserts that no words of others became markup, and that the page is still there to be seen."""
    assert await visit.page.evaluate(MARKUP) is False
    assert "owned" not in await visit.page.title()
    await expect(visit.heading).to_be_visible()


@pytest.mark.parametrize(("choice", "credential"), [("Use it", "a.foreign.token"), ("Discard it", "")])
async def test_the_credential_of_a_link_is_used_only_if_its_reader_agrees(
    visit: Visit, site: Site, choice: str, credential: str
) -> None:
    """Whoever makes the link sees what is called with a credential of theirs."""
    await visit.open("#/tools/Calculator.Add")
    await visit.page.goto(f"{site.url}/console/#credential=a.foreign.token")
    await visit.follow("Tools")
    await visit.link("Calculator.Add").click()
    field = visit.page.locator("#credential")
    await expect(field).to_have_value("")
    await visit.offer.get_by_role("button", name=choice).click()
    await expect(visit.offer).to_be_hidden()
    await expect(field).to_have_value(credential)


# The words of tool servers


async def test_the_list_shows_the_words_of_a_tool_server_as_text(visit: Visit) -> None:
    await visit.open("#/tools?q=hostile")
    await visit.sees('<img src=x onerror="document.title')
    await visit.sees("![x](http://198.51.100.7/x.png) [press](javascript:")
    await harmless(visit)


async def test_a_tools_page_shows_names_descriptions_and_values_of_its_schema_as_text(visit: Visit) -> None:
    await visit.open("#/tools/Hostile.Attack")
    await visit.sees(ATTACK_HTML + ATTACK_MARKDOWN)
    tree = visit.main.get_by_role("list", name="What it takes")
    await expect(tree).to_contain_text(ATTACK_HTML)
    await visit.field("Send choice").check()
    await visit.main.get_by_text("JSON Schema").first.click()
    await expect(visit.field("What it takes, as JSON Schema")).to_contain_text("198.51.100.7")
    await harmless(visit)


async def test_a_result_is_shown_as_text(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Hostile.Attack")
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome).to_contain_text("<script>document.title=")
    await expect(visit.field("Response, body")).to_contain_text("<script>document.title=")
    await harmless(visit)


async def test_a_failure_is_shown_as_text_without_links(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Hostile.Fail")
    await expect(visit.outcome).to_contain_text("The tool failed")
    await expect(visit.outcome).to_contain_text(ATTACK_HTML)
    await expect(visit.outcome).to_contain_text("![x](http://198.51.100.7/x.png)")
    await expect(visit.outcome.get_by_role("link")).to_have_count(0)
    await harmless(visit)


async def test_log_and_calls_show_the_words_of_callers_as_text(visit: Visit, site: Site) -> None:
    before = len(site.own.calls("Slow.Wait"))
    name = f"{ATTACK_HTML[:120]}<b>caller</b>"
    headers = {"authorization": f"Bearer {token(name)}"}
    async with site.caller() as http:
        http.headers.update(headers)
        waiting = asyncio.create_task(call(http, "Slow.Wait", call_id=ATTACK_HTML[:60]))
        await processes.until(lambda: len(site.own.calls("Slow.Wait")) > before, "the tool runs")
        await visit.open("#/calls")
        await expect(visit.row("<b>caller</b>")).to_be_visible()
        await harmless(visit)
        await visit.row("<b>caller</b>").get_by_role("button", name="Cancel").click()
        await visit.row("<b>caller</b>").get_by_role("button", name="Really").click()
        await waiting
    await visit.follow("Log")
    await visit.row("<b>caller</b>").first.get_by_role("button", name="Details").click()
    await visit.sees("<img src=x onerror=")
    await harmless(visit)


@pytest.mark.parametrize(
    "path", ["#/tools?q=<b>x</b>", "#/tools/<img src=x onerror=alert(1)>", "#/<script>", "#/log?q=%"]
)
async def test_the_address_is_text_too(visit: Visit, path: str) -> None:
    visit.expect_error("404|400")
    await visit.open(path)
    await harmless(visit)


# The credential


async def test_the_credential_is_kept_in_the_memory_of_the_page_alone(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Calculator.Add", {"a": "2", "b": "40"})
    await expect(visit.outcome).to_contain_text("Result")
    assert site.token not in await visit.page.evaluate(STORED)
    assert not any(site.token in url for url in visit.requests)
    assert await visit.page.context.cookies() == []
    for page in ("Overview", "Log", "Configuration"):
        await visit.follow(page)
        assert site.token not in await visit.page.content()
    await visit.page.go_back()
    assert site.token not in visit.page.url
    assert site.token not in site.gateway.log_text()
    await visit.page.reload()
    await visit.open("#/tools/Calculator.Add")
    await expect(visit.field("Credential")).to_have_value("")


# Other sites


@asynccontextmanager
async def other_site() -> AsyncIterator[str]:
    """A page of another origin."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(http_reply(200, b"<!doctype html><title>other</title>", content_type="text/html"))
        writer.close()

    async with accepting(answer) as port:
        yield f"http://127.0.0.1:{port}/"


async def test_a_page_of_another_origin_gets_nothing_and_changes_nothing(browser: Browser, site: Site) -> None:
    asking = """async ([url, method, body]) => {
      const send = (mode) => fetch(url, {method, body, mode}).then((answer) => answer.type, () => 'refused');
      return [await send('cors'), await send('no-cors')]; }"""
    call_of_a_tool = {
        "method": "POST",
        "path": "/oxp/tools/call",
        "headers": [["Content-Type", "application/json"], ["Authorization", f"Bearer {site.token}"]],
        "body": json.dumps({"tool_id": "Forms.Everything", "input": {"name": "Eve", "count": 1}}),
    }
    before = len(site.own.requests)
    async with other_site() as elsewhere:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(elsewhere)
        for path in (*QUESTIONS, "../main.js"):
            answers = await page.evaluate(asking, [f"{site.url}/console/api/{path}", "GET", None])
            assert answers == ["refused", "refused"], path
        for path in CHANGES:
            answers = await page.evaluate(
                asking, [f"{site.url}/console/api/{path}", "POST", json.dumps(call_of_a_tool)]
            )
            assert answers == ["refused", "refused"], path
        await context.close()
    assert len(site.own.requests) == before


async def test_a_link_that_leads_nowhere_good_is_no_link(visit: Visit) -> None:
    """The gateway lets no such address of a tool server through, so the answer is made up here."""
    challenge = {"id": "x", "url": "javascript:document.title='owned'"}
    refusal = {"message": "Consent.", "missing_requirements": {"authorization": [challenge]}}
    lines = (
        {"request": {"line": "POST / HTTP/1.1", "headers": [], "body": ""}},
        {"response": {"line": "HTTP/1.1 400 Bad Request", "status": 400, "headers": []}},
        {"data": json.dumps(refusal)},
        {"end": {"duration_s": 0.1, "bytes": 1, "truncated": False}},
    )
    body = "\n".join(map(json.dumps, lines))
    await visit.page.route("**/console/api/send", lambda route: route.fulfill(body=body))
    await visit.call("Slow.Wait")
    await expect(visit.outcome).to_contain_text(str(challenge["url"]))
    await expect(visit.outcome.get_by_role("link")).to_have_count(0)
    await visit.outcome.get_by_text(str(challenge["url"])).click()
    await harmless(visit)
