"""From the configuration to who is let in: every key of `auth` does what it says."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest

from gateway.assembly.authenticators import Issuers
from gateway.auth import Authentication, NoAuthentication, Reason
from gateway.core.errors import UndecidedError
from gateway.core.ports import Caller
from gateway.core.wire import Head
from gateway.settings import AuthSettings
from gateway.settings.load import read
from tests.support.authenticators import SECRET, refused, with_header, without_header
from tests.support.keys import jwk, private, public_pem
from tests.support.processes import until

KEY = "an-api-key-that-cannot-be-guessed"


def assembled(**auth: Any) -> Authentication:
    """What a configuration with that `auth` is made into."""
    made = Issuers().authenticator(read(json.dumps({"auth": auth})).auth)
    assert isinstance(made, Authentication)
    return made


def token(key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> Any:
    body = {"sub": "alice", "exp": int(time.time()) + 600} | claims
    return with_header(f"Bearer {jwt.encode(body, key, algorithm)}")


def test_without_authentication_callers_are_anonymous() -> None:
    assert isinstance(Issuers().authenticator(read("auth: none").auth), NoAuthentication)


def test_scopes_and_users_come_from_the_claims_that_are_named() -> None:
    auth = assembled(jwt=[{"secret": SECRET, "scope_claim": "realm_access.roles", "user_id_claim": "who.mail"}])
    claims: dict[str, Any] = {"realm_access": {"roles": ["calc"]}, "who": {"mail": "a@x.example"}}
    caller = Caller(principal="jwt::alice", account="jwt", scopes=frozenset({"calc"}), user_id="a@x.example")
    assert auth.identify(token(**claims)) == caller
    refused(auth, token(), Reason.USER)


def test_leeway_lifetime_and_required_claims_are_those_of_the_file() -> None:
    auth = assembled(jwt=[{"secret": SECRET, "leeway": "1m", "max_lifetime": "1h", "require": ["exp", "sub", "iat"]}])
    now = int(time.time())
    assert auth.identify(token(iat=now, exp=now - 50))
    refused(auth, token(iat=now, exp=now - 70), Reason.EXPIRED)
    refused(auth, token(iat=now, exp=now + 7200), Reason.LIFETIME)
    refused(auth, token(), Reason.CLAIM)


@pytest.mark.parametrize("audience", [None, "elsewhere"])
def test_a_public_key_is_for_its_algorithms_and_audience(audience: str | None) -> None:
    entry = {"issuer": "a", "public_key": public_pem("rsa"), "algorithms": ["RS256", "PS512"], "audience": ["us"]}
    auth = assembled(jwt=[entry])
    for algorithm in ("RS256", "PS512"):
        assert auth.identify(token(private("rsa"), algorithm, iss="a", aud="us")).principal == "jwt:a:alice"
    refused(auth, token(private("rsa"), "RS512", iss="a", aud="us"), Reason.ALGORITHM)
    refused(auth, token(private("rsa"), "RS256", iss="b", aud="us"), Reason.ISSUER)
    claims = {} if audience is None else {"aud": audience}
    reason = Reason.CLAIM if audience is None else Reason.AUDIENCE
    refused(auth, token(private("rsa"), "RS256", iss="a", **claims), reason)


def test_a_token_with_many_claims_may_be_as_long_as_a_head() -> None:
    """Two hundred groups of a large provider make 11 KB."""
    groups = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(200)]
    auth = assembled(jwt=[{"secret": SECRET, "scope_claim": ["scope", "groups"]}])
    head = token(groups=groups, scope="calc")
    assert len(head.headers[b"authorization"]) > 10_000
    assert auth.identify(head).scopes == {"calc", *groups}


def test_a_token_that_is_too_long_is_refused_for_that() -> None:
    settings = read(json.dumps({"auth": {"jwt": [{"secret": SECRET}]}})).auth
    auth = Issuers().authenticator(settings, 2048)
    assert isinstance(auth, Authentication)
    assert auth.identify(token(more="x" * 1000))
    refused(auth, token(more="x" * 2000), Reason.TOO_LONG)
    refused(auth, with_header("Bearer " + "x" * 2049), Reason.TOO_LONG)
    refused(auth, with_header("Basic " + "x" * 2049), Reason.HEADER)


@pytest.mark.parametrize(
    ("listed", "named", "is_good"),
    [
        ("EdDSA", "EdDSA", True),
        ("EdDSA", "Ed25519", True),
        ("Ed25519", "Ed25519", True),
        ("Ed25519", "EdDSA", False),
        ("EdDSA", "Ed448", False),  # not the curve of the key
    ],
)
def test_a_curve_is_an_algorithm(listed: str, named: str, is_good: bool) -> None:
    entry = {"issuer": "a", "public_key": public_pem("ed25519"), "algorithms": [listed], "audience": ["us"]}
    auth = assembled(jwt=[entry])
    claims = {"sub": "alice", "iss": "a", "aud": "us", "exp": int(time.time()) + 600}
    parts = ({"alg": named, "typ": "JWT"}, claims)
    signed = b".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    signature = urlsafe_b64encode(private("ed25519").sign(signed)).rstrip(b"=")
    head = with_header(b"Bearer " + signed + b"." + signature)
    if is_good:
        assert auth.identify(head).principal == "jwt:a:alice"
    else:
        refused(auth, head, Reason.ALGORITHM)


def test_whom_a_token_is_for_may_stand_in_another_claim() -> None:
    entry = {"issuer": "a", "public_key": public_pem("rsa"), "algorithms": ["RS256"]}
    auth = assembled(jwt=[entry | {"audience": ["us"], "audience_claim": "client_id"}])
    assert auth.identify(token(private("rsa"), "RS256", iss="a", client_id="us")).principal == "jwt:a:alice"
    refused(auth, token(private("rsa"), "RS256", iss="a", client_id="them"), Reason.AUDIENCE)
    refused(auth, token(private("rsa"), "RS256", iss="a"), Reason.CLAIM)


PROXY = "Cf-Access-Jwt-Assertion"


def from_proxy(head: Head, **more: str) -> Head:
    """The same token in the header of a proxy's."""
    bare = head.headers[b"authorization"].removeprefix(b"Bearer ")
    others = {name.replace("_", "-").encode(): value.encode() for name, value in more.items()}
    return Head(method="POST", path="/tools/call", headers={PROXY.lower().encode(): bare} | others)


def test_a_token_in_a_header_of_a_proxys_is_accepted_there_alone() -> None:
    auth = assembled(jwt=[{"secret": SECRET, "header": PROXY}])
    assert auth.identify(from_proxy(token())).principal == "jwt::alice"
    assert auth.identify(from_proxy(token())).principal == "jwt::alice"  # from the cache
    scheme = {PROXY.lower().encode(): token().headers[b"authorization"]}
    assert auth.identify(Head(method="POST", path="/tools/call", headers=scheme)).principal == "jwt::alice"
    refused(auth, token(), Reason.ISSUER)
    assert PROXY.lower() in refused(auth, without_header(), Reason.MISSING).message


def test_with_a_header_of_a_proxys_nobody_reads_authorization() -> None:
    """It may be what the proxy itself was shown; where callers use it too, two credentials are one too many."""
    auth = assembled(jwt=[{"secret": SECRET, "header": PROXY}])
    assert auth.identify(from_proxy(token(), authorization="Bearer for-the-proxy")).principal == "jwt::alice"
    own = {"issuer": "a", "secret": SECRET}
    auth = assembled(jwt=[{"secret": SECRET, "header": PROXY}, own])
    assert auth.identify(token(iss="a")).principal == "jwt:a:alice"
    refused(auth, from_proxy(token(), authorization="Bearer x"), Reason.SEVERAL)
    refused(auth, from_proxy(token(), oxp_api_key="x"), Reason.SEVERAL)


def test_a_token_is_good_in_the_header_of_its_own_issuer_only() -> None:
    """Also when it was verified in that one a moment ago."""
    auth = assembled(jwt=[{"issuer": "a", "secret": SECRET, "header": PROXY}, {"issuer": "b", "secret": SECRET}])
    assert auth.identify(from_proxy(token(iss="a"))).principal == "jwt:a:alice"
    assert auth.identify(token(iss="b")).principal == "jwt:b:alice"
    refused(auth, token(iss="a"), Reason.ISSUER)
    refused(auth, from_proxy(token(iss="b")), Reason.ISSUER)


def test_a_header_of_a_proxys_that_comes_twice_is_refused() -> None:
    auth, name = assembled(jwt=[{"secret": SECRET, "header": PROXY}]), PROXY.lower().encode()
    good = from_proxy(token()).headers[name]
    head = Head(method="POST", path="/tools/call", headers={name: good}, lines=((name, b"x"), (name, good)))
    refused(auth, head, Reason.SEVERAL)


@asynccontextmanager
async def publishing() -> AsyncIterator[tuple[str, list[bytes], asyncio.Server]]:
    """An issuer with the first RSA key as `one`: where that is, who asked so far, and what to close."""
    body = json.dumps({"keys": [jwk("rsa", kid="one")]}).encode()
    asked: list[bytes] = []

    async def publish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    server = await asyncio.start_server(publish, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks.json", asked, server
    server.close()


@asynccontextmanager
async def describing(document: dict[str, Any]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An issuer that says so about itself, beside its name: its URL, and who asked so far."""
    asked: list[bytes] = []

    async def describe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = json.dumps({"issuer": url} | document).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    server = await asyncio.start_server(describe, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield url, asked
    server.close()


def settings_of(*entries: dict[str, Any]) -> AuthSettings | None:
    return read(json.dumps({"auth": {"jwt": entries}})).auth


def signed_for(audience: str) -> Head:
    claims = {"sub": "alice", "iss": "a", "aud": audience, "exp": int(time.time()) + 600}
    return with_header(f"Bearer {jwt.encode(claims, private('rsa'), 'RS256', headers={'kid': 'one'})}")


ENTRY: dict[str, Any] = {"issuer": "a", "algorithms": ["RS256"], "audience": ["us"]}
OTHERWISE: list[dict[str, Any]] = [
    {},
    {"audience": ["them"]},
    {"leeway": "1m", "max_lifetime": "1h", "require": ["exp", "sub", "aud"]},
    {"scope_claim": "roles", "user_id_claim": "sub"},
    {"jwks_refresh": "1h", "jwks_cooldown": "1m"},
]


@pytest.mark.anyio
@pytest.mark.parametrize("change", OTHERWISE, ids=str)
async def test_an_issuer_keeps_its_keys_when_it_is_away_while_other_settings_change(change: dict[str, Any]) -> None:
    async with publishing() as (url, asked, server):
        entry = ENTRY | {"jwks_url": url}
        before, after = settings_of(entry), settings_of(entry | change, {"secret": SECRET})
        head = signed_for("us")
        issuers = Issuers()
        first = issuers.authenticator(before)
        await first.start()
        assert (await first.identify_later(head)).principal == "jwt:a:alice"
        server.close()
        second = issuers.authenticator(after)
        await second.start()
        await issuers.keep(after)
        (audience,) = change.get("audience", ["us"])
        assert second.identify(signed_for(audience)).principal == "jwt:a:alice"
        if audience != "us":
            assert isinstance(second, Authentication)
            refused(second, head, Reason.AUDIENCE)
        assert (len(asked), issuers.status()["a"].keys) == (1, 1)
        await issuers.keep(None)
        assert issuers.authenticator(before) is not first
        with pytest.raises(UndecidedError):
            issuers.authenticator(before).identify(head)
        await issuers.keep(None)


@pytest.mark.anyio
async def test_keys_that_stay_are_fetched_as_often_as_the_settings_of_now_say() -> None:
    async with publishing() as (url, asked, _):
        entry = ENTRY | {"jwks_url": url}
        before, after = settings_of(entry | {"jwks_refresh": "7d"}), settings_of(entry | {"jwks_refresh": "1s"})
        issuers = Issuers()
        await issuers.authenticator(before).start()
        await until(lambda: issuers.status()["a"].keys > 0, "the keys are fetched")
        issuers.authenticator(after)
        await issuers.keep(after)
        await until(lambda: len(asked) >= 3, "they are fetched again and again")
        await issuers.keep(None)


@pytest.mark.anyio
@pytest.mark.parametrize("change", [{"jwks_url": "http://127.0.0.1:1/"}, {"algorithms": ["PS256"]}], ids=str)
async def test_an_issuer_whose_keys_are_others_begins_without_any(change: dict[str, Any]) -> None:
    async with publishing() as (url, _, _):
        entry = ENTRY | {"jwks_url": url}
        issuers = Issuers()
        assert await issuers.authenticator(settings_of(entry)).identify_later(signed_for("us"))
        after = settings_of(entry | change)
        issuers.authenticator(after)
        await issuers.keep(after)
        assert [one.keys for one in issuers.status().values()] == [0]
        await issuers.keep(None)


@pytest.mark.anyio
async def test_a_credential_for_the_keys_is_sent_where_they_are() -> None:
    """As Kubernetes wants it of whoever verifies the tokens of its service accounts."""
    async with publishing() as (url, asked, _):
        issuers = Issuers()
        entry = ENTRY | {"jwks_url": url, "jwks_auth": {"bearer": "of-a-service-account"}}
        assert await issuers.authenticator(settings_of(entry)).identify_later(signed_for("us"))
        assert b"\r\nauthorization: bearer of-a-service-account\r\n" in asked[0].lower()
        await issuers.keep(None)


@pytest.mark.anyio
async def test_a_credential_for_the_keys_is_not_sent_to_another_origin() -> None:
    """The document of discovery is the issuer's word; the keys may be anywhere."""
    async with publishing() as (keys, asked_for_keys, _):
        described: dict[str, Any] = {"jwks_uri": keys}
        async with describing(described) as (issuer, asked):
            entry = ENTRY | {"issuer": issuer, "discovery": True, "jwks_auth": {"bearer": "of-a-service-account"}}
            issuers = Issuers()
            await issuers.authenticator(settings_of(entry)).start()
            await until(lambda: issuers.status()[issuer].up, "the keys are fetched")
            assert b"of-a-service-account" in asked[0]
            assert b"of-a-service-account" not in b"".join(asked_for_keys)
            await issuers.keep(None)


@pytest.mark.anyio
@pytest.mark.parametrize("named", ["https://elsewhere.example", "a\nb", None])
async def test_the_status_of_an_issuer_with_another_name_says_both(named: str | None) -> None:
    async with describing({"issuer": named}) as (issuer, _):
        issuers = Issuers()
        await issuers.authenticator(settings_of(ENTRY | {"issuer": issuer, "discovery": True})).start()
        await until(lambda: issuers.status()[issuer].last_error is not None, "the issuer was asked")
        said = issuers.status()[issuer].last_error or ""
        shown = "without an issuer" if named is None else f"of {named}" if named.isprintable() else r"'a\nb'..."
        assert said.startswith("its discovery document is that ")
        assert shown in said
        assert said.endswith(f", not of {issuer}")
        await issuers.keep(None)
