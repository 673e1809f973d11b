"""A chain of two gateways answers as one does, whatever dialect the caller speaks and whatever lies between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.protocols.otc.chain import lab
from tests.protocols.otc.chain.conftest import LINKS, Chain
from tests.protocols.otc.chain.speaking import DIALECTS, agreed, call, catalogue

NESTED = {"list": [[], {}, [{"deep": [1, [2, [3, {"end": None}]]]}]], "": "no name", "a/b~c": True}
SUM = {"a": 1, "b": 2}
CALLS: dict[str, tuple[str, Any]] = {
    "integers beyond doubles": ("Text.Echo", {"value": [2**53 + 1, -(2**64), 10**400]}),
    "doubles": ("Text.Echo", {"value": [0.1, -1.5e300, 5e-324, 1.0]}),
    "unicode": ("Text.Echo", {"value": "Ærøskøbing \U0001f9ea \u0000 \u2028 \u202e e\u0301"}),
    "nested": ("Text.Echo", {"value": NESTED}),
    "null": ("Text.Echo", {"value": None}),
    "false": ("Text.Echo", {"value": False}),
    "a value that looks like an answer": ("Text.Echo", {"value": {"result": {"success": False}, "output": {}}}),
    "a tool that returns nothing": ("Doorbell.Ring", {"doorbell_id": "doorbell42"}),
    "the latest version": ("Calculator.Add", {**SUM, "terms": [3, 4]}),
    "an exact version": ("Calculator.Add@1.0.0", SUM),
    "a major version": ("Calculator.Add@1", SUM),
    "a tool's failure": ("Doorbell.Ring", {"doorbell_id": "doorbell1"}),
    "a tool's failure with members of its own": ("Lab.Fail", {}),
    "a broken answer": ("Lab.Mumble", {}),
    "wrong parameters": ("Calculator.Add", {"a": "one", "c": 3}),
    "a parameter of another version": ("Calculator.Add@1.0.0", {**SUM, "terms": []}),
    "an unknown tool": ("Calculator.Subtract", SUM),
    "an unknown version": ("Calculator.Add@2.0.0", SUM),
    "no tool id": ("Calculator Add", SUM),
    "a missing secret": ("Sms.Send", {"to": "+4712345678", "text": "hei"}),
    "a missing user": ("Notes.List", {}),
    "everything missing": ("Lab.Measure", {"sample": "A-1"}),
    "a tool server that is gone": ("Gone.Away", {}),
}

pytestmark = pytest.mark.anyio

# Each link with one dialect of callers: what callers and tool servers of a dialect are sent is told by the examples of
# `tests/wire`, whichever stands on the other side.
every_link = pytest.mark.parametrize(("link", "dialect"), list(zip(LINKS, cycle(DIALECTS))))


@every_link
async def test_the_catalogue_is_that_of_one_gateway(chain: Chain, link: str, dialect: str) -> None:
    for listed in {dialect, "rfc"}:
        assert await catalogue(chain.outer[link], listed) == await catalogue(chain.inner, listed)
    tools = (await catalogue(chain.outer[link], "rfc"))["tools"]
    assert next(tool for tool in tools if tool["id"] == lab.MEASURE["id"]) == lab.MEASURE  # what only the RFC can say


@every_link
async def test_a_call_is_answered_as_by_one_gateway(chain: Chain, link: str, dialect: str) -> None:
    for what, (tool, arguments) in CALLS.items():
        request = {"call_id": f"{what}, {link}", "tool_id": tool, "input": arguments}
        one, two = await call(chain.inner, dialect, request), await call(chain.outer[link], dialect, request)
        assert agreed(two) == agreed(one), what
        assert ("retry-after" in one.headers) == (what == "a tool server that is gone")


@every_link
async def test_what_a_caller_sends_reaches_the_tool_that_declares_it(chain: Chain, link: str, dialect: str) -> None:
    declared = {
        "authorization": [{"id": lab.TOKEN, "token": "t0k \u00e6"}],
        "secrets": [{"id": lab.SECRET, "value": "s3cret"}],
    }
    undeclared = {
        "authorization": [{"id": "other", "token": "stays"}],
        "secrets": [{"id": "OTHER", "value": "stays"}],
    }
    user = {"user_id": f"{link}/{dialect}", "user_info": {"name": "Ana", "roles": [1, None]}}
    request = {
        "call_id": "chain-2",
        "trace_id": "trace-7",
        "tool_id": "Lab.Measure",
        "input": {"sample": "A-1"},
        "context": {member: declared[member] + undeclared[member] for member in declared} | user,
    }
    document = (await call(chain.outer[link], dialect, request)).json()
    assert document.get("result", document)["success"] is True
    arrived = chain.lab.calls("Lab.Measure")[-1].call
    assert arrived["context"] == declared | user
    assert (arrived["trace_id"], arrived["input"]) == ("trace-7", {"sample": "A-1"})
    assert arrived["call_id"] != "chain-2"  # each hop has an id of its own


@every_link
async def test_a_challenge_is_met_through_both_gateways(
    chain: Chain, browser: httpx.AsyncClient, link: str, dialect: str
) -> None:
    for decision, status in (("", "completed"), ("/decline", "failed")):
        user = f"{link}/{dialect}{decision}"
        request = {"tool_id": "Mail.Search", "input": {"query": "lunch"}, "context": {"user_id": user}}
        direct, direct_check = without_check_url(await call(chain.inner, dialect, request))
        challenged, check = without_check_url(await call(chain.outer[link], dialect, request))
        assert challenged == direct
        assert check.startswith(f"{chain.outer[link].base_url}/challenges/")

        await browser.post(page_of(challenged) + decision)
        for url in (check, direct_check):
            assert (await browser.get(url)).json() == {"status": status}
        again = await call(chain.outer[link], dialect, request)
        assert again.status_code == (200 if status == "completed" else 400)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A user without any credential."""
    async with plainhttp.async_client() as http:
        yield http


def page_of(challenged: Any) -> str:
    """Where the user decides."""
    return str(challenged["missing_requirements"]["authorization"][0]["url"])


def without_check_url(response: httpx.Response) -> tuple[Any, str]:
    """The body of a refusal with one challenge, and the URL taken out of it that each gateway makes itself."""
    assert response.status_code == 400, response.text
    document = response.json()
    (found,) = document["missing_requirements"]["authorization"]
    return document, found.pop("check_url")
