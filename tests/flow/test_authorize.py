"""Calls about which the operator's own service decides, from its answer to the caller's. None of it is specified."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.settings.load import read
from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config, running
from tests.flow.toolserver import ToolServer, tool
from tests.flow.watching import samples, watched
from tests.protocols.mcp import requests as mcp_requests
from tests.streams import accepting, http_reply, read_request
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

ALLOWED, DENIED = {"result": {"allow": True}}, {"result": {"allow": False, "reason": "office_hours"}}
COUNTED = "toolgate_authorizations_total"


class Policy:
    """A service that decides as `answer` says; `asked` are the inputs it got."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.answer: Any = ALLOWED
        self.asked: list[dict[str, Any]] = []


@pytest.fixture
async def policy(anyio_backend: object) -> AsyncIterator[Policy]:
    async with deciding() as service:
        yield service


@asynccontextmanager
async def deciding() -> AsyncIterator[Policy]:
    service = Policy()

    async def converse(reader: Any, writer: Any) -> None:
        while True:
            request = await read_request(reader)
            service.asked.append(json.loads(request.body)["input"])
            writer.write(http_reply(service.status, service.answer))
            await writer.drain()

    async with accepting(converse) as port:
        service.url = f"http://127.0.0.1:{port}/v1/data/toolgate"
        yield service


def asking(server: ToolServer, policy: Policy, **keys: Any) -> str:
    auth = {"jwt": [{"secret": SECRET, "issuer": "tests"}]}
    routes = [{"tools": "Echo.*", "backend": "scripted"}]
    return config({"scripted": server.url}, routes, auth=auth, authorize={"url": policy.url, "cache": "0s", **keys})


def known(gateway: Running, scope: str = "b a") -> Caller:
    return gateway.caller.with_token(token(iss="tests", scope=scope))


async def test_a_denial_is_a_403_with_its_reason_and_no_decision_a_400(
    start: Start, server: ToolServer, policy: Policy
) -> None:
    caller = known(await start(asking(server, policy)))
    assert (await caller.call("oxp", "Echo.Say", {"n": 1}, context={"user_id": "eve"})).value == {"n": 1}
    [asked] = policy.asked
    assert asked == {
        "principal": "jwt:tests:ada",
        "issuer": "tests",
        "subject": "ada",
        "scopes": ["a", "b"],
        "user": "eve",
        "tool": "Echo.Say",
        "version": "1.0.0",
        "backend": "scripted",
        "route": "Echo.*",
        "dialect": "oxp",
    }
    policy.answer = DENIED
    denied = await caller.call("oxp", "Echo.Say")
    assert (denied.status, denied.document["code"], denied.document["reason"]) == (403, "forbidden", "office_hours")
    assert denied.headers["toolgate-reason"] == "office_hours"
    policy.status = 500
    undecided = await caller.call("oxp", "Echo.Say")
    assert (undecided.status, undecided.document["code"]) == (400, "authorization_unavailable")
    assert (undecided.headers["retry-after"], undecided.headers["toolgate-code"]) == ("1", "authorization_unavailable")
    assert server.executions == 1
    assert (await caller.list("oxp")).ids == ["Echo.Say@1.0.0"]  # lists are not filtered


async def test_mcp_has_a_403_with_its_reason_and_an_error_that_a_model_can_read(
    start: Start, server: ToolServer, policy: Policy
) -> None:
    caller = known(await start(asking(server, policy)))
    policy.answer = DENIED
    for headers in (None, await mcp_requests.session(caller)):
        call = (
            mcp_requests.call(caller, "Echo_Say")
            if headers is None
            else mcp_requests.call_in(caller, headers, "Echo_Say")
        )
        answer = await call
        assert answer.status_code == 403
        assert answer.json()["error"]["data"] == {"reason": "office_hours"}
        assert answer.headers["toolgate-reason"] == "office_hours"
        assert "www-authenticate" not in answer.headers  # no other token would help
    policy.answer = "no decision"
    result = (await mcp_requests.call(caller, "Echo_Say")).json()["result"]
    assert result["isError"] is True
    assert result["_meta"]["toolgate/error"]["code"] == "authorization_unavailable"
    assert result["_meta"]["toolgate/error"]["can_retry"] is True


async def test_a_kept_result_is_given_again_only_to_whom_the_policy_still_allows_the_call(
    start: Start, server: ToolServer, policy: Policy
) -> None:
    caller = known(await start(asking(server, policy)))
    first = await caller.call("oxp", "Echo.Say", {"n": 1}, call_id="c-1")
    policy.answer = DENIED
    assert (await caller.call("oxp", "Echo.Say", {"n": 1}, call_id="c-1")).status == 403
    asked = len(policy.asked)
    look = await caller.send("oxp", "kept", "GET", f"/calls/{first.headers['toolgate-call-id']}")
    assert look.value == {"n": 1}  # nothing runs for a look
    assert len(policy.asked) == asked
    policy.answer = ALLOWED
    assert (await caller.call("oxp", "Echo.Say", {"n": 1}, call_id="c-1")).value == {"n": 1}
    assert server.executions == 1


async def test_a_valid_call_is_asked_about_before_anybody_is_asked_to_supply_something(
    start: Start, server: ToolServer, policy: Policy
) -> None:
    server.tools.append(tool("Vault.Open", requirements={"secrets": [{"id": "PIN"}]}))
    text = json.loads(asking(server, policy, with_arguments=True))
    text["routes"][0]["tools"] = "*"
    caller = known(await start(json.dumps(text)))
    assert (await caller.call("oxp", "Count.Up", {"n": "x"})).status == 422
    assert (await caller.call("oxp", "Count.Down")).status == 400
    assert (await caller.with_token(None).call("oxp", "Count.Up", {"n": 1})).status == 401
    assert policy.asked == []
    await caller.call("oxp", "Count.Up", {"n": 1})
    assert policy.asked[0]["arguments"] == {"n": 1}
    assert (await caller.call("oxp", "Vault.Open")).missing is not None
    policy.answer = DENIED
    assert (await caller.call("oxp", "Vault.Open")).status == 403


async def test_strict_errors_and_on_failure(start: Start, server: ToolServer, policy: Policy) -> None:
    text = json.loads(asking(server, policy, on_failure="allow")) | {"errors": {"strict": True}}
    gateway = await start(json.dumps(text))
    policy.answer = DENIED
    denied = await known(gateway).call("oxp", "Echo.Say")
    assert (denied.status, denied.document["reason"]) == (400, "office_hours")
    policy.status = 502
    assert (await known(gateway).call("oxp", "Echo.Say")).status == 200
    assert await samples(gateway, COUNTED) == {"{outcome=denied}": 1, "{outcome=unavailable}": 1}
    assert gateway.gateway.health.details()["authorization"] == {"up": False, "reason": "status 502"}


async def test_an_input_that_the_service_refuses_does_not_run_even_if_failures_are_allowed(
    start: Start, server: ToolServer, policy: Policy
) -> None:
    gateway = await start(asking(server, policy, on_failure="allow", with_arguments=True))
    policy.status, policy.answer = 413, "too large"
    denied = await known(gateway).call("oxp", "Echo.Say", {"n": "x" * 10_000})
    assert (denied.status, denied.document["code"], denied.document["reason"]) == (403, "forbidden", "undecided")
    assert server.executions == 0
    policy.status = 503
    assert (await known(gateway).call("oxp", "Echo.Say", {"n": 1})).value == {"n": 1}


async def test_the_line_of_a_denied_call_has_the_reason(server: ToolServer, policy: Policy) -> None:
    policy.answer = DENIED
    async with watched(asking(server, policy)) as it:
        await known(it.running).call("oxp", "Echo.Say", {"n": "canary"})
    [line] = it.lines
    assert (line["status"], line["outcome"], line["reason"]) == (403, "refused", "office_hours")
    assert "canary" not in it.text


async def test_a_reload_keeps_stored_decisions_unless_the_settings_change(server: ToolServer, policy: Policy) -> None:
    text = asking(server, policy, cache="1h")
    async with running(text) as gateway, deciding() as other:
        other.answer = DENIED
        caller = known(gateway)
        for _ in range(2):
            assert (await caller.call("oxp", "Echo.Say")).status == 200
            await gateway.gateway.apply(read(text, env={}))
        assert len(policy.asked) == 1
        await gateway.gateway.apply(read(asking(server, other), env={}))
        assert (await caller.call("oxp", "Echo.Say")).status == 403
        await gateway.gateway.apply(read(config({"scripted": server.url}), env={}))
        assert (await caller.call("oxp", "Echo.Say")).status == 200
