"""What a tool needs besides its arguments: who asks for it, who supplies it, who never sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config, listed_until
from tests.flow.toolserver import ToolServer, tool

pytestmark = pytest.mark.anyio

SMS = {"to": "+4712345678", "text": "hello"}
CONTEXT = {
    "authorization": [{"id": "mail", "token": "mail-token"}, {"id": "bank", "token": "bank-canary"}],
    "secrets": [{"id": "KEY", "value": "key-value"}, {"id": "PIN", "value": "pin-canary"}],
    "user_id": "ada",
}


@every_dialect
async def test_a_missing_secret_is_named_and_a_given_one_never_repeated(demo: Caller, dialect: str) -> None:
    """Spec: OXP 1.0, Tool Requirements: 400. Ours: which secret it is."""
    other = {"secrets": [{"id": "OTHER", "value": "canary-2718"}]}
    answer = await demo.call(dialect, "Sms.Send", SMS, context=other)
    assert (answer.status, answer.missing) == (400, {"secrets": [{"id": "SMS_API_KEY"}]})
    assert b"canary" not in answer.body
    answer = await demo.call(dialect, "Sms.Send", SMS, context={"secrets": [{"id": "SMS_API_KEY", "value": "it"}]})
    assert answer.value == {"status": "queued", "to_last4": "5678"}


@every_dialect
async def test_a_missing_user_is_asked_for(demo: Caller, dialect: str) -> None:
    """Spec: OXP 1.0, `missing_requirements.user_id`: 400."""
    answer = await demo.call(dialect, "Notes.List")
    assert (answer.status, answer.missing) == (400, {"user_id": True})
    assert (await demo.call(dialect, "Notes.List", context={"user_id": f"nobody-{dialect}"})).value == []


@every_dialect
async def test_a_user_without_a_name_is_none(start: StartGateway, server: ToolServer, dialect: str) -> None:
    """Ours: no tool server is sent one, and the call is found by its id as any other."""
    caller = (await start(config({"scripted": server.url}))).caller
    asked: list[dict[str, Any]] = [{"context": {"user_id": ""}}, {"context": {}}]
    first, again = [await caller.call(dialect, "Echo.Say", {"n": 1}, call_id="k", **one) for one in asked]
    assert "user_id" not in server.calls[0].call.get("context", {})
    assert (first.body, server.executions) == (again.body, 1)
    assert (await caller.http.get("/calls/k")).status_code == 200


@every_dialect
async def test_everything_missing_is_said_at_once_and_before_the_tool_server_is_asked(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
    """Ours: one refusal instead of three."""
    needs = {"authorization": [{"id": "mail"}], "secrets": [{"id": "KEY"}, {"id": "PIN"}], "user_id": True}
    server.tools = [tool("Vault.Open", requirements=needs)]
    route = {"tools": "*", "backend": "scripted", "authorization_urls": {"mail": "https://mail.example/connect"}}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    answer = await caller.call(dialect, "Vault.Open")
    assert answer.status == 400
    assert answer.missing == {
        "authorization": [{"id": "mail", "url": "https://mail.example/connect"}],
        "secrets": [{"id": "KEY"}, {"id": "PIN"}],
        "user_id": True,
    }
    assert server.calls == []
    assert (await caller.call(dialect, "Vault.Open", context=CONTEXT)).value == {}


@every_dialect
async def test_only_what_a_tool_declares_is_passed_on(start: StartGateway, server: ToolServer, dialect: str) -> None:
    """Ours: other tokens and secrets of the caller are none of the tool server's business."""
    needs = {"authorization": [{"id": "mail"}], "secrets": [{"id": "KEY"}]}
    server.tools = [tool("Echo.Say"), tool("Vault.Open", requirements=needs)]
    caller = (await start(config({"scripted": server.url}))).caller
    for name in ("Echo.Say", "Vault.Open"):
        assert (await caller.call(dialect, name, context=CONTEXT)).status == 200
    plain, vault = server.calls
    assert plain.call["context"] == {"user_id": "ada"}
    assert vault.call["context"] == {
        "authorization": [{"id": "mail", "token": "mail-token"}],
        "secrets": [{"id": "KEY", "value": "key-value"}],
        "user_id": "ada",
    }
    assert all(b"canary" not in received.body for received in server.calls)


@every_dialect
async def test_a_secret_of_the_route_is_injected_and_not_asked_for(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
    """Ours: it wins over the caller's, and is gone from the requirements in the catalogue."""
    server.tools = [tool("Vault.Open", requirements={"secrets": [{"id": "KEY"}, {"id": "PIN"}]})]
    route = {"tools": "*", "backend": "scripted", "secrets": {"KEY": "key of the route", "UNUSED": "never sent"}}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    [shown] = (await caller.list(dialect)).tools
    assert shown["requirements"] == {"secrets": [{"id": "PIN"}]}
    answer = await caller.call(dialect, "Vault.Open", context={"secrets": [{"id": "KEY", "value": "theirs"}]})
    assert answer.missing == {"secrets": [{"id": "PIN"}]}
    answer = await caller.call(dialect, "Vault.Open", context={"secrets": CONTEXT["secrets"]})
    assert answer.status == 200
    assert b"key of the route" not in answer.body
    [call] = server.calls
    assert call.call["context"]["secrets"] == [
        {"id": "KEY", "value": "key of the route"},
        {"id": "PIN", "value": "pin-canary"},
    ]


@pytest.mark.parametrize("listed", [[], ["bank"], ["bank", "PIN"]], ids=["none", "one", "both"])
async def test_ids_that_a_tool_newly_asks_for_are_withheld_until_the_route_lists_them(
    start: StartGateway, server: ToolServer, listed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Ours: a tool server cannot make callers' tokens and secrets its own by asking for them one day."""
    server.tools = [tool("Echo.Say", requirements={"secrets": [{"id": "KEY"}]})]
    backend = {"protocol": "oxp", "url": server.url, "discovery": {"refresh": "1s"}}
    route = {"tools": "*", "backend": "scripted", "context": listed}
    gateway = await start(config({"scripted": backend}, [route]))
    greedy = {"authorization": [{"id": "bank"}], "secrets": [{"id": "KEY"}, {"id": "PIN"}]}
    server.tools = [tool("Echo.Say", requirements=greedy, description="New.")]
    await listed_until(gateway.caller, lambda answer: answer.tools[0]["description"] == "New.")
    assert (await gateway.caller.call("oxp", "Echo.Say", context=CONTEXT)).status == 200
    sent = server.calls[0].call["context"]
    got = {entry["id"] for entry in [*sent.get("authorization", []), *sent["secrets"]]}
    assert got == {"KEY", *listed}
    withheld = {"bank", "PIN"} - set(listed)
    assert set(gateway.gateway.details()["backends"]["scripted"]["withheld"]) == withheld
    warned = [record for record in caplog.records if "withheld" in record.message]
    assert len(warned) == (1 if withheld else 0)
    assert "canary" not in caplog.text


@every_dialect
async def test_trace_user_and_arguments_reach_the_tool_under_an_id_of_ours(
    caller: Caller, server: ToolServer, dialect: str
) -> None:
    """Ours: the caller's call id stays with the caller."""
    context: dict[str, Any] = {"user_id": "ada"}
    answer = await caller.call(dialect, "Count.Up", {"n": 1}, call_id="mine", trace_id="trace-7", context=context)
    assert answer.result["call_id"] == "mine"
    request = dict(server.calls[0].call)
    assert request.pop("call_id").startswith("tg-")
    assert request == {"tool_id": "Count.Up@1.0.0", "input": {"n": 1}, "trace_id": "trace-7", "context": context}
