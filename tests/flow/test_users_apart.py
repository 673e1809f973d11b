"""Two users of one caller: what was kept for a call of the one goes with no call of the other. All of it is ours."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.flow.builds import ASYNC, builds
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.test_guard_users import ADA, AUTH, BOB, asking_for
from tests.flow.toolserver import ToolServer, always, tool
from tests.protocols.mcp.requests import OPENS_URLS, ask, call_in, session
from tests.protocols.mcp.server_double import Double, Talk, serving
from tests.streams import http_reply

pytestmark = pytest.mark.anyio

URL = "https://id.example/allow"
ASKED = {"method": "elicitation/create", "params": {"mode": "url", "message": "Allow it.", "url": URL}}
# How a caller says for whom a call is: in the call itself, or by its credential.
NAMED = pytest.mark.parametrize("by", ["context", "tokens", "secrets", "credential"])


def auth(by: str) -> dict[str, Any]:
    return {"auth": AUTH} if by == "credential" else {}


def as_user(caller: Caller, by: str, user: str) -> tuple[Caller, dict[str, Any]]:
    """The caller, and the context of its call."""
    if by == "credential":
        return caller.with_token(asking_for(user)), {}
    if by == "secrets":
        return caller, {"secrets": [{"id": "PIN", "value": user}]}
    return caller, {"user_id": user} if by == "context" else {"authorization": [{"id": "mail", "token": user}]}


async def at_mcp(start: Start, double: Double, by: str) -> Caller:
    backend = {"protocol": "mcp", "url": double.url, "toolkit": "Far"}
    return (await start(config({"far": backend}, None, **auth(by)))).caller


def mcp_server(era: str) -> AbstractAsyncContextManager[Double]:
    async def ask_first(talk: Talk) -> None:
        if era == "legacy" or "requestState" in talk.message["params"]:
            await talk.answer()
        else:
            await talk.answer({"resultType": "input_required", "inputRequests": {"k": ASKED}, "requestState": "of ada"})

    return serving(era, ask_first)


@NAMED
async def test_what_an_mcp_server_asked_one_user_is_not_answered_with_anothers_call(start: Start, by: str) -> None:
    async with mcp_server("modern") as double:
        caller = await at_mcp(start, double, by)
        for user in (ADA, BOB, BOB, ADA):
            own, context = as_user(caller, by, user)
            answer = await own.call("oxp", "Far.find_it", context=context)
            states = [talk.message["params"].get("requestState") for talk in double.ran]
            assert answer.status == (400 if states[-1] is None else 200)
        assert states == [None, None, "of ada", "of ada"]


@NAMED
async def test_each_user_has_a_session_of_its_own_at_an_mcp_server(start: Start, by: str) -> None:
    async with mcp_server("legacy") as double:
        caller = await at_mcp(start, double, by)
        for user in (ADA, BOB, ADA):
            own, context = as_user(caller, by, user)
            assert (await own.call("oxp", "Far.find_it", context=context)).value == "seven"
        ada, bob, again = (talk.request.header("mcp-session-id") for talk in double.ran)
        assert (ada == again, ada == bob) == (True, False)


@NAMED
async def test_a_state_that_a_caller_of_mcp_brings_back_is_for_its_user(
    start: Start, server: ToolServer, by: str
) -> None:
    server.tools.append(tool("Mail.Read", requirements={"authorization": [{"id": "calendar"}]}))
    missing = {"authorization": [{"id": "calendar", "url": URL}]}
    server.handler = always(http_reply(400, {"message": "Connect first", "missing_requirements": missing}))
    caller = (await start(config({"mail": server.url}, None, **auth(by)))).caller

    async def read(user: str, **params: Any) -> dict[str, Any]:
        own, context = as_user(caller, by, user)
        params |= {"name": "Mail_Read", "_meta": {"toolgate/context": context}}
        answer: dict[str, Any] = (await ask(own, "tools/call", params, capabilities=OPENS_URLS)).json()
        return answer

    asked = (await read(ADA))["result"]
    back = {"requestState": asked["requestState"], "inputResponses": {"calendar": {"action": "accept"}}}
    assert (await read(BOB, **back))["error"]["code"] == -32602
    assert len(server.calls) == 1
    await read(ADA, **back)
    assert len(server.calls) == 2


async def test_a_session_of_mcp_is_for_the_user_of_the_credential(start: Start, server: ToolServer) -> None:
    """The id of a session lends the results of its calls to who brings it."""
    caller = (await start(config({"scripted": server.url}, auth=AUTH))).caller
    ada, bob = (caller.with_token(asking_for(user)) for user in (ADA, BOB))
    begun = await session(ada)
    for own in (ada, ada, bob, bob):
        assert (await call_in(own, begun, "Echo_Say", {"n": 1})).json()["result"]["structuredContent"] == {"n": 1}
    assert len(server.calls) == 3  # Ada's second one is the first again; to Bob it is no session


@pytest.mark.parametrize("by", ["context", "credential"])
async def test_a_conversation_of_one_user_is_no_others(by: str) -> None:
    async with builds(**auth(by)) as server:
        groups = []
        for number, user in enumerate((ADA, BOB, ADA), 1):
            own, named = as_user(server.caller, by, user)
            context = {"group_id": "the same", "thread_ancestors": ["root"], **named}
            assert (await own.call("oxp", "builds.lint", context=context, headers=ASYNC)).status == 202
            body = (await server.invoked(number)).body
            groups.append((body["group_id"], *body["thread_ancestors"]))
        ada, bob, again = groups
        assert ada == again
        assert not set(ada) & set(bob)
