"""Arguments and requirements of tools: validation, missing requirements, and what is passed on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config, listed_until
from tests.flow.toolserver import ToolServer, object_of, tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        pytest.param({"n": "one"}, {"n"}, id="a wrong type"),
        pytest.param({"n": 1.5}, {"n"}, id="a fraction for an integer"),
        pytest.param({"n": None}, {"n"}, id="null"),
        pytest.param({}, {"n"}, id="a missing one"),
        pytest.param({"n": 1, "m": 2}, {"m"}, id="an unknown one"),
        pytest.param({"m": 2}, {"n", "m"}, id="one missing and one unknown"),
    ],
)
@every_dialect
async def test_invalid_arguments_are_refused_by_parameter(
    caller: Caller, server: ToolServer, dialect: str, arguments: Any, blamed: set[str]
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Input Validation Error: 422; ValidationErrorResponse: a map keyed by parameter."""
    answer = await caller.call(dialect, "Count.Up", arguments)
    assert answer.status == 422
    assert answer.message
    assert answer.document["parameter_errors"].keys() == blamed
    assert server.calls == []


async def test_wrong_input_is_never_quoted(caller: Caller) -> None:
    """Ours: answers and logs hold no argument."""
    answer = await caller.call("oxp", "Count.Up", {"n": "canary-3141"})
    assert answer.status == 422
    assert b"canary" not in answer.body


async def test_a_nested_error_is_under_its_parameter(start: Start, server: ToolServer) -> None:
    """Ours: `parameter_errors` is keyed by parameter; the path stands in the text."""
    items = {"type": "array", "items": object_of(name={"type": "string"})}
    server.tools = [tool("Cart.Fill", input_schema=object_of(items=items))]
    caller = (await start(config({"scripted": server.url}))).caller
    answer = await caller.call("oxp", "Cart.Fill", {"items": [{"name": "tea"}, {"name": 7}]})
    assert answer.status == 422
    assert answer.document["parameter_errors"].keys() == {"items"}
    assert "items[1].name" in answer.document["parameter_errors"]["items"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"request": null}',
        b'{"tool_id": "Echo.Say", "input": {"n": NaN}}',
        b'{"tool_id": "Echo.Say", "input": {"n": "\xff"}}',
        b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:50]),
)
@every_dialect
async def test_a_malformed_body_is_refused(caller: Caller, server: ToolServer, dialect: str, content: bytes) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Server Errors: 400. Ours: NaN, bad UTF-8 and their like are no JSON."""
    if dialect != "oxp" and content.startswith(b'{"tool_id"'):
        content = b'{"request": %b}' % content
    answer = await caller.send(dialect, "call", "POST", f"/{dialect}/tools/call", content=content)
    assert answer.status == 400
    assert server.calls == []


async def test_the_last_of_two_equal_names_counts(caller: Caller, server: ToolServer) -> None:
    """Ours: what was validated is what the tool gets, however another parser would have read it."""
    request = b'{"tool_id":"Count.Up","input":{"n":"wrong","n":1}}'
    content = request
    answer = await caller.send("oxp", "call", "POST", "/oxp/tools/call", content=content)
    assert answer.value == {"n": 1}
    assert b"wrong" not in server.calls[0].body


SMS = {"to": "+4712345678", "text": "hello"}
CONTEXT = {
    "authorization": [{"id": "mail", "token": "mail-token"}, {"id": "bank", "token": "bank-canary"}],
    "secrets": [{"id": "KEY", "value": "key-value"}, {"id": "PIN", "value": "pin-canary"}],
    "user_id": "ada",
}


async def test_a_missing_secret_is_named_and_a_given_one_never_repeated(demo: Caller) -> None:
    """Spec: OXP 1.0, Tool Requirements: 400. Ours: which secret it is."""
    other = {"secrets": [{"id": "OTHER", "value": "canary-2718"}]}
    answer = await demo.call("oxp", "Sms.Send", SMS, context=other)
    assert (answer.status, answer.missing) == (400, {"secrets": [{"id": "SMS_API_KEY"}]})
    assert b"canary" not in answer.body
    answer = await demo.call("oxp", "Sms.Send", SMS, context={"secrets": [{"id": "SMS_API_KEY", "value": "it"}]})
    assert answer.value == {"status": "queued", "to_last4": "5678"}


async def test_a_missing_user_is_asked_for(demo: Caller) -> None:
    """Spec: OXP 1.0, `missing_requirements.user_id`: 400."""
    answer = await demo.call("oxp", "Notes.List")
    assert (answer.status, answer.missing) == (400, {"user_id": True})
    assert (await demo.call("oxp", "Notes.List", context={"user_id": "nobody"})).value == []


async def test_an_empty_user_id_is_none(start: Start, server: ToolServer) -> None:
    """Ours: no tool server is sent one, and the call is found by its id as any other."""
    caller = (await start(config({"scripted": server.url}))).caller
    asked: list[dict[str, Any]] = [{"context": {"user_id": ""}}, {"context": {}}]
    first, again = [await caller.call("oxp", "Echo.Say", {"n": 1}, call_id="k", **one) for one in asked]
    assert "user_id" not in server.calls[0].call.get("context", {})
    assert (first.body, server.executions) == (again.body, 1)
    assert (await caller.http.get("/calls/k")).status_code == 200


@every_dialect
async def test_everything_missing_is_listed_at_once(start: Start, server: ToolServer, dialect: str) -> None:
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


async def test_only_what_a_tool_declares_is_passed_on(start: Start, server: ToolServer) -> None:
    """Ours: other tokens and secrets of the caller are none of the tool server's business."""
    needs = {"authorization": [{"id": "mail"}], "secrets": [{"id": "KEY"}]}
    server.tools = [tool("Echo.Say"), tool("Vault.Open", requirements=needs)]
    caller = (await start(config({"scripted": server.url}))).caller
    for name in ("Echo.Say", "Vault.Open"):
        assert (await caller.call("oxp", name, context=CONTEXT)).status == 200
    plain, vault = server.calls
    assert plain.call["context"] == {"user_id": "ada"}
    assert vault.call["context"] == {
        "authorization": [{"id": "mail", "token": "mail-token"}],
        "secrets": [{"id": "KEY", "value": "key-value"}],
        "user_id": "ada",
    }
    assert all(b"canary" not in received.body for received in server.calls)


async def test_a_secret_of_the_route_is_injected(start: Start, server: ToolServer) -> None:
    """Ours: it wins over the caller's, and is gone from the requirements in the catalogue."""
    server.tools = [tool("Vault.Open", requirements={"secrets": [{"id": "KEY"}, {"id": "PIN"}]})]
    route = {"tools": "*", "backend": "scripted", "secrets": {"KEY": "key of the route", "UNUSED": "never sent"}}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    [shown] = (await caller.list("oxp")).tools
    assert shown["requirements"] == {"secrets": [{"id": "PIN"}]}
    answer = await caller.call("oxp", "Vault.Open", context={"secrets": [{"id": "KEY", "value": "theirs"}]})
    assert answer.missing == {"secrets": [{"id": "PIN"}]}
    answer = await caller.call("oxp", "Vault.Open", context={"secrets": CONTEXT["secrets"]})
    assert answer.status == 200
    assert b"key of the route" not in answer.body
    [call] = server.calls
    assert call.call["context"]["secrets"] == [
        {"id": "KEY", "value": "key of the route"},
        {"id": "PIN", "value": "pin-canary"},
    ]


@pytest.mark.parametrize("listed", [[], ["bank"], ["bank", "PIN"]], ids=["none", "one", "both"])
async def test_newly_required_ids_are_withheld_until_the_route_lists_them(
    start: Start, server: ToolServer, listed: list[str], caplog: pytest.LogCaptureFixture
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
    assert set(gateway.gateway.health.details()["backends"]["scripted"]["withheld"]) == withheld
    warned = [record for record in caplog.records if "withheld" in record.message]
    assert len(warned) == (1 if withheld else 0)
    assert "canary" not in caplog.text


async def test_the_tool_gets_trace_user_and_arguments(caller: Caller, server: ToolServer) -> None:
    """Ours: the caller's call id stays with the caller."""
    context: dict[str, Any] = {"user_id": "ada"}
    answer = await caller.call("oxp", "Count.Up", {"n": 1}, call_id="mine", trace_id="trace-7", context=context)
    assert answer.result["call_id"] == "mine"
    request = dict(server.calls[0].call)
    assert request.pop("call_id").startswith("tg-")
    assert request == {"tool_id": "Count.Up@1.0.0", "input": {"n": 1}, "trace_id": "trace-7", "context": context}
