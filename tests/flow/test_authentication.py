"""Who may call: bearer tokens, and nothing else that looks like one (OXP 1.0, Security)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config, running
from tests.flow.toolserver import ToolServer, tool, tool_server
from tests.support.tokens import OTHER_SECRET, SECRET, token

pytestmark = pytest.mark.anyio

AUTH = {"jwt": [{"secret": SECRET, "audience": ["toolgate", "tools"], "max_lifetime": "15m"}]}

# One address presents some hundred bad credentials here.
PATIENT = {"name": "patient", "key": "ip", "rate": "10000/s", "operations": ["failed_verification"]}


@pytest.fixture(scope="module")
async def scripted(anyio_backend: object) -> AsyncIterator[ToolServer]:
    async with tool_server(tool("Echo.Say")) as server:
        yield server


@pytest.fixture(scope="module")
async def caller(scripted: ToolServer) -> AsyncIterator[Caller]:
    """A caller without a credential of a gateway that asks for one."""
    async with running(config({"scripted": scripted.url}, auth=AUTH, rate_limits=[PATIENT])) as gateway:
        yield gateway.caller


GOOD = {
    "our audience": {"aud": "toolgate"},
    "ours among others": {"aud": ["elsewhere", "toolgate"]},
}
BAD = {
    "nothing": "",
    "another scheme": "Basic YWRhOmFkYQ==",
    "a bad signature": f"Bearer {token(secret=OTHER_SECRET)}",
    "a life of more than 15 minutes": f"Bearer {token(exp=int(time.time()) + 3600)}",
}
IGNORED = {
    "another scheme": {"authorization": BAD["another scheme"]},
    "a key for OXP": {"oxp-api-key": "x"},
    "a key for OTC": {"otc-api-key": "x"},
}


@pytest.mark.parametrize("claims", GOOD.values(), ids=GOOD)
@every_dialect
async def test_a_good_token_is_let_in(caller: Caller, dialect: str, claims: dict[str, Any]) -> None:
    """Spec: OXP 1.0, Security: `aud` is checked when it is there."""
    known = caller.with_token(token(**claims))
    assert (await known.call(dialect, "Echo.Say", {"n": 1})).value == {"n": 1}
    assert (await known.list(dialect)).ids == ["Echo.Say@1.0.0"]


@pytest.mark.parametrize("authorization", BAD.values(), ids=BAD)
@every_dialect
async def test_without_a_good_token_both_operations_are_refused_and_quote_nothing(
    caller: Caller, scripted: ToolServer, dialect: str, authorization: str
) -> None:
    """Spec: OXP 1.0, Security: 401. Not specified: the limit of 15 minutes, which is only a SHOULD."""
    before = len(scripted.calls)
    headers = {"authorization": authorization} if authorization else {}
    for answer in (
        await caller.call(dialect, "Echo.Say", headers=headers),
        await caller.list(dialect, headers=headers),
    ):
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert authorization[-20:] not in answer.body.decode() or not authorization
    assert len(scripted.calls) == before


async def test_a_repeated_authorization_header_is_refused(caller: Caller) -> None:
    """Not specified: a good token does not excuse a second one."""
    headers = [("authorization", f"Bearer {token()}"), ("authorization", "Bearer other")]
    assert (await caller.call("otc", "Echo.Say", headers=headers)).status == 400


@pytest.mark.parametrize("path", ["/tools/call", "/call"])
async def test_an_unknown_caller_on_a_bare_path_gets_what_every_dialect_can_read(caller: Caller, path: str) -> None:
    """Not specified: the body that would tell the dialect is not read before the caller is known."""
    body = {"request": {"tool_id": "Echo.Say"}}
    assert (await caller.post("bare", path, body)).status == 401
    answer = await caller.post("oxp", path, body, headers={"oxp-version": "1.0"})
    assert (answer.status, answer.headers["oxp-version"]) == (401, "1.0")


@pytest.mark.parametrize(
    ("dialect", "header"), list(zip(("otc", "oxp", "lc"), IGNORED.values(), strict=True)), ids=IGNORED
)
async def test_credentials_are_ignored_without_auth(demo: Caller, dialect: str, header: dict[str, str]) -> None:
    """Spec: OXP 1.0, Security: with no authentication, `Authorization` MUST be ignored."""
    assert (await demo.call(dialect, "Text.Echo", {"value": 1}, headers=header)).value == 1


async def test_the_callers_credential_never_reaches_a_tool_server(start: Start, server: ToolServer) -> None:
    """Not specified."""
    backend = {"protocol": "oxp", "url": server.url, "auth": {"bearer": "ours"}}
    caller = (await start(config({"scripted": backend}, auth={"jwt": [{"secret": SECRET}]}))).caller
    mine = token()
    headers = {"cookie": "mine", "x-forwarded-for": "10.1.1.1"}
    assert (await caller.with_token(mine).call("oxp", "Echo.Say", headers=headers)).status == 200
    [call] = server.calls
    assert call.header("authorization") == "Bearer ours"
    assert not {"cookie", "x-forwarded-for"} & dict(call.headers).keys()
    assert mine not in str(call)


async def test_only_headers_the_operator_allows_are_passed_on(start: Start, server: ToolServer) -> None:
    """Not specified."""
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant", "x-absent"]}
    caller = (await start(config({"scripted": backend}))).caller
    assert (await caller.call("oxp", "Echo.Say", headers={"x-tenant": "acme", "x-other": "mine"})).status == 200
    [call] = server.calls
    assert call.header("x-tenant") == "acme"
    assert not {"x-absent", "x-other"} & dict(call.headers).keys()


async def test_every_line_of_a_header_is_passed_on_in_order(start: Start, server: ToolServer) -> None:
    """RFC 9110, section 5.3."""
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant", "prefer", "x-locale"]}
    caller = (await start(config({"scripted": backend}))).caller
    sent = [("x-tenant", "acme, b"), ("prefer", "wait=5"), ("x-tenant", ""), ("x-locale", "nb"), ("x-tenant", "acme")]
    answer = await caller.http.post("/oxp/tools/call", json={"tool_id": "Echo.Say", "input": {}}, headers=sent)
    assert answer.status_code == 200
    arrived = [line for line in server.calls[0].headers if line[0] in ("x-tenant", "prefer", "x-locale")]
    assert arrived == [
        (name, value) for wanted in ("x-tenant", "prefer", "x-locale") for name, value in sent if name == wanted
    ]


@pytest.mark.parametrize(
    ("lines", "passed"),
    [
        ([("connection", "X-Tenant")], []),
        ([("connection", "keep-alive,x-tenant ,\tclose")], []),
        ([("connection", "keep-alive"), ("connection", "x-tenant"), ("connection", "x-other")], []),
        ([("connection", "keep-alive")], ["acme"]),
        ([("connection", "x-tenant-id, tenant")], ["acme"]),
    ],
)
async def test_headers_named_by_connection_stop_here(
    start: Start, server: ToolServer, lines: list[tuple[str, str]], passed: list[str]
) -> None:
    """RFC 9110, section 7.6.1."""
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant", "x-locale"]}
    caller = (await start(config({"scripted": backend}))).caller
    sent = [("x-tenant", "acme"), *lines, ("x-locale", "nb")]
    answer = await caller.http.post("/oxp/tools/call", json={"tool_id": "Echo.Say", "input": {}}, headers=sent)
    assert answer.status_code == 200
    arrived = server.calls[0].headers
    assert [value for name, value in arrived if name == "x-tenant"] == passed
    assert [value for name, value in arrived if name == "x-locale"] == ["nb"]


async def test_a_token_made_for_the_tool_server_names_the_caller(start: Start, server: ToolServer) -> None:
    """Not specified: short-lived, signed by the gateway, its subject the principal."""
    signing = {"secret": OTHER_SECRET, "audience": "worker", "ttl": "30s"}
    backend = {"protocol": "oxp", "url": server.url, "auth": {"jwt": signing}}
    caller = (await start(config({"scripted": backend}, auth={"jwt": [{"secret": SECRET}]}))).caller
    assert (await caller.with_token(token("grace")).call("oxp", "Echo.Say")).status == 200
    claims = jwt.decode(
        str(server.calls[0].header("authorization")).removeprefix("Bearer "), OTHER_SECRET, ["HS256"], audience="worker"
    )
    assert claims["sub"] == "jwt::grace"
    assert 0 < claims["exp"] - time.time() <= 30
