"""Who may use which tool, by the scopes of routes. All of it is ours.

A strict gateway must not even show that there is a tool: every answer is compared with that of one without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.flow.caller import Answer, Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config, running
from tests.flow.toolserver import ToolServer, tool, tool_server
from tests.support.tokens import SECRET, api_key, token

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"
AUTH = {
    "jwt": [{"secret": SECRET}],
    "api_keys": [api_key("job", KEY, scopes=["vault", "deep"])],
}
OPEN = {"tools": "Echo.Say@1.*", "backend": "scripted"}
BETA = {"tools": "Echo.Say@2.*", "backend": "scripted", "scopes": ["beta"]}
VAULT = {"tools": "Vault.*", "backend": "scripted", "scopes": ["vault", "deep"]}
DENIED = [{"tools": route["tools"], "backend": "scripted", "deny": True} for route in (BETA, VAULT)]


@pytest.fixture(scope="module")
async def scripted(anyio_backend: object) -> AsyncIterator[ToolServer]:
    """Two versions of an echo, of which the newer one has a route of its own, and a vault."""
    async with tool_server(tool("Echo.Say@1.2.3"), tool("Echo.Say@2.0.0"), tool("Vault.Open")) as server:
        yield server


def text(server: ToolServer, routes: Sequence[Any], **sections: Any) -> str:
    return config({"scripted": server.url}, routes, auth=AUTH, **sections)


@pytest.fixture(scope="module")
async def caller(scripted: ToolServer) -> AsyncIterator[Caller]:
    async with running(text(scripted, [OPEN, BETA, VAULT])) as gateway:
        yield gateway.caller


@pytest.fixture(scope="module")
async def strict(scripted: ToolServer) -> AsyncIterator[Caller]:
    async with running(text(scripted, [OPEN, BETA, VAULT], errors={"strict": True})) as gateway:
        yield gateway.caller


@pytest.fixture(scope="module")
async def without(scripted: ToolServer) -> AsyncIterator[Caller]:
    """A caller of a strict gateway that does not publish what the others hide."""
    async with running(text(scripted, [OPEN, *DENIED], errors={"strict": True})) as gateway:
        yield gateway.caller


@every_dialect
@pytest.mark.parametrize("scope", [None, "", "vault", "deep", "vaultdeep", "VAULT DEEP"])
async def test_a_tool_needs_all_scopes(caller: Caller, scripted: ToolServer, dialect: str, scope: str | None) -> None:
    before = scripted.executions
    known = caller.with_token(token(scope=scope))
    for name in ("Vault.Open", "Vault.Open@1", "Vault.Open@1.0.0"):
        assert (await known.call(dialect, name)).status == 403
    assert (await known.list(dialect)).ids == ["Echo.Say@1.2.3"]
    assert scripted.executions == before


@pytest.mark.parametrize("scope", ["deep vault", ["vault", "deep"], "other deep vault more"])
async def test_a_caller_with_all_scopes_sees_and_runs_it(caller: Caller, scope: Any) -> None:
    known = caller.with_token(token(scope=scope))
    assert (await known.call("oxp", "Vault.Open", {"n": 1})).value == {"n": 1}
    assert "Vault.Open@1.0.0" in (await known.list("oxp")).ids


async def test_a_key_has_the_scopes_of_its_entry(caller: Caller) -> None:
    keyed = {"oxp-api-key": KEY}
    assert (await caller.call("oxp", "Vault.Open", headers=keyed)).status == 200
    assert (await caller.list("oxp", headers=keyed)).ids == ["Echo.Say@1.2.3", "Vault.Open@1.0.0"]
    assert (await caller.call("oxp", "Echo.Say@2", headers=keyed)).status == 403


async def test_the_latest_version_is_by_scope(caller: Caller, scripted: ToolServer) -> None:
    for scope, version in ((None, "1.2.3"), ("beta", "2.0.0")):
        known = caller.with_token(token(scope=scope))
        assert (await known.call("oxp", "Echo.Say", {"n": version})).value == {"n": version}
        assert scripted.calls[-1].call["tool_id"] == f"Echo.Say@{version}"
    assert (await caller.with_token(token()).call("oxp", "Echo.Say@2.0.0")).status == 403


def seen(answer: Answer) -> tuple[object, ...]:
    """Everything a caller can tell answers apart by, but the name of his request."""
    headers = [(name, value) for name, value in answer.headers.items() if name != "x-request-id"]
    return answer.status, sorted(headers), answer.body


HIDDEN = [
    *("Vault.Open", "Vault.Open@1", "Vault.Open@1.0.0", "Vault.Open@9.9.9", "Vault_Open"),
    *("Echo.Say@2", "Echo.Say@2.0.0", "Echo.Say@2.0.1", "Echo.Say@3"),
]


@pytest.mark.parametrize("name", HIDDEN)
async def test_strict_errors_hide_forbidden_tools(strict: Caller, without: Caller, name: str) -> None:
    hidden, absent = [await it.with_token(token()).call("oxp", name, {"n": 1}) for it in (strict, without)]
    assert hidden.status == 400
    assert seen(hidden) == seen(absent)


async def test_a_strict_gateway_still_serves_those_who_may(strict: Caller) -> None:
    known = strict.with_token(token(scope="vault deep beta"))
    assert (await known.call("oxp", "Vault.Open", {"n": 1})).value == {"n": 1}
    assert (await known.list("oxp")).ids == ["Echo.Say@1.2.3", "Echo.Say@2.0.0", "Vault.Open@1.0.0"]


async def test_strict_limits_hide_forbidden_tools(start: Start, scripted: ToolServer) -> None:
    """A limit on the tool itself would show in the headers."""
    limits = [{"name": "vaults", "key": "tool", "rate": "1/d", "tools": ["*"]}]
    sections = {"errors": {"strict": True}, "rate_limits": limits}
    known = (await start(text(scripted, [OPEN, BETA, VAULT], **sections))).caller.with_token(token())
    hidden, absent = await known.call("oxp", "Vault.Open"), await known.call("oxp", "Vault.Shut")
    assert hidden.headers.get("ratelimit") is absent.headers.get("ratelimit") is None
    assert hidden.message.replace("Open", "Shut") == absent.message
