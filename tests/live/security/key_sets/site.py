"""An authentication that fetches the keys of its issuer, seen from both ends."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import jwt
import pytest

from gateway.auth import Authentication, JwtIssuer, RemoteKeys
from gateway.errors import UnauthenticatedError, UndecidedError
from gateway.ports import Caller
from gateway.wire import Head
from tests.live.security.issuer import Issuer
from tests.support.keys import private

COOLDOWN_S = 30.0
NEVER_S = 3600.0
PATIENT_S = 15.0  # over loopback an answer takes milliseconds, but the machine may be busy
numbers = count()


@dataclass
class Clock:
    """What the cooldown is measured with."""

    now: float = field(default_factory=time.monotonic)

    def __call__(self) -> float:
        return self.now


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
        return Head(method="GET", path="/tools", headers={b"authorization": b"Bearer " + token.encode()})

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
    cooldown_s: float = COOLDOWN_S,
    fetch_s: float = PATIENT_S,
    discovery: bool = False,
) -> AsyncIterator[Site]:
    """Has an issuer's keys used, from the moment that `start` is called or the first token comes."""
    clock = Clock()
    keys = RemoteKeys(
        issuer.url,
        None if discovery else issuer.jwks_url,
        algorithms=frozenset({"RS256", "ES256"}),
        refresh_s=refresh_s,
        cooldown_s=cooldown_s,
        fetch_s=fetch_s,
        clock=clock,
    )
    auth = Authentication([JwtIssuer(keys=keys, name=issuer.url)], clock=time.time)
    try:
        yield Site(issuer, keys, auth, clock)
    finally:
        await keys.aclose()
