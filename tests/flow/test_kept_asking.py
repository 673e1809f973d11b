"""Whoever made a call that is kept may ask for it and cancel it, at `/calls/{call_id}`. All of it is ours."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.flow.caller import DIALECTS, SCHEMAS, Answer, Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import LOOK_AGAIN_S, PUBLIC_URL, WAIT_S, config
from tests.flow.keeping import begun, counted, finished, gated
from tests.flow.test_kept_calls import IDS
from tests.flow.toolserver import ToolServer
from tests.streams import Request
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
ASYNC = {"prefer": "respond-async"}
OTHER_SPELLINGS = [
    ("otc", {"$schema": "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"}, {}),
    ("oxp", {}, {"oxp-version": "1.0.0"}),
]


async def look(caller: Caller, dialect: str, call_id: str) -> Answer:
    """Asks for a call; the answer must be in that dialect."""
    return await caller.send(dialect, "kept", "GET", f"/calls/{quote(call_id, safe='')}")


async def cancel(caller: Caller, dialect: str, call_id: str) -> Answer:
    return await caller.send(dialect, "kept", "DELETE", f"/calls/{quote(call_id, safe='')}")


async def expiry(caller: Caller, call_id: str) -> None:
    """Waits until nothing more is known of a call."""
    headers = {"authorization": f"Bearer {caller.token}"}
    async with asyncio.timeout(WAIT_S):
        while (await caller.http.get(f"/calls/{call_id}", headers=headers)).is_success:  # noqa: ASYNC110 - no event
            await asyncio.sleep(LOOK_AGAIN_S)


def lasting(answer: Answer) -> dict[str, str]:
    """The headers that are about the call, and not about the request that asked for it."""
    return {name: text for name, text in answer.headers.items() if name != "x-request-id"}


async def test_a_finished_call_keeps_its_first_answer(caller: Caller, server: ToolServer) -> None:
    """By our id, by the caller's own, and at its `Location`."""
    first = await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")
    own_id = first.headers["toolgate-call-id"]
    assert first.headers["location"] == f"{PUBLIC_URL}/calls/{own_id}"
    for call_id in ("k", own_id):
        answer = await look(caller, "oxp", call_id)
        assert (answer.status, answer.body, lasting(answer)) == (200, first.body, lasting(first))
    assert (await caller.send("oxp", "kept", "GET", first.headers["location"])).body == first.body
    assert server.executions == 1


@every_dialect
async def test_a_call_that_runs_is_202_until_it_is_over(caller: Caller, server: ToolServer, dialect: str) -> None:
    server.handler, opened = gated(server)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        call = group.create_task(caller.call(dialect, "Echo.Say", call_id="k"))
        await begun(server)
        pending = await look(caller, dialect, "k")
        opened.set()
    assert (pending.status, pending.result["call_id"]) == (202, "k")
    assert (pending.error["can_retry"], pending.error["retry_after_ms"] > 0) == (True, True)
    assert (await look(caller, dialect, "k")).body == (await call).body


@pytest.mark.parametrize(("dialect", "members", "headers"), OTHER_SPELLINGS)
async def test_a_call_is_read_in_its_own_wire_version(
    caller: Caller, server: ToolServer, dialect: str, members: dict[str, str], headers: dict[str, str]
) -> None:
    request = {"tool_id": "Echo.Say", "input": {}, "call_id": "k"}
    body = members | {"request": request} if members else request
    first = await caller.post(dialect, f"/{dialect}/call", body, headers=headers)
    answer = await look(caller, dialect, "k")
    assert (answer.body, lasting(answer)) == (first.body, lasting(first))
    assert (members or headers).items() <= {**answer.document, **answer.headers}.items()


async def test_a_kept_call_stays_in_its_first_dialect(caller: Caller, server: ToolServer) -> None:
    await caller.call("rfc", "Echo.Say", call_id="k")
    for dialect in DIALECTS:
        await caller.call(dialect, "Echo.Say", call_id="k")
        assert (await look(caller, "rfc", "k")).document["$schema"] == SCHEMAS["rfc"]


@pytest.mark.parametrize("call_id", IDS)
async def test_any_id_can_be_asked_for(caller: Caller, server: ToolServer, call_id: str) -> None:
    first = await caller.call("oxp", "Echo.Say", call_id=call_id)
    if call_id != "..":  # no path can end in it: clients remove it together with the segment before
        assert (await look(caller, "oxp", call_id)).body == first.body


UNKNOWN_IDS = ["other", "tg-", "tg-other", "tg-" + "A" * 43, "x" * 5000, "é", "\0", "%00", "a/b", "*", " "]


@pytest.mark.parametrize("call_id", UNKNOWN_IDS)
async def test_an_unknown_id_is_not_found(caller: Caller, server: ToolServer, call_id: str) -> None:
    await caller.call("oxp", "Echo.Say", call_id="k")
    for ask in (look, cancel):
        answer = await ask(caller, "bare", call_id)
        assert (answer.status, answer.message) == (404, "You have no call with this id.")


async def test_the_refusal_is_in_the_dialect_of_the_head(caller: Caller, server: ToolServer) -> None:
    answer = await caller.send("oxp", "kept", "GET", "/calls/k", headers={"oxp-version": "1.0"})
    assert answer.status == 404


async def test_calls_of_another_principal_are_not_found(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}, auth={"jwt": [{"secret": SECRET}]}))
    ada, bob = (gateway.caller.with_token(token(who)) for who in ("ada", "bob"))
    own_id = (await ada.call("oxp", "Echo.Say", call_id="k")).headers["toolgate-call-id"]
    for ask in (look, cancel):
        for call_id in ("k", own_id):
            assert (await ask(bob, "bare", call_id)).status == 404
            assert (await ask(gateway.caller, "bare", call_id)).status == 401
    assert (await look(ada, "oxp", own_id)).value == {}


OWNERS = {
    "principals": ({}, {"sub": "ada"}, {"sub": "bob"}),
    "users of an agent": ({"user_id_claim": "email"}, {"email": "ada"}, {"email": "bob"}),
}


@pytest.mark.parametrize(("issuer", "owner", "other"), OWNERS.values(), ids=OWNERS)
async def test_only_the_owner_learns_that_a_call_expired(
    start: Start, server: ToolServer, issuer: Any, owner: Any, other: Any
) -> None:
    auth = {"jwt": [{"secret": SECRET, **issuer}]}
    gateway = await start(config({"scripted": server.url}, auth=auth, state={"result_ttl": "1s"}))
    ada, bob = (gateway.caller.with_token(token(**{"sub": "an agent"} | claims)) for claims in (owner, other))
    own_id = (await ada.call("oxp", "Echo.Say", call_id="k")).headers["toolgate-call-id"]
    await expiry(ada, own_id)
    for ask in (look, cancel):
        answer = await ask(ada, "bare", "k")
        assert (answer.status, answer.message) == (404, "This call has expired.")
        for call_id in ("k", own_id):
            answer = await ask(bob, "bare", call_id)
            assert (answer.status, answer.message) == (404, "You have no call with this id.")
        if not issuer:
            assert (await ask(ada, "bare", own_id)).message == "This call has expired."


@pytest.mark.parametrize("context", [{"user_id": "u"}, {"authorization": [{"id": "mail", "token": "t"}]}])
async def test_user_calls_need_the_gateway_id(caller: Caller, server: ToolServer, context: dict[str, object]) -> None:
    """The caller's own id may be in use for several users."""
    answer = await caller.call("oxp", "Echo.Say", call_id="k", context=context)
    assert (await look(caller, "bare", "k")).status == 404
    assert (await look(caller, "oxp", answer.headers["toolgate-call-id"])).body == answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_other_methods_are_refused(caller: Caller, method: str) -> None:
    answer = await caller.send("bare", "kept", method, "/calls/k")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "DELETE"})


async def test_a_cancelled_call_is_over_for_all_who_joined(caller: Caller, server: ToolServer) -> None:
    """There is no way to tell an OXP server but to hang up on it; the tool may have run, and never runs again."""
    hung_up = asyncio.Event()

    async def wait(_received: Request) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            hung_up.set()
        raise AssertionError("the event is never set")

    server.handler = wait
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        calls = [group.create_task(caller.call("oxp", "Echo.Say", call_id="k")) for _ in range(3)]
        await begun(server)
        cancelled = await cancel(caller, "oxp", "k")
    assert (cancelled.status, cancelled.error["can_retry"]) == (202, False)
    server.handler = server.echo
    answers = [await call for call in calls]
    answers += [await caller.call("oxp", "Echo.Say", call_id="k"), await look(caller, "oxp", "k")]
    assert {(answer.status, answer.body) for answer in answers} == {(200, cancelled.body)}
    assert server.executions == 1


async def test_what_is_over_cannot_be_cancelled_any_more(caller: Caller, server: ToolServer) -> None:
    first = await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")
    cancelled = await cancel(caller, "oxp", "k")
    assert (cancelled.status, cancelled.body) == (202, first.body)
    assert (await look(caller, "oxp", "k")).body == first.body


async def test_an_async_call_without_an_id_can_be_read_and_cancelled(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    first, second = [await caller.call("otc", "Echo.Say", headers=ASYNC) for _ in range(2)]
    await begun(server, 2)
    assert (first.status, first.error["can_retry"]) == (202, False)
    assert "must not be called again" in first.error["additional_prompt_content"]
    assert (await cancel(caller, "otc", first.headers["toolgate-call-id"])).status == 202
    opened.set()
    answer = await finished(caller, "otc", f"/calls/{second.result['call_id']}")
    assert answer.value["input"] == {}
    assert "cancelled" in (await look(caller, "otc", first.result["call_id"])).error["message"]
    server.handler = counted(server)
    assert (await caller.call("otc", "Echo.Say")).value["run"] == 3
