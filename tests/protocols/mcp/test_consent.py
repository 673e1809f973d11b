"""Calls of MCP that need a user's consent: asked for where the caller can ask, in words everywhere else."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from gateway.protocols.mcp.callers.consent import MAX_CHALLENGES
from tests import plainhttp
from tests.flow.builds import DEADLINE_S, builds
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import PUBLIC_URL, config
from tests.flow.toolserver import ToolServer, tool
from tests.protocols.mcp.requests import OPENS_URLS, ask, call, call_in, session
from tests.streams import Request, http_reply
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

NEEDS_MAIL = {"authorization": [{"id": "mail"}]}
ACCEPT, DECLINE, CANCEL = ({"action": action} for action in ("accept", "decline", "cancel"))
LINK = "https://login.example/a?b=%7E"


class Mailbox:
    """A tool server whose user has to connect first. `status` is how its challenges stand."""

    def __init__(self, server: ToolServer, *challenges: Any) -> None:
        self.status = "pending"
        self.server = server
        self.looks = 0
        self.refused = 0
        server.tools = [tool("Mail.Read", requirements=NEEDS_MAIL), tool("Mail.Send", requirements=NEEDS_MAIL)]
        self.missing = {"authorization": list(challenges)}
        server.handler = self.handle

    async def handle(self, received: Request) -> bytes:
        if received.target.startswith("/check/"):
            self.looks += 1
            return http_reply(200, {"status": self.status})
        if self.status != "completed":
            self.refused += 1
            return http_reply(400, {"message": "Connect first", "missing_requirements": self.missing})
        return self.server.value(received, "a letter")


def checked(server: ToolServer, number: int = 1) -> dict[str, str]:
    return {"id": f"ch-{number}", "url": f"{LINK}&n={number}", "check_url": f"{server.url}/check/{number}"}


@pytest.fixture
def mailbox(server: ToolServer) -> Mailbox:
    return Mailbox(server, checked(server))


@pytest.fixture
async def caller(start: Start, mailbox: Mailbox) -> Caller:
    auth = {"jwt": [{"secret": SECRET}]}
    gateway = await start(config({"scripted": mailbox.server.url}, auth=auth))
    return gateway.caller.with_token(token("ada"))


async def read(caller: Caller, **params: Any) -> dict[str, Any]:
    """The result of a modern call by a caller that opens URLs; `params` are further ones."""
    asked = {"name": "Mail_Read", "arguments": {"n": 1, "box": "in"}, **params}
    answer = await ask(caller, "tools/call", asked, capabilities=OPENS_URLS)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


async def answered(caller: Caller, asked: dict[str, Any], answer: Any, **params: Any) -> dict[str, Any]:
    """The same call again, with this answer to every question."""
    responses = dict.fromkeys(asked["inputRequests"], answer)
    return await read(caller, inputResponses=responses, requestState=asked["requestState"], **params)


def is_refused(result: dict[str, Any], words: str) -> bool:
    assert result["resultType"] == "complete"
    return result["isError"] is True and words in result["content"][0]["text"]


async def test_mcp_45_a_modern_caller_asks_its_user(caller: Caller, mailbox: Mailbox) -> None:
    """Spec: MCP 2026-07-28, Elicitation (URL mode) and Multi Round-Trip Requests."""
    asked = await read(caller)
    assert asked.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
    assert asked["resultType"] == "input_required"
    params = {"mode": "url", "message": "Connect first", "url": f"{LINK}&n=1"}
    assert asked["inputRequests"] == {"ch-1": {"method": "elicitation/create", "params": params}}
    mailbox.status = "completed"
    done = await answered(caller, asked, ACCEPT)
    assert (done["resultType"], done["content"]) == ("complete", [{"type": "text", "text": "a letter"}])
    assert (mailbox.refused, mailbox.server.executions) == (1, 2)


async def test_mcp_45_the_call_waits_for_a_user_who_is_still_at_it(caller: Caller, mailbox: Mailbox) -> None:
    asked = await read(caller)
    again = asyncio.create_task(answered(caller, asked, ACCEPT))
    async with asyncio.timeout(DEADLINE_S):
        while not mailbox.looks:  # noqa: ASYNC110 - the tool server has no event for tests
            await asyncio.sleep(0.01)
        assert not again.done()
        mailbox.status = "completed"
        assert (await again)["content"][0]["text"] == "a letter"
    assert mailbox.refused == 1


@pytest.mark.parametrize("answer", [DECLINE, CANCEL])
async def test_mcp_45_a_user_who_will_not_ends_the_call(caller: Caller, mailbox: Mailbox, answer: Any) -> None:
    asked = await read(caller)
    assert is_refused(await answered(caller, asked, answer), "did not authorize")
    assert mailbox.server.executions == 1


async def test_mcp_45_a_consent_that_failed_ends_the_call(caller: Caller, mailbox: Mailbox) -> None:
    asked = await read(caller)
    mailbox.status = "failed"
    assert is_refused(await answered(caller, asked, ACCEPT), "or the link has expired")
    assert mailbox.server.executions == 1


@pytest.mark.parametrize("responses", [None, {}, {"other": ACCEPT}, {"ch-1": {}}, {"ch-1": "accept"}, [], "accept"])
async def test_mcp_45_a_missing_answer_is_asked_for_again(caller: Caller, mailbox: Mailbox, responses: Any) -> None:
    """Spec: MCP 2026-07-28: missing answers are no error, and unknown ones are ignored."""
    asked = await read(caller)
    again = await read(caller, requestState=asked["requestState"], inputResponses=responses)
    assert again["inputRequests"] == asked["inputRequests"]
    mailbox.status = "completed"
    done = await answered(caller, again, ACCEPT | {"content": {}})
    assert (done["content"][0]["text"], mailbox.refused) == ("a letter", 1)


def tampered(state: str) -> list[Any]:
    middle = len(state) // 2
    other = "A" if state[middle] != "A" else "B"
    return [
        state[:middle] + other + state[middle + 1 :],
        state[:-8],
        "",
        "x",
        "A" * 200,
        "é",
        7,
        {},
        [state],
        state * 1000,
    ]


async def test_mcp_45_a_tampered_state_is_refused(caller: Caller, mailbox: Mailbox) -> None:
    asked = await read(caller)
    mailbox.status = "completed"
    again = {"name": "Mail_Read", "arguments": {"n": 1, "box": "in"}, "inputResponses": {"ch-1": ACCEPT}}
    for state in tampered(asked["requestState"]):
        for capabilities in (OPENS_URLS, {}):
            params = {**again, "requestState": state}
            answer = await ask(caller, "tools/call", params, capabilities=capabilities)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602), state
    assert mailbox.server.executions == 1


async def test_mcp_45_a_state_is_for_one_principal_tool_and_arguments(
    caller: Caller, mailbox: Mailbox, start: Start
) -> None:
    asked = await read(caller)
    mailbox.status = "completed"
    again: dict[str, Any] = {"inputResponses": {"ch-1": ACCEPT}, "requestState": asked["requestState"]}
    same: dict[str, Any] = {"name": "Mail_Read", "arguments": {"n": 1, "box": "in"}}
    stranger = caller.with_token(token("eve"))
    foreign = [(stranger, same), (caller, {**same, "name": "Mail_Send"}), (caller, {**same, "arguments": {"n": 2}})]
    foreign.append((caller, {**same, "arguments": {"n": 1.0, "box": "in"}}))
    elsewhere = await start(config({"scripted": mailbox.server.url}, auth={"jwt": [{"secret": SECRET}]}))
    foreign.append((elsewhere.caller.with_token(caller.token), same))
    for known, params in foreign:
        answer = await ask(known, "tools/call", {**params, **again}, capabilities=OPENS_URLS)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602), params
    assert mailbox.server.executions == 1
    reordered = {"name": "Mail_Read", "arguments": {"box": "in", "n": 1}, **again}
    assert (await ask(caller, "tools/call", reordered)).json()["result"]["content"][0]["text"] == "a letter"


async def test_mcp_45_a_session_that_opens_urls_gets_the_error_of_its_revision(
    caller: Caller, mailbox: Mailbox
) -> None:
    """Spec: MCP 2025-11-25, Elicitation: URLElicitationRequiredError."""
    known = await session(caller, OPENS_URLS)
    answer = await call_in(caller, known, "Mail_Read", id_=7)
    assert answer.status_code == 200
    elicitation = {"mode": "url", "elicitationId": "ch-1", "url": f"{LINK}&n=1", "message": "Connect first"}
    error = {"code": -32042, "message": "Connect first", "data": {"elicitations": [elicitation]}}
    assert answer.json() == {"jsonrpc": "2.0", "id": 7, "error": error}
    mailbox.status = "completed"
    assert (await call_in(caller, known, "Mail_Read", id_=8)).json()["result"]["content"][0]["text"] == "a letter"


READERS: list[tuple[str, Any]] = [
    ("modern", {}),
    ("modern", {"elicitation": {"form": {}}}),
    ("2025-11-25", {"elicitation": {}}),
    ("2025-06-18", OPENS_URLS),  # the error for URLs came with 2025-11-25
]


@pytest.mark.parametrize(("version", "capabilities"), READERS)
async def test_mcp_45_other_callers_read_the_url(
    caller: Caller, mailbox: Mailbox, version: str, capabilities: Any
) -> None:
    """Ours: models tell their users; programs find the same in `_meta`."""
    if version == "modern":
        answer = await call(caller, "Mail_Read", capabilities=capabilities)
    else:
        answer = await call_in(caller, await session(caller, capabilities, version), "Mail_Read")
    result = answer.json()["result"]
    assert (answer.status_code, result["isError"]) == (200, True)
    assert f"The user can authorize it at {LINK}&n=1" in result["content"][0]["text"]
    [challenge] = result["_meta"]["toolgate/error"]["missing_requirements"]["authorization"]
    assert challenge["url"] == f"{LINK}&n=1"
    assert challenge["check_url"].startswith(f"{PUBLIC_URL}/challenges/")
    assert answer.headers["toolgate-code"] == "missing_requirements"


async def test_a_url_that_cannot_be_checked_is_asked_for_once(caller: Caller, mailbox: Mailbox) -> None:
    """Ours: the call runs as soon as the user has opened it; a user who is asked for ever learns to click."""
    mailbox.missing = {"authorization": [{"id": "ch-1", "url": LINK}]}
    asked = await read(caller)
    assert is_refused(await answered(caller, asked, ACCEPT), LINK)
    mailbox.status = "completed"
    assert (await answered(caller, asked, ACCEPT))["content"][0]["text"] == "a letter"


async def test_all_challenges_of_a_call_are_asked_for_at_once(caller: Caller, mailbox: Mailbox) -> None:
    server = mailbox.server
    mailbox.missing = {"authorization": [checked(server, number) for number in range(MAX_CHALLENGES)]}
    asked = await read(caller)
    assert len(asked["inputRequests"]) == MAX_CHALLENGES
    responses = dict.fromkeys(asked["inputRequests"], ACCEPT) | {"ch-3": DECLINE}
    assert is_refused(await read(caller, requestState=asked["requestState"], inputResponses=responses), "did not")
    mailbox.missing = {"authorization": [checked(server, number) for number in range(MAX_CHALLENGES + 1)]}
    assert is_refused(await read(caller), f"{LINK}&n={MAX_CHALLENGES}")


async def test_secrets_and_users_are_named_and_never_asked_for(start: Start, server: ToolServer) -> None:
    """Spec: MCP, Elicitation: secrets must not be asked for in a form. A URL alone would not help."""
    needs = {**NEEDS_MAIL, "secrets": [{"id": "smtp-key"}], "user_id": True}
    server.tools = [tool("Mail.Read", requirements=needs)]
    route = {"tools": "*", "backend": "scripted", "authorization_urls": {"mail": LINK}}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    result = await read(caller)
    for words in ("smtp-key", "user_id", LINK):
        assert is_refused(result, words)
    lent = {"authorization": [{"id": "mail", "token": "t"}], "secrets": [{"id": "smtp-key", "value": "v"}]}
    lent_by_program = {"toolgate/context": {**lent, "user_id": "ada"}}
    done = await read(caller, _meta=lent_by_program)
    assert "isError" not in done
    assert server.calls[0].call["context"] == {**lent, "user_id": "ada"}
    partly = await read(caller, _meta={"toolgate/context": {"secrets": lent["secrets"], "user_id": "ada"}})
    assert partly["resultType"] == "input_required"
    for broken in ("ada", {"user_id": 7}):
        params = {"name": "Mail_Read", "_meta": {"toolgate/context": broken}}
        assert (await ask(caller, "tools/call", params)).json()["error"]["code"] == -32602


async def test_a_call_that_waits_for_its_user_is_joined_by_its_repetition() -> None:
    """Ours: the tool of a callback goes on by itself once the user consents, and must not be run again."""
    async with builds() as running:
        arguments = {"name": "builds_lint", "arguments": {}}
        caller = running.caller
        begun = asyncio.create_task(ask(caller, "tools/call", arguments, capabilities=OPENS_URLS))
        invoked = await running.invoked()
        assert await invoked.post(invoked.message("oauth", auth_url=LINK)) == 200
        asked = (await begun).json()["result"]
        assert [one["params"]["url"] for one in asked["inputRequests"].values()] == [LINK]
        responses = dict.fromkeys(asked["inputRequests"], ACCEPT)
        again = {**arguments, "requestState": asked["requestState"], "inputResponses": responses}
        repeated = asyncio.create_task(ask(caller, "tools/call", again, capabilities=OPENS_URLS))
        assert await invoked.bring("done") == 200
        async with asyncio.timeout(DEADLINE_S):
            assert (await repeated).json()["result"]["content"] == [{"type": "text", "text": "done"}]
        assert running.paths.count("/invoke") == 1


@pytest.mark.parametrize(("button", "words"), [("", "invoice"), ("/decline", "or the link has expired")])
async def test_the_users_answer_at_the_provider_counts(demo: Caller, button: str, words: str) -> None:
    """With the demonstration's account provider: accepting means opening the link, not consenting."""
    user = f"mcp-{time.monotonic_ns()}"
    params = {
        "name": "Mail_Search",
        "arguments": {"query": "invoice"},
        "_meta": {"toolgate/context": {"user_id": user}},
    }
    asked = (await ask(demo, "tools/call", params, capabilities=OPENS_URLS)).json()["result"]
    [(key, request)] = asked["inputRequests"].items()
    async with plainhttp.async_client(timeout=10.0) as browser:
        assert (await browser.post(request["params"]["url"] + button)).status_code in (200, httpx.codes.NOT_FOUND)
    again = {**params, "requestState": asked["requestState"], "inputResponses": {key: ACCEPT}}
    result = (await ask(demo, "tools/call", again, capabilities=OPENS_URLS)).json()["result"]
    assert result.get("isError", False) is bool(button)
    assert words in result["content"][0]["text"].lower()
