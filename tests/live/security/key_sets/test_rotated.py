"""The keys of issuers that publish them: fetched, rotated and withdrawn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.auth import Authentication, JwtIssuer, Reason
from gateway.errors import UnauthenticatedError, UndecidedError
from tests.live.security.issuer import Issuer
from tests.live.security.key_sets.site import COOLDOWN_S, Site, numbers, watched
from tests.support.keys import jwk
from tests.support.processes import until

pytestmark = pytest.mark.anyio


async def test_the_first_token_waits_for_the_keys_and_the_next_does_not(site: Site) -> None:
    head = site.head("one")
    with pytest.raises(UndecidedError):
        site.auth.identify(head)
    caller = await site.auth.identify_later(head)
    assert caller.principal == f"jwt:{site.issuer.url.replace('%', '%25')}:alice"
    assert site.auth.identify(head) is caller
    assert site.auth.identify(site.head("one", subject="bob")).principal.endswith(":bob")
    assert await site.issuer.asked() == 1


async def test_started_it_fetches_by_itself(site: Site) -> None:
    await site.auth.start()
    await until(lambda: not site.keys.is_empty, "the keys are here")
    assert site.auth.identify(site.head("one"))


async def test_a_token_that_names_no_key_is_verified_with_the_only_one(site: Site) -> None:
    assert await site.identify(site.head(None))
    await site.issuer.publish(jwk("rsa", 1))
    site.clock.now += COOLDOWN_S
    assert await site.identify(site.head(None, 1, "bob"))  # a rotation without names
    await site.issuer.publish(jwk("rsa", 1, kid="a"), jwk("rsa", 2, kid="b"))
    site.clock.now += COOLDOWN_S
    assert await site.refused(site.head(None, 2, "carol")) == Reason.KEY  # now there are two to choose from
    assert await site.refused(site.head(None, 1, "carol")) == Reason.KEY


async def test_a_new_key_is_fetched_once_for_all_who_wait_for_it(site: Site) -> None:
    """Rotation under load: nobody is refused, and the issuer is asked once."""
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


async def test_the_key_of_another_issuer_is_no_key_of_this_one(process: Issuer, site: Site) -> None:
    """Each issuer's tokens are verified with its own keys, by whatever name."""
    other = process.called(f"party{next(numbers)}")
    await other.publish(jwk("rsa", 1, kid="one"))
    async with watched(other) as elsewhere:
        both = Authentication(
            [JwtIssuer(keys=it.keys, name=it.issuer.url) for it in (site, elsewhere)], clock=time.time
        )
        mine, theirs = site.head("one", 0), elsewhere.head("one", 1)
        for head in (mine, theirs):
            with pytest.raises(UndecidedError):
                both.identify(head)
            assert await both.identify_later(head)
        for head in (site.head("one", 1, "forged"), elsewhere.head("one", 0, "forged")):
            with pytest.raises(UnauthenticatedError, match="not valid"):
                both.identify(head)


@pytest.mark.parametrize(
    "kid",
    [
        "../../../../etc/passwd",
        "/dev/null",
        "one' OR '1'='1",
        "one\0",
        "one ",
        "ONE",
        "",
        "k" * 5000,
        "http://127.0.0.1/",
    ],
    ids=lambda kid: kid[:10],
)
async def test_a_key_id_is_a_name_and_nothing_else(site: Site, kid: str) -> None:
    """Neither a path, a query nor an address: all it does is not to be found."""
    assert await site.identify(site.head("one"))
    assert await site.refused(site.head(kid)) == Reason.KEY
    assert await site.refused(site.head("one", 1)) == Reason.SIGNATURE


async def test_addresses_in_a_token_are_not_visited(site: Site) -> None:
    evil = site.issuer.called("evil")
    await evil.publish(jwk("rsa", 1, kid="evil"))
    pointing: dict[str, Any] = {"jku": evil.jwks_url, "x5u": f"{evil.url}/cert.pem", "jwk": jwk("rsa", 1)}
    assert await site.refused(site.head("evil", 1, **pointing)) == Reason.KEY
    assert (await evil.asked(), await evil.asked("/cert.pem")) == (0, 0)


async def test_a_withdrawn_key_is_refused_after_the_next_refresh(process: Issuer) -> None:
    issuer = process.called(f"party{next(numbers)}")
    await issuer.publish(jwk("rsa", 0, kid="one"))
    async with watched(issuer, refresh_s=0.05) as site:
        await site.auth.start()
        assert await site.identify(site.head("one"))
        await issuer.publish(jwk("rsa", 1, kid="two"))
        await until(lambda: site.keys.find("one", "RS256") is None, "the key is gone")
        assert await site.refused(site.head("one", 0, "bob")) == Reason.KEY
        assert await site.identify(site.head("two", 1, "bob"))
        await issuer.publish()
        await until(lambda: site.keys.is_empty, "all keys are withdrawn")
        assert await site.refused(site.head("two", 1, "carol")) == Reason.NO_KEYS
