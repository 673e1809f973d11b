"""The keys of issuers that publish them: fetched, rotated, withdrawn, missing, or no keys at all."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import jwt
import pytest

from gateway.assembly.authenticators import Issuers
from gateway.auth import Authentication, IssuerStatus, JwtIssuer, Reason, RemoteKeys
from gateway.core.errors import UnauthenticatedError, UndecidedError
from gateway.core.ports import Caller
from gateway.core.wire import Head
from gateway.settings.load import read
from tests.live.security.issuer import Issuer, issuer_process
from tests.streams import http_reply
from tests.support.authenticators import Clock, with_header
from tests.support.authority import Authority
from tests.support.keys import jwk, private
from tests.support.processes import until

pytestmark = pytest.mark.anyio

COOLDOWN_S = 30.0
NEVER_S = 3600.0
PATIENT_S = 15.0  # over loopback an answer takes milliseconds, but the machine may be busy
numbers = count()


@dataclass
class Site:
    """An issuer, its keys as the gateway has them, and the authentication that uses them."""

    issuer: Issuer
    keys: RemoteKeys
    auth: Authentication
    clock: Clock

    def head(self, kid: str | None, number: int = 0, subject: str = "alice", **header: Any) -> Head:
        """A request with a token signed with the RSA key of that number, which names the key `kid`."""
        claims = {"iss": self.issuer.url, "sub": subject, "exp": time.time() + 600}
        named = header if kid is None else header | {"kid": kid}
        token = jwt.encode(claims, private("rsa", number), "RS256", headers=named)
        return with_header(f"Bearer {token}")

    async def identify(self, head: Head) -> Caller:
        """As a request does it."""
        try:
            return self.auth.identify(head)
        except UndecidedError:
            return await self.auth.identify_later(head)

    async def refused(self, head: Head) -> str:
        with pytest.raises(UnauthenticatedError) as caught:
            await self.identify(head)
        assert not isinstance(caught.value, UndecidedError)
        return caught.value.reason


@asynccontextmanager
async def watched(
    issuer: Issuer,
    *,
    refresh_s: float = NEVER_S,
    fetch_s: float = PATIENT_S,
    discovery: bool = False,
) -> AsyncIterator[Site]:
    """Has an issuer's keys used, from the moment that `start` is called or the first token comes."""
    clock = Clock()
    keys = RemoteKeys(
        issuer.url,
        None if discovery else issuer.jwks_url,
        algorithms=frozenset({"RS256"}),
        refresh_s=refresh_s,
        cooldown_s=COOLDOWN_S,
        fetch_s=fetch_s,
        clock=clock,
    )
    auth = Authentication([JwtIssuer(keys=keys, name=issuer.url)], clock=time.time)
    try:
        yield Site(issuer, keys, auth, clock)
    finally:
        await keys.aclose()


@pytest.fixture(scope="module")
async def process(anyio_backend: object) -> AsyncIterator[Issuer]:
    async with issuer_process() as issuer:
        yield issuer


@pytest.fixture
async def issuer(process: Issuer) -> Issuer:
    """An issuer of the test's own with one key, called `one`."""
    issuer = process.called(f"party{next(numbers)}")
    await issuer.publish(jwk("rsa", 0, kid="one"))
    return issuer


@pytest.fixture
async def site(issuer: Issuer) -> AsyncIterator[Site]:
    """Nothing has been fetched yet."""
    async with watched(issuer) as site:
        yield site


async def test_the_first_token_waits_for_the_keys_and_the_next_does_not(site: Site) -> None:
    head = site.head("one")
    with pytest.raises(UndecidedError):
        site.auth.identify(head)
    caller = await site.auth.identify_later(head)
    assert caller.principal == f"jwt:{site.issuer.url.replace('%', '%25')}:alice"
    assert site.auth.identify(head) is caller
    assert site.auth.identify(site.head("one", subject="bob")).principal.endswith(":bob")
    assert await site.issuer.asked() == 1


async def test_a_new_key_is_fetched_once_for_all_who_wait_for_it(site: Site) -> None:
    """Rotation under load: no caller is refused, and the issuer is asked once."""
    assert await site.identify(site.head("one"))
    site.clock.now += COOLDOWN_S
    before = await site.issuer.asked()
    await site.issuer.publish(jwk("rsa", 0, kid="one"), jwk("rsa", 1, kid="two"), delay_s=0.1)
    heads = [site.head("two", 1, f"caller{number}") for number in range(50)]
    callers = await asyncio.gather(*(site.identify(head) for head in heads))
    assert len({caller.principal for caller in callers}) == 50
    assert await site.issuer.asked() == before + 1
    assert site.auth.identify(site.head("one", 0, "late"))  # the old key is good as long as it is published


async def test_unknown_keys_have_the_issuer_asked_once_in_a_while(site: Site) -> None:
    """Whatever tokens make up, the issuer is asked once in 30 s for all of them."""
    assert await site.identify(site.head("one"))
    assert await site.issuer.asked() == 1
    site.clock.now += COOLDOWN_S
    for number in range(50):
        assert await site.refused(site.head(f"made up {number}")) == Reason.KEY
    assert await site.issuer.asked() == 2
    site.clock.now += COOLDOWN_S - 1
    assert await site.refused(site.head("once more")) == Reason.KEY
    assert await site.issuer.asked() == 2
    site.clock.now += 1
    assert await site.refused(site.head("once more")) == Reason.KEY
    assert await site.issuer.asked() == 3


async def test_addresses_in_a_token_are_not_visited(site: Site) -> None:
    evil = site.issuer.called("evil")
    await evil.publish(jwk("rsa", 1, kid="evil"))
    pointing: dict[str, Any] = {"jku": evil.jwks_url, "x5u": f"{evil.url}/cert.pem", "jwk": jwk("rsa", 1)}
    assert await site.refused(site.head("evil", 1, **pointing)) == Reason.KEY
    assert (await evil.asked(), await evil.asked("/cert.pem")) == (0, 0)


async def test_a_withdrawn_key_is_refused_after_the_next_refresh(issuer: Issuer) -> None:
    async with watched(issuer, refresh_s=0.05) as site:
        await site.auth.start()
        assert await site.identify(site.head("one"))
        await issuer.publish(jwk("rsa", 1, kid="two"))
        await until(lambda: not site.keys.find("one", "RS256"), "the key is gone")
        assert await site.refused(site.head("one", 0, "bob")) == Reason.KEY
        assert await site.identify(site.head("two", 1, "bob"))
        await issuer.publish()
        await until(lambda: site.keys.is_empty, "all keys are withdrawn")
        assert await site.refused(site.head("two", 1, "carol")) == Reason.NO_KEYS


ONE = json.dumps({"keys": [jwk("rsa", 1, kid="two")]})
BROKEN: dict[str, dict[str, Any]] = {
    "an error": {"status": 500, "body": ONE},
    "not found": {"status": 404, "body": ONE},
    "no content": {"status": 204},
    "a redirect": {"status": 302, "headers": {"location": "/elsewhere/jwks.json"}, "body": ONE},
    "no JSON": {"body": "<html>"},
    "no object": {"body": "[]"},
    "no keys": {"body": "{}"},
    "half of it": {"body": ONE[:-9]},
    "more than a MiB": {"body": ONE + " " * 1000, "times": 2000},
    "too many keys": {"body": json.dumps({"keys": [jwk("rsa", 1, kid="two")] * 101})},
    "nested deeply": {"body": "[" * 100_000},
    "compressed": {"body": ONE, "headers": {"content-encoding": "gzip"}},
    "fewer bytes than announced": {"body": ONE, "headers": {"content-length": "9999", "connection": "close"}},
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_the_last_good_keys_stay_while_the_issuer_answers_with_something_else(
    site: Site, answer: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert site.keys.status == IssuerStatus(up=False, age_s=None, keys=0, last_error=None)
    assert await site.identify(site.head("one"))
    assert site.keys.status == IssuerStatus(up=True, age_s=0.0, keys=1, last_error=None)
    elsewhere = site.issuer.called("elsewhere")
    await elsewhere.publish(jwk("rsa", 1, kid="two"))
    before = await elsewhere.asked()
    await site.issuer.answer("/jwks.json", **answer)
    site.clock.now += COOLDOWN_S
    with caplog.at_level(logging.WARNING, "gateway.auth"):
        assert await site.refused(site.head("two", 1)) == Reason.KEY
    assert [record.message for record in caplog.records] == ["the keys of an issuer could not be fetched"]
    status = site.keys.status
    assert (status.up, status.age_s, status.keys) == (False, COOLDOWN_S, 1)
    assert status.last_error
    assert len(status.last_error) < 60  # of a few words, whatever the issuer wrote
    assert not set("{}<>/:") & set(status.last_error)
    assert site.auth.identify(site.head("one", 0, "bob"))
    assert await elsewhere.asked() == before
    await site.issuer.publish(jwk("rsa", 1, kid="two"))
    site.clock.now += COOLDOWN_S
    assert await site.identify(site.head("two", 1))  # and it recovers
    assert site.keys.status == IssuerStatus(up=True, age_s=0.0, keys=1, last_error=None)


async def test_an_issuer_that_does_not_answer_is_not_waited_for_any_longer(issuer: Issuer) -> None:
    await issuer.publish(jwk("rsa", 0, kid="one"), delay_s=PATIENT_S)
    async with watched(issuer, fetch_s=0.05) as site, asyncio.timeout(PATIENT_S / 2):
        assert await site.refused(site.head("one")) == Reason.NO_KEYS


async def test_without_any_keys_yet_everybody_is_refused(site: Site) -> None:
    await site.issuer.answer("/jwks.json", status=503)
    assert await site.refused(site.head("one")) == Reason.NO_KEYS
    await site.issuer.publish(jwk("rsa", 0, kid="one"))
    assert await site.refused(site.head("one")) == Reason.NO_KEYS  # it was asked a moment ago
    site.clock.now += COOLDOWN_S
    assert await site.identify(site.head("one"))


async def test_a_caller_that_leaves_does_not_end_the_fetch_for_others(site: Site) -> None:
    await site.issuer.publish(jwk("rsa", 0, kid="one"), delay_s=0.2)
    leaving = asyncio.create_task(site.identify(site.head("one", 0, "leaver")))
    staying = asyncio.create_task(site.identify(site.head("one", 0, "stayer")))
    await asyncio.sleep(0)  # both wait now
    leaving.cancel()
    assert (await staying).principal.endswith(":stayer")
    assert await site.issuer.asked() == 1


async def test_closing_ends_a_fetch_under_way_and_refuses_callers_waiting_for_it(site: Site) -> None:
    await site.issuer.publish(jwk("rsa", 0, kid="one"), delay_s=0.5)
    waiting = asyncio.create_task(site.refused(site.head("one")))
    await asyncio.sleep(0)
    await site.keys.aclose()
    assert await waiting == Reason.NO_KEYS


async def test_an_issuer_may_say_itself_where_its_keys_are(issuer: Issuer) -> None:
    """OpenID Connect Discovery 1.0, section 4."""
    async with watched(issuer, discovery=True) as site:
        assert await site.identify(site.head("one"))
        assert await issuer.asked("/.well-known/openid-configuration") == 1


DOCUMENTS: dict[str, Callable[[Issuer], dict[str, Any]]] = {
    "of another issuer": lambda issuer: {"issuer": issuer.url + "/", "jwks_uri": issuer.jwks_url},
    "without issuer": lambda issuer: {"jwks_uri": issuer.jwks_url},
    "without keys": lambda issuer: {"issuer": issuer.url},
    "with keys that are no URL": lambda issuer: {"issuer": issuer.url, "jwks_uri": 7},
    "with keys in a file": lambda issuer: {"issuer": issuer.url, "jwks_uri": "file:///etc/passwd"},
    "with keys on an open road": lambda issuer: {"issuer": issuer.url, "jwks_uri": "http://192.0.2.1/jwks.json"},
    "with a name for a loopback address": lambda issuer: {"issuer": issuer.url, "jwks_uri": "http://127.0.0.1.x/"},
    "with a password": lambda issuer: {"issuer": issuer.url, "jwks_uri": issuer.jwks_url.replace("//", "//a:b@")},
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_a_discovery_document_that_leads_astray_is_not_followed(
    issuer: Issuer, document: Callable[[Issuer], dict[str, Any]]
) -> None:
    await issuer.describe(**document(issuer))
    async with watched(issuer, discovery=True) as site:
        assert await site.refused(site.head("one")) == Reason.NO_KEYS
        assert await issuer.asked() == 0


async def test_an_issuer_may_have_an_authority_of_its_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("127.0.0.1"))
    answer = http_reply(200, {"keys": [jwk("rsa", 0, kid="one")]})

    async def publish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(publish, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    entry = {"issuer": url, "jwks_url": f"{url}/keys", "algorithms": ["RS256"], "audience": ["tools"]}
    claims = {"iss": url, "aud": "tools", "sub": "alice", "exp": time.time() + 600}
    token = jwt.encode(claims, private("rsa", 0), "RS256", headers={"kid": "one"})
    head = with_header(f"Bearer {token}")
    try:
        for files, is_known in (({}, False), ({"tls": {"ca": authority.path}}, True)):
            text = json.dumps({"auth": {"jwt": [entry | files]}})
            issuers, settings = Issuers(), read(text, env={}).auth
            authenticator = issuers.authenticator(settings)
            await authenticator.start()
            if is_known:
                assert (await authenticator.identify_later(head)).principal.endswith(":alice")
            else:
                with pytest.raises(UnauthenticatedError):
                    await authenticator.identify_later(head)
            await issuers.keep(None)
    finally:
        server.close()
        await server.wait_closed()
