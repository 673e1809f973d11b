"""How the gateway authenticates to tool servers: a bearer token, an API key, or a short-lived token of its own.

OXP 1.0, Security. The caller's own credential never goes on.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import jwt

from gateway.settings import ApiKeyAuthSettings, BackendSettings, BearerAuthSettings, JwtAuthSettings
from gateway.wire import Headers

PRINCIPAL = "principal"  # as a subject: that of the caller
CACHED_SUBJECTS = 1024  # minting costs 10 us, and one caller usually calls more than once a minute
API_KEY_HEADERS = {"otc": b"otc-api-key", "oxp": b"oxp-api-key"}


class Credentials(Protocol):
    """Makes the headers that authenticate a request on behalf of a principal."""

    def headers(self, principal: str) -> Headers: ...


class Fixed:
    """The same headers for every request; none for a tool server that asks for nothing."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self._headers = headers

    @classmethod
    def bearer(cls, token: str) -> Fixed:
        return cls((b"authorization", b"Bearer " + token.encode()))

    @classmethod
    def api_key(cls, protocol: str, key: str) -> Fixed:
        """The header of the protocol's era: OXP was called OTC once, and so was its header."""
        return cls((API_KEY_HEADERS[protocol], key.encode()))

    def headers(self, principal: str) -> Headers:
        return self._headers


class Minted:
    """A fresh HS256 token per subject, used for the first half of its life of `ttl_s` seconds."""

    def __init__(
        self,
        secret: str,
        *,
        issuer: str | None,
        audience: str | None,
        subject: str,
        ttl_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._secret = secret
        self._claims = {"iss": issuer, "aud": audience}
        self._subject = subject
        self._ttl_s = ttl_s
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[Headers, float]] = OrderedDict()

    def headers(self, principal: str) -> Headers:
        subject = principal if self._subject == PRINCIPAL else self._subject
        now = self._clock()
        known = self._tokens.get(subject)
        if known is not None and now < known[1]:
            return known[0]
        if len(self._tokens) >= CACHED_SUBJECTS:
            self._tokens.popitem(last=False)
        headers = self._mint(subject, now)
        self._tokens[subject] = headers, now + self._ttl_s / 2
        return headers

    def _mint(self, subject: str, now: float) -> Headers:
        claims = {key: value for key, value in self._claims.items() if value is not None}
        token = jwt.encode(
            claims | {"sub": subject, "iat": int(now), "exp": int(now + self._ttl_s)}, self._secret, "HS256"
        )
        return ((b"authorization", b"Bearer " + token.encode()),)


def credentials_of(settings: BackendSettings) -> Credentials:
    """What the settings of a backend say about its `auth`."""
    match settings.auth:
        case None:
            return Fixed()
        case BearerAuthSettings(bearer=token):
            return Fixed.bearer(token.get_secret_value())
        case ApiKeyAuthSettings(api_key=key):
            return Fixed.api_key(settings.protocol, key.get_secret_value())
        case JwtAuthSettings(jwt=token):
            return Minted(
                token.secret.get_secret_value(),
                issuer=token.issuer,
                audience=token.audience,
                subject=token.subject,
                ttl_s=token.ttl_s,
                clock=time.time,
            )
