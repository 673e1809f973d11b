"""Which headers reach a tool server, and that no text of a caller becomes one."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pytest

from tests.support.calling import call, caller, connect, encoded_call, value
from tests.support.processes import GatewayProcess, gateway, settings
from tests.support.toolserver import Exchange, ToolServer, definition, echo, tool_server

CALLERS_SECRET = "what-callers-sign-their-tokens-with"
SERVERS_SECRET = "what-the-tool-server-verifies-with"
TTL_S = 60
EVIL = "x\r\nX-Evil: 1\r\n\r\nGET /evil HTTP/1.1"
NEEDY = definition("Lab.Needy", requirements={"authorization": [{"id": "door"}], "secrets": [{"id": "KEY"}]})


@dataclass(frozen=True)
class Site:
    """A gateway with authentication on both sides, and the tool server behind it."""

    running: GatewayProcess
    lab: ToolServer

    def http(self, subject: str, **headers: str) -> Any:
        token = jwt.encode({"sub": subject, "exp": int(time.time()) + 600}, CALLERS_SECRET, "HS256")
        return caller(self.running.url, headers={"Authorization": f"Bearer {token}", **headers})


async def evil(exchange: Exchange) -> None:
    """Refuses with line breaks wherever there is a text; the URL of its first challenge has none."""
    challenges = [
        {"id": EVIL, "url": "https://door.example/", "check_url": "/" + EVIL},
        {"id": "no url", "url": "https://door.example/" + EVIL},
    ]
    missing = {"authorization": challenges, "secrets": [{"id": EVIL}]}
    await exchange.reply({"message": EVIL, "developer_message": EVIL, "missing_requirements": missing}, status=400)


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Site]:
    tools = {"Lab.Echo": echo, "Lab.Needy": echo, "Lab.Evil": evil}
    async with tool_server(tools, [definition("Lab.Echo"), definition("Lab.Evil"), NEEDY]) as lab:
        backend = {
            "protocol": "otc",
            "url": lab.url,
            "forward_headers": ["x-tenant", "x-locale"],
            "auth": {"jwt": {"secret": SERVERS_SECRET, "issuer": "gate", "audience": "lab", "ttl": f"{TTL_S}s"}},
        }
        config = settings({"lab": backend}, auth={"jwt": [{"secret": CALLERS_SECRET}]})
        async with gateway(config) as running:
            yield Site(running, lab)


def assert_unharmed(site: Site, response: httpx.Response) -> None:
    """Nothing was injected, on either side."""
    assert "x-evil" not in response.headers
    for request in site.lab.requests:
        assert request.header("x-evil") is None
        assert request.target in ("/tools", "/tools/call")


@pytest.mark.anyio
async def test_only_headers_of_the_allow_list_reach_a_tool_server(site: Site) -> None:
    private = {
        "Cookie": "session=mine",
        "Proxy-Authorization": "Basic mine",
        "X-Api-Key": "mine",
        "X-Forwarded-For": "192.0.2.7",
        "Forwarded": "for=192.0.2.7",
        "X-Locale-Other": "mine",
        "Referer": "https://mine.example/",
    }
    async with site.http("alice", **private, **{"X-Tenant": "acme", "X-Locale": "nb-NO"}) as http:
        mine = http.headers["authorization"]
        assert value(await call(http, "Lab.Echo", {})) == {}
    arrived = site.lab.calls("Lab.Echo")[-1].headers
    theirs = {name: text for name, text in arrived if name.startswith("x-") and name != "x-request-id"}
    assert theirs == {"x-tenant": "acme", "x-locale": "nb-NO"}
    assert len(dict(arrived)) == len(arrived), "a header is repeated"
    texts = " ".join(text for _, text in arrived)
    assert "mine" not in texts
    assert "192.0.2.7" not in texts
    assert mine not in texts


@pytest.mark.anyio
async def test_the_tool_server_is_shown_a_token_for_each_principal_that_it_can_verify(site: Site) -> None:
    for subject, principal in (("alice", "jwt::alice"), ("bob", "jwt::bob"), ("Ærø", "jwt::Ærø")):
        async with site.http(subject) as http:
            assert value(await call(http, "Lab.Echo", {})) == {}
        claims = shown(site.lab, "Lab.Echo")
        assert claims["sub"] == principal
        assert claims["exp"] - claims["iat"] == TTL_S
        assert time.time() < claims["exp"] <= time.time() + TTL_S


def shown(lab: ToolServer, tool: str) -> dict[str, Any]:
    """The verified claims of the token that came with the last call."""
    scheme, _, token = (lab.calls(tool)[-1].header("authorization") or "").partition(" ")
    assert scheme == "Bearer"
    claims: dict[str, Any] = jwt.decode(token, SERVERS_SECRET, algorithms=["HS256"], audience="lab", issuer="gate")
    return claims


@pytest.mark.anyio
@pytest.mark.parametrize("member", ["tool_id", "call_id", "latest"])
async def test_an_id_with_line_breaks_is_refused(site: Site, member: str) -> None:
    ids = {"tool_id": "Lab.Echo", "call_id": "c"} | {member: f"Lab.Echo{EVIL}"}
    before = len(site.lab.requests)
    async with site.http("alice") as http:
        response = await call(http, ids.pop("tool_id"), {}, **ids)
        assert response.status_code == 400
        assert_unharmed(site, response)
    assert len(site.lab.requests) == before


@pytest.mark.anyio
async def test_texts_with_line_breaks_stay_in_the_body(site: Site) -> None:
    context = {
        "authorization": [{"id": "door", "token": EVIL}],
        "secrets": [{"id": "KEY", "value": EVIL}],
        "user_id": EVIL,
    }
    async with site.http("alice") as http:
        response = await call(http, "Lab.Needy", {EVIL: EVIL}, trace_id=EVIL, context=context)
        assert value(response) == {EVIL: EVIL}
        assert_unharmed(site, response)
    arrived = site.lab.calls("Lab.Needy")[-1]
    assert (arrived.call["context"], arrived.call["trace_id"]) == (context, EVIL)


@pytest.mark.anyio
async def test_a_subject_with_line_breaks_is_nobody(site: Site) -> None:
    async with site.http(EVIL) as http:
        response = await call(http, "Lab.Echo", {})
    assert response.status_code == 401
    assert_unharmed(site, response)


@pytest.mark.anyio
async def test_texts_of_a_tool_server_with_line_breaks_stay_in_the_body(site: Site) -> None:
    async with site.http("alice") as http:
        response = await call(http, "Lab.Evil", {})
        assert response.status_code == 400
        assert response.json()["message"] == EVIL
        (challenge,) = response.json()["missing_requirements"]["authorization"]
        assert challenge == {"id": EVIL, "url": "https://door.example/"}  # its check_url is none
        assert_unharmed(site, response)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line",
    [
        "X-Tenant: a\nX-Evil: 1",
        "X-Tenant: a\rX-Evil: 1",
        "X-Tenant: a\r\n X-Evil: 1",
        "X-Tenant: a\x00b",
        "X-Tenant : a",
        "X-Tenant\x00: a",
    ],
)
async def test_a_forwarded_header_that_two_readers_would_read_differently_is_refused(site: Site, line: str) -> None:
    before = len(site.lab.requests)
    async with site.http("alice") as http:
        credential = f"Authorization: {http.headers['authorization']}"
    reader, writer = await connect(site.running.url)
    writer.write(encoded_call("Lab.Echo", {}, credential, line, "Connection: close"))
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert "message" in json.loads(answer.partition(b"\r\n\r\n")[2])
    assert len(site.lab.requests) == before
