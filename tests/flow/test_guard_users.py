"""For whom a call is, where the credential says so (`user_id_claim`). All of it is ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.keeping import counted, finished
from tests.flow.toolserver import ToolServer, tool
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

AUTH = {"jwt": [{"secret": SECRET, "user_id_claim": "act.email"}]}
ADA, BOB = "ada@example.com", "bob@example.com"


def asking_for(user: Any, subject: str = "an agent", **claims: Any) -> str:
    """The token of an agent that serves many users, here one of them."""
    return token(subject, act={"email": user}, **claims)


async def agent(start: Start, server: ToolServer, **sections: Any) -> Caller:
    return (await start(config({"scripted": server.url}, auth=AUTH, **sections))).caller


def user_sent(server: ToolServer) -> Any:
    return server.calls[-1].call["context"]["user_id"]


@pytest.mark.parametrize(
    "context", [{}, {"context": {}}, *({"context": {"user_id": user}} for user in (ADA, ""))], ids=str
)
async def test_the_tool_server_gets_the_credentials_user(
    start: Start, server: ToolServer, context: dict[str, Any]
) -> None:
    server.tools.append(tool("Mail.Read", requirements={"user_id": True}))
    caller = (await agent(start, server)).with_token(asking_for(ADA))
    assert (await caller.call("oxp", "Mail.Read", {"n": 1}, **context)).value == {"n": 1}
    assert user_sent(server) == ADA


@pytest.mark.parametrize("strict", [False, True])
async def test_a_call_for_another_user_fails(start: Start, server: ToolServer, strict: bool) -> None:
    caller = (await agent(start, server, errors={"strict": strict})).with_token(asking_for(ADA))
    ids: list[dict[str, Any]] = [{}, {"call_id": "kept"}]
    for call_id in ids:
        answer = await caller.call("oxp", "Echo.Say", context={"user_id": BOB}, **call_id)
        assert answer.status == (400 if strict else 403)
        assert ADA not in answer.message
    assert not server.calls


@pytest.mark.parametrize("named", [{}, {"user_id": ADA}], ids=str)
async def test_user_info_is_not_passed_on_beside_the_credentials_user(
    start: Start, server: ToolServer, named: dict[str, str]
) -> None:
    """Nobody has checked it: a tool server that looks for an email address would take it for the user's."""
    server.tools.append(tool("Mail.Read", requirements={"user_id": True}))
    caller = (await agent(start, server)).with_token(asking_for(ADA))
    for info in ({"email": "root@x"}, {"user_id": ADA, "email": "root@x"}, "root", [{"user_id": "root"}]):
        answer = await caller.call("oxp", "Mail.Read", {"n": 1}, context={"user_info": info} | named)
        assert answer.value == {"n": 1}
        assert server.calls[-1].call["context"] == {"user_id": ADA}


async def test_another_user_in_user_info_is_refused(start: Start, server: ToolServer) -> None:
    caller = (await agent(start, server)).with_token(asking_for(ADA))
    for user in ("root", 7, {"id": ADA}):
        info = {"email": "root@x", "user_id": user}
        for named in ({}, {"user_id": ADA}):
            assert (await caller.call("oxp", "Echo.Say", context={"user_info": info} | named)).status == 403
    assert not server.calls


async def test_user_info_is_passed_on_where_credentials_name_no_user(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, auth={"jwt": [{"secret": SECRET}]}))).caller
    context = {"user_id": ADA, "user_info": {"user_id": BOB, "locale": "nb"}}
    assert (await caller.with_token(token()).call("oxp", "Echo.Say", context=context)).status == 200
    assert server.calls[-1].call["context"] == context


async def test_users_of_one_agent_may_use_the_same_call_id(start: Start, server: ToolServer) -> None:
    server.handler = counted(server)
    caller = await agent(start, server)
    runs: dict[str, list[int]] = {}
    for user in (ADA, BOB, ADA, BOB):
        known = caller.with_token(asking_for(user))
        runs.setdefault(user, []).append((await known.call("oxp", "Echo.Say", call_id="mine")).value["run"])
    assert runs == {ADA: [1, 1], BOB: [2, 2]}


async def test_a_user_finds_only_own_calls_by_call_id(start: Start, server: ToolServer) -> None:
    server.handler = counted(server)
    caller = await agent(start, server)
    ada, bob = caller.with_token(asking_for(ADA)), caller.with_token(asking_for(BOB))
    first = await ada.call("oxp", "Echo.Say", call_id="of ada")
    await bob.call("oxp", "Echo.Say", call_id="of both")
    await ada.call("oxp", "Echo.Say", call_id="of both")
    assert (await ada.send("oxp", "kept", "GET", "/calls/of ada")).value["run"] == 1
    assert (await ada.send("oxp", "kept", "DELETE", "/calls/of ada")).value["run"] == 1
    assert (await bob.send("oxp", "kept", "GET", "/calls/of both")).value["run"] == 2
    assert (await ada.send("oxp", "kept", "GET", "/calls/of both")).value["run"] == 3
    assert (await bob.send("bare", "kept", "GET", "/calls/of ada")).status == 404
    other = caller.with_token(asking_for(ADA, "another agent"))
    for name in ("of ada", first.headers["toolgate-call-id"]):
        assert (await other.send("bare", "kept", "GET", f"/calls/{name}")).status == 404
    assert server.executions == 3


async def test_a_user_finds_only_own_calls_by_gateway_id(start: Start, server: ToolServer) -> None:
    """Ours: an id from a log, or from the agent that serves both, shows nothing about its call."""
    server.handler = counted(server)
    caller = await agent(start, server)
    ada, bob = caller.with_token(asking_for(ADA)), caller.with_token(asking_for(BOB))
    asynchronously = {"prefer": "respond-async"}
    answers = [
        await ada.call("oxp", "Echo.Say", call_id="of ada"),
        await ada.call("oxp", "Echo.Say", headers=asynchronously),
        await ada.call("oxp", "Echo.Say", call_id="of ada, too", headers=asynchronously),
    ]
    for name in (answer.headers["toolgate-call-id"] for answer in answers):
        unknown = await bob.send("bare", "kept", "GET", "/calls/tg-" + "A" * (len(name) - 3))
        for method in ("GET", "DELETE"):
            refused = await bob.send("bare", "kept", method, f"/calls/{name}")
            assert (refused.status, refused.body) == (unknown.status, unknown.body) == (404, unknown.body)
        assert (await finished(ada, "oxp", f"/calls/{name}")).value["run"] > 0  # it was not cancelled
    assert server.executions == 3


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_strict_errors_hold_for_kept_calls_too(start: Start, server: ToolServer, method: str) -> None:
    limits = [{"name": "few", "key": "caller", "rate": "1/d", "operations": ["poll"]}]
    for strict, refused, limited in ((False, 401, 429), (True, 400, 400)):
        caller = await agent(start, server, errors={"strict": strict}, rate_limits=limits)
        assert (await caller.send("bare", "kept", method, "/calls/x")).status == refused
        known = caller.with_token(asking_for(ADA, f"an agent {method} {strict}"))
        statuses = [(await known.send("bare", "kept", method, "/calls/x")).status for _ in range(2)]
        assert statuses == [404, limited]
