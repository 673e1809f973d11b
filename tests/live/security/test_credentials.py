"""A gateway process that takes tokens of four issuers and an API key: each caller gets its own principal."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pytest

from tests.live.security.issuer import Issuer, issuer_process
from tests.support.authenticators import handmade
from tests.support.calling import call, caller, value
from tests.support.keys import jwk, private, public_pem
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import ToolServer, definition, echo, tool_server

pytestmark = pytest.mark.anyio

SECRET = "a secret of more than thirty-two bytes"
KEY = "an-api-key-that-cannot-be-guessed"
AUDIENCE = "toolgate"
PINNED = "https://pinned.example"
HOSTILE = [
    "",
    "Bearer",
    "Bearer " + "." * 5000,
    "Bearer " + "a" * 20_000,
    "Bearer e30.e30.e30",
    "Bearer " + "e30." * 2000,
    "Bearer \xff\xfe",
    "Basic YTpi",
    f"Bearer {KEY}x",
    "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6OTk5OTk5OTk5OX0.",
]


@dataclass(frozen=True)
class Site:
    """The gateway, what is behind it, and who issues tokens for it."""

    running: GatewayProcess
    lab: ToolServer
    discovered: Issuer
    listed: Issuer

    async def ask(self, authorization: str | None = None, **headers: str) -> httpx.Response:
        """Calls a tool; header names are written with underscores."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if authorization is not None:
            sent["authorization"] = authorization
        async with caller(
            self.running.url, headers={key: text.encode("latin-1") for key, text in sent.items()}
        ) as http:
            return await call(http, "Lab.Echo", {"n": 1})

    async def is_let_in(self, token: str) -> bool:
        return (await self.ask(f"Bearer {token}")).status_code == 200


def token(issuer: str, key: Any, algorithm: str, kid: str | None = None, **claims: Any) -> str:
    body = {"iss": issuer, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600} | claims
    given = {name: claim for name, claim in body.items() if claim is not None}
    return jwt.encode(given, key, algorithm, headers=None if kid is None else {"kid": kid})


@pytest.fixture(scope="module")
async def site(anyio_backend: object) -> AsyncIterator[Site]:
    """All of it, once the gateway has the keys it must fetch."""
    tools = {"Lab.Echo": echo}
    async with issuer_process() as discovered, tool_server(tools, [definition("Lab.Echo")]) as lab:
        listed = discovered.called("listed")
        await discovered.publish(jwk("p256", kid="ec"))
        await listed.publish(jwk("rsa", kid="rsa"))
        fetched = {"audience": [AUDIENCE], "jwks_cooldown": "1s"}
        auth = {
            "jwt": [
                {"issuer": discovered.url, "discovery": True, "algorithms": ["ES256"], **fetched},
                {"issuer": listed.url, "jwks_url": listed.jwks_url, "algorithms": ["RS256", "PS256"], **fetched},
                {
                    "issuer": PINNED,
                    "public_key": public_pem("ed25519"),
                    "algorithms": ["EdDSA"],
                    "audience": [AUDIENCE],
                },
                {"secret": SECRET, "audience": [AUDIENCE]},
            ],
            "api_keys": [{"id": "nightly", "hash": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"}],
        }
        backend = {"protocol": "otc", "url": lab.url, "auth": {"jwt": {"secret": SECRET}}}
        async with gateway(settings({"lab": backend}, auth=auth)) as running:
            site = Site(running, lab, discovered, listed)
            await until(lambda: site.is_let_in(token(discovered.url, private("p256"), "ES256", "ec")), "keys are here")
            await until(lambda: site.is_let_in(token(listed.url, private("rsa"), "RS256", "rsa")), "keys are here")
            yield site


async def test_every_issuer_and_every_key_names_its_own_callers(site: Site) -> None:
    tokens = {
        f"jwt:{site.discovered.url}:alice": token(site.discovered.url, private("p256"), "ES256", "ec"),
        f"jwt:{site.listed.url}:alice": token(site.listed.url, private("rsa"), "PS256", "rsa"),
        f"jwt:{PINNED}:alice": token(PINNED, private("ed25519"), "EdDSA"),
        "jwt:https://any.example:alice": token("https://any.example", SECRET, "HS256"),
        "jwt:https://another.example:alice": token("https://another.example", SECRET, "HS256"),
        "key:nightly": KEY,
    }
    for principal, credential in tokens.items():
        assert value(await site.ask(f"Bearer {credential}")) == {"n": 1}
        assert shown_to(site.lab) == principal
    for header in ("oxp_api_key", "otc_api_key"):
        assert value(await site.ask(**{header: KEY})) == {"n": 1}
        assert shown_to(site.lab) == "key:nightly"


def shown_to(lab: ToolServer) -> str:
    """The principal of the last call the tool server got."""
    shown = (lab.calls("Lab.Echo")[-1].header("authorization") or "").removeprefix("Bearer ")
    return str(jwt.decode(shown, SECRET, ["HS256"], options={"verify_aud": False})["sub"])


@pytest.mark.parametrize("authorization", HOSTILE, ids=lambda text: ascii(text)[:20])
async def test_what_is_no_credential_is_a_401_and_reaches_no_tool(site: Site, authorization: str) -> None:
    before = len(site.lab.requests)
    answer = await site.ask(authorization)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Bearer realm="toolgate"')
    assert len(site.lab.requests) == before


@pytest.mark.parametrize("issuer", [PINNED, "https://any.example"])
@pytest.mark.parametrize("published", ["ed25519", "rsa"])
async def test_a_published_key_opens_nothing(site: Site, issuer: str, published: str) -> None:
    """Algorithm confusion, against a gateway that takes HS256 of another issuer."""
    claims = {"iss": issuer, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600}
    forged = handmade({"alg": "HS256"}, claims, key=public_pem(published).encode())
    assert (await site.ask(forged.headers[b"authorization"].decode())).status_code == 401


@pytest.mark.parametrize("audience", [None, "elsewhere", ["elsewhere"], []])
async def test_a_token_that_an_issuer_with_public_keys_made_for_others_is_refused(site: Site, audience: Any) -> None:
    """Ours: such an issuer signs for every service it knows, so a token without `aud` is not for us either."""
    claims = {"aud": audience}
    assert (await site.ask(f"Bearer {token(PINNED, private('ed25519'), 'EdDSA', **claims)}")).status_code == 401


async def test_two_credentials_are_refused(site: Site) -> None:
    good = f"Bearer {token(PINNED, private('ed25519'), 'EdDSA')}"
    assert (await site.ask(good, oxp_api_key=KEY)).status_code == 401
    assert (await site.ask(oxp_api_key=KEY, otc_api_key=KEY)).status_code == 401
    assert (await site.ask(oxp_api_key=f"{KEY}x")).status_code == 401
