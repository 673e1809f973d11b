"""What each key and issuer of the configuration uses: runs, refusals and bytes. All of it is ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.gateways import config
from tests.flow.keeping import finished
from tests.flow.toolserver import ToolServer
from tests.flow.watching import samples, watched
from tests.protocols.mcp.requests import post
from tests.protocols.mcp.test_batches import BATCHED, echo
from tests.support.tokens import SECRET, api_key, token

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"
ISSUER = {"issuer": "https://login:word@issuer.example", "secret": SECRET}
AUTH = {"jwt": [ISSUER, {"secret": SECRET}], "api_keys": [api_key("job", KEY)]}
LATER = {"prefer": "respond-async"}
NAMED = "jwt:https://issuer.example"  # without the login
ROUTES = [{"tools": "Count.*", "backend": "scripted", "scopes": ["count"]}, {"tools": "*", "backend": "scripted"}]


async def test_runs_refusals_and_bytes_are_counted_for_the_key_or_issuer(server: ToolServer) -> None:
    limit = {"name": "lists", "key": "caller", "rate": "1/d", "operations": ["list"]}
    async with watched(config({"scripted": server.url}, ROUTES, auth=AUTH, rate_limits=[limit])) as gateway:
        job: dict[str, Any] = {"headers": {"oxp-api-key": KEY}}
        named = gateway.caller.with_token(token("ada", iss=ISSUER["issuer"]))
        anyone = gateway.caller.with_token(token("ada", iss="zebra"))  # that entry takes tokens of any issuer
        for _ in range(2):
            await gateway.caller.call("oxp", "Echo.Say", call_id="k", **job)  # runs once
            await gateway.caller.list("oxp", **job)
        await gateway.caller.call("oxp", "Echo.Say")  # without a credential
        accepted = await named.call("oxp", "Echo.Say", headers=LATER)
        await finished(named, "oxp", accepted.headers["location"])
        await named.call("oxp", "Count.Up", {"n": 1})
        await anyone.call("oxp", "No.Tool")
        await post(anyone, [echo(1), echo(2)], BATCHED)
        calls = await samples(gateway.running, "toolgate_account_calls_total")
        refusals = await samples(gateway.running, "toolgate_account_refusals_total")
        moved = await samples(gateway.running, "toolgate_account_bytes_total")
    assert calls == {
        "{account=key:job,outcome=ok}": 1,
        f"{{account={NAMED},outcome=ok}}": 1,
        f"{{account={NAMED},outcome=refused}}": 1,
        "{account=jwt,outcome=ok}": 2,
    }
    assert refusals == {
        "{account=key:job,reason=rate_limited}": 1,
        f"{{account={NAMED},reason=forbidden}}": 1,
        "{account=jwt,reason=tool_not_found}": 1,
        "{account=none,reason=unauthenticated}": 1,
    }
    principals = {"key:job": "key:job", NAMED: f"jwt:{ISSUER['issuer']}:ada", "jwt": "jwt:zebra:ada"}
    own = [
        line for line in gateway.lines if (line["operation"], line["route"]) != ("call", "/mcp")
    ]  # those are in a batch
    assert moved == {
        f"{{account={account},direction={way}}}": sum(
            line[f"bytes_{way}"] for line in own if line.get("principal") == it
        )
        for account, it in principals.items()
        for way in ("in", "out")
    }
