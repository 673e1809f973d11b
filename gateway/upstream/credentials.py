"""How the gateway authenticates to tool servers: a bearer token, an API key, or a short-lived token.

OXP 1.0, Security. The caller's own credential never goes on.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import jwt

from gateway.core.wire import Headers
from gateway.protocols import PROTOCOLS
from gateway.upstream.oauth import ClientCredentials
from gateway.upstream.settings import (
    PRINCIPAL,
    ApiKeyAuthSettings,
    BackendSettings,
    BearerAuthSettings,
    HeaderAuthSettings,
    JwtAuthSettings,
    OAuthAuthSettings,
    SigningSettings,
)

CACHED_SUBJECTS = 1024  # minting costs 10 us, and one caller usually calls more than once a minute

Credentials = Callable[[str], Headers]  # the headers that authenticate a request on behalf of a principal


class Minted:
    """A fresh HS256 token per subject, used for the first half of its life."""

    def __init__(self, settings: SigningSettings, clock: Callable[[], float] = time.time) -> None:
        self._secret = settings.secret.get_secret_value()
        self._claims = {"iss": settings.issuer} | ({"aud": settings.audience} if settings.audience else {})
        self._subject = settings.subject
        self._ttl_s = settings.ttl_s
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[Headers, float]] = OrderedDict()

    def __call__(self, principal: str) -> Headers:
        subject = principal if self._subject == PRINCIPAL else self._subject
        now = self._clock()
        entry = self._tokens.get(subject)
        if entry is not None and now < entry[1]:
            return entry[0]
        if len(self._tokens) >= CACHED_SUBJECTS:
            self._tokens.popitem(last=False)
        claims = self._claims | {"sub": subject, "iat": int(now), "exp": int(now + self._ttl_s)}
        headers = _bearer(jwt.encode(claims, self._secret, "HS256"))
        self._tokens[subject] = headers, now + self._ttl_s / 2
        return headers


def credentials_of(settings: BackendSettings, backend: str = "") -> Credentials:
    """What the settings of a backend say about its `auth`; ClientCredentials are to be asked for `authorized`."""
    headers: Headers = ()
    match settings.auth:
        case BearerAuthSettings() | HeaderAuthSettings() as fixed:
            headers = fixed_headers(fixed)
        case ApiKeyAuthSettings(api_key=key):
            headers = ((_api_key_header(settings.protocol), key.get_secret_value().encode()),)
        case JwtAuthSettings(jwt=signing):
            return Minted(signing)
        case OAuthAuthSettings(oauth=client):
            return ClientCredentials(backend, client, proxy=settings.proxy)
    return lambda principal: headers


def _api_key_header(protocol: str) -> bytes:
    name = PROTOCOLS[protocol].api_key_header
    if name is None:
        raise ValueError(f"{protocol} has no header for keys")  # its settings admit none
    return name


def fixed_headers(auth: BearerAuthSettings | HeaderAuthSettings | None) -> Headers:
    """The header with a credential that is the same in every request."""
    match auth:
        case BearerAuthSettings(bearer=token):
            return _bearer(token.get_secret_value())
        case HeaderAuthSettings(header=own):
            return ((own.name.lower().encode(), own.value.get_secret_value().encode()),)
        case None:
            return ()


def _bearer(token: str) -> Headers:
    return ((b"authorization", b"Bearer " + token.encode()),)
