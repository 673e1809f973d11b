"""The keys of issuers that cannot be reached, take their time, lead astray, or publish what are no keys."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from gateway.auth import IssuerStatus, Reason
from gateway.wire import Head
from tests.live.security.issuer import Issuer, issuer_process
from tests.live.security.key_sets.site import COOLDOWN_S, PATIENT_S, Site, numbers, watched
from tests.support.keys import jwk, private
from tests.support.processes import until

pytestmark = pytest.mark.anyio

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
    told = site.keys.status
    assert (told.up, told.age_s, told.keys) == (False, COOLDOWN_S, 1)
    assert told.last_error
    assert len(told.last_error) < 60  # of a few words, whatever the issuer wrote
    assert not set("{}<>/:") & set(told.last_error)
    assert site.auth.identify(site.head("one", 0, "bob"))
    assert await elsewhere.asked() == before
    await site.issuer.publish(jwk("rsa", 1, kid="two"))
    site.clock.now += COOLDOWN_S
    assert await site.identify(site.head("two", 1))  # and it recovers
    assert site.keys.status == IssuerStatus(up=True, age_s=0.0, keys=1, last_error=None)


async def test_the_keys_of_a_dead_issuer_stay_until_it_is_back_with_others() -> None:
    async with issuer_process() as issuer, watched(issuer, refresh_s=0.05, cooldown_s=0.05) as site:
        await issuer.publish(jwk("rsa", 0, kid="one"))
        await site.auth.start()
        assert await site.identify(site.head("one"))
        await issuer.kill()
        site.clock.now += COOLDOWN_S
        assert await site.refused(site.head("two", 1)) == Reason.KEY
        assert site.auth.identify(site.head("one", 0, "bob"))
        async with issuer_process(issuer.port) as successor:
            await successor.publish(jwk("rsa", 1, kid="two"))
            await until(lambda: site.keys.find("two", "RS256") is not None, "the new key is here")
            assert site.auth.identify(site.head("two", 1))


async def test_an_issuer_that_does_not_answer_is_not_waited_for_any_longer(process: Issuer) -> None:
    issuer = process.called(f"party{next(numbers)}")
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


async def test_a_caller_that_leaves_ends_the_fetch_for_nobody_else(site: Site) -> None:
    await site.issuer.publish(jwk("rsa", 0, kid="one"), delay_s=0.2)
    leaving = asyncio.create_task(site.identify(site.head("one", 0, "leaver")))
    staying = asyncio.create_task(site.identify(site.head("one", 0, "stayer")))
    await asyncio.sleep(0)  # both wait now
    leaving.cancel()
    assert (await staying).principal.endswith(":stayer")
    assert await site.issuer.asked() == 1


async def test_closing_ends_a_fetch_under_way_and_refuses_who_waits_for_it(site: Site) -> None:
    await site.issuer.publish(jwk("rsa", 0, kid="one"), delay_s=0.5)
    waiting = asyncio.create_task(site.refused(site.head("one")))
    await asyncio.sleep(0)
    await site.keys.aclose()
    assert await waiting == Reason.NO_KEYS


async def test_an_issuer_may_say_itself_where_its_keys_are(process: Issuer) -> None:
    """OpenID Connect Discovery 1.0, section 4."""
    issuer = process.called(f"party{next(numbers)}")
    await issuer.publish(jwk("p256", 0, kid="one"))
    async with watched(issuer, discovery=True) as site:
        claims = {"iss": issuer.url, "sub": "alice", "exp": time.time() + 600}
        token = jwt.encode(claims, private("p256"), "ES256", headers={"kid": "one"})
        head = Head(method="GET", path="/tools", headers={b"authorization": b"Bearer " + token.encode()})
        assert await site.identify(head)
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
    process: Issuer, document: Callable[[Issuer], dict[str, Any]]
) -> None:
    issuer = process.called(f"party{next(numbers)}")
    await issuer.publish(jwk("rsa", 0, kid="one"))
    await issuer.describe(**document(issuer))
    async with watched(issuer, discovery=True) as site:
        assert await site.refused(site.head("one")) == Reason.NO_KEYS
        assert await issuer.asked() == 0
