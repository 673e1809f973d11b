"""A call in every dialect, as it goes over the wire, and as a line for a shell."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.console.site import Site
from tests.console.visit import Visit
from tests.support.tokens import token

pytestmark = pytest.mark.anyio

PATHS = {
    "oxp": "/oxp/tools/call",
    "oxp-env": "/oxp-env/tools/call",
    "otc": "/otc/tools/call",
    "rfc": "/rfc/call",
    "lc": "/lc/tools/call",
}
REVISIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
CURL = "curl command"


async def calculated(visit: Visit) -> None:
    await expect(visit.outcome).to_contain_text("Result")
    await expect(visit.outcome.get_by_label("Result")).to_contain_text("42")


async def run(line: str, **environment: str) -> Any:
    """What a shell gets for a line."""
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", line, stdout=asyncio.subprocess.PIPE, env=os.environ | environment
    )
    out, _ = await shell.communicate()
    assert shell.returncode == 0
    return json.loads(out)


def without_call_id(document: Any) -> Any:
    """An answer without what is new in each."""
    return {name: value for name, value in document.items() if name != "call_id"}


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_tool_is_called_in_each_dialect(visit: Visit, site: Site, dialect: str) -> None:
    await visit.open(credential=site.token)
    await visit.call("Calculator.Add", {"a": "2", "b": "40"}, dialect=dialect)
    await calculated(visit)
    await visit.sees(f"POST {PATHS[dialect]}")
    await expect(visit.field("Response, headers")).to_contain_text("200")
    await visit.open("#/tools/Text.Echo")
    await expect(visit.field("Dialect")).to_have_value(dialect)  # the reader's choice stays


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_is_called_in_each_revision_of_mcp(visit: Visit, site: Site, revision: str) -> None:
    await visit.open("#/tools/Calculator.Add", credential=site.token)
    await visit.field("Dialect").select_option("mcp")
    assert tuple(await visit.field("Revision").get_by_role("option").all_inner_texts()) == REVISIONS
    await visit.field("Revision").select_option(revision)
    await visit.field("a").fill("2")
    await visit.field("b").fill("40")
    await visit.button("Call").click()
    await calculated(visit)
    await expect(visit.field("Request, headers").last).to_contain_text(
        re.compile(f"mcp-protocol-version: {revision}", re.I)
    )


async def test_the_credential_that_is_typed_in_is_the_one_that_is_sent(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Text.Echo")
    await visit.sees("This gateway asks its callers for one.")
    await visit.field("Arguments").get_by_role("textbox").first.or_(visit.field("value")).first.fill('"hello"')
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("unauthenticated")

    await visit.field("Credential").fill(token("grace"))
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("Result")
    await visit.follow("Log")
    await expect(visit.row("Text.Echo").filter(has_text="grace").first).to_be_visible()

    await visit.open("#/tools/Text.Echo")
    await expect(visit.field("Credential")).not_to_have_value("")  # as long as the page
    await visit.button("Clear").click()
    await expect(visit.field("Credential")).to_have_value("")
    await visit.sees("This gateway asks its callers for one.")


async def test_a_scope_that_the_credential_lacks_is_said(visit: Visit) -> None:
    await visit.open(credential=token("grace"))
    await visit.call("Forms.Everything", {"name": "Ada"})
    await expect(visit.outcome).to_contain_text("Refused: the tool has not run")


async def test_a_tool_that_fails_is_told_from_a_call_that_was_refused(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Doorbell.Ring", {"doorbell_id": "doorbell1"})
    await expect(visit.outcome).to_contain_text("The tool failed")
    await expect(visit.outcome).to_contain_text("May be repeatedyes")


async def test_a_secret_that_a_tool_needs_is_asked_for_and_not_shown(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Sms.Send", {"to": "+4712345678", "text": "hello"})
    await expect(visit.outcome).to_contain_text("the secret SMS_API_KEY")
    await expect(visit.field("Secret SMS_API_KEY")).to_be_focused()
    await visit.field("Secret SMS_API_KEY").fill("tell-nobody")
    await expect(visit.field(CURL)).not_to_contain_text("tell-nobody")
    await expect(visit.field(CURL)).to_contain_text("$SMS_API_KEY")
    await visit.button("Call").click()
    await expect(visit.outcome).to_contain_text("queued")
    answer = await run(await visit.field(CURL).inner_text(), TOOLGATE_TOKEN=site.token, SMS_API_KEY="tell-nobody")
    assert answer["value"]["status"] == "queued"


async def test_request_and_response_are_shown_as_on_the_wire_but_for_the_credential(visit: Visit, site: Site) -> None:
    await visit.open(credential=site.token)
    await visit.call("Forms.Everything", {"name": "Ada"})
    await expect(visit.outcome).to_contain_text("Result")
    head = visit.field("Request, headers")
    await expect(head).to_contain_text("POST /oxp/tools/call HTTP/1.1")
    await expect(head).to_contain_text("Authorization: Bearer ••••••••")
    await expect(visit.main).not_to_contain_text(site.token)
    body = json.loads(await visit.field("Request, body").inner_text())
    assert body == {"tool_id": "Forms.Everything", "input": {"name": "Ada", "count": 3}}
    await expect(visit.field("Response, headers")).to_contain_text(re.compile("^HTTP/1.1 200 OK"))
    pretty = await visit.field("Response, body").inner_text()
    assert pretty.count("\n") > 3
    await visit.button("Raw").click()
    raw = await visit.field("Response, body").inner_text()
    assert "\n" not in raw
    assert json.loads(raw) == json.loads(pretty)


@pytest.mark.parametrize("dialect", [*PATHS, "mcp"])
async def test_the_line_for_a_shell_gets_the_same_answer(visit: Visit, site: Site, dialect: str) -> None:
    awkward = 'it\'s "quoted" $HOME `id` \\ !\nøl'
    await visit.open(credential=site.token)
    await visit.call("Forms.Everything", {"name": awkward, "note": awkward}, dialect=dialect)
    await expect(visit.outcome).to_contain_text("Result")
    line = await visit.field(CURL).inner_text()
    assert "$TOOLGATE_TOKEN" in line
    assert site.token not in line
    before = site.own.calls("Forms.Everything")[-1].call["input"]
    answer = await run(line, TOOLGATE_TOKEN=site.token)
    assert "error" not in answer
    assert site.own.calls("Forms.Everything")[-1].call["input"] == before
    assert before["name"] == awkward
    assert json.dumps(awkward, ensure_ascii=False)[1:-1] in json.dumps(answer, ensure_ascii=False)


async def test_options_of_a_call_go_with_it(visit: Visit, site: Site) -> None:
    await visit.open("#/tools/Calculator.Add", credential=site.token)
    await visit.main.get_by_text("Options", exact=True).click()
    await visit.field("Version").select_option("1.0.0")
    await visit.button("Make one").click()
    call_id = await visit.field("Call id").input_value()
    await visit.field("Wait").fill("2")
    await visit.field("a").fill("2")
    await visit.field("b").fill("40")
    await visit.button("Call").click()
    await calculated(visit)
    body = json.loads(await visit.field("Request, body").inner_text())
    assert (body["tool_id"], body["call_id"]) == ("Calculator.Add@1.0.0", call_id)
    await expect(visit.field("Request, headers")).to_contain_text("Prefer: wait=2")
