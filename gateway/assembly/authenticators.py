"""From the settings of `auth` to who decides who calls."""

from __future__ import annotations

import re
import time

import httpx

from gateway.auth import (
    ApiKey,
    Authentication,
    FixedKeys,
    IssuerClient,
    IssuerStatus,
    JwtIssuer,
    Keys,
    NoAuthentication,
    RemoteKeys,
)
from gateway.auth.signatures import read_pem
from gateway.ports import Authenticator
from gateway.settings import AuthSettings, JwtSettings
from gateway.transport import HttpTransport, Limits

LOGIN = re.compile("//[^/@]*@")  # in a URL, for which there is no reason in the name of an issuer
ISSUER_LIMITS = Limits(connections=2)  # towards one origin; there is one fetch at a time


class Issuers:
    """Makes authenticators, one after the other; an issuer whose settings stay keeps the keys that are known of it."""

    def __init__(self) -> None:
        self._keys: dict[JwtSettings, Keys] = {}

    def authenticator(self, auth: AuthSettings | None) -> Authenticator:
        """Who decides who calls. It must be started; `keep` closes what it needs no more."""
        if auth is None:
            return NoAuthentication()
        entries = auth.jwt or ()
        self._keys |= {entry: _keys(entry) for entry in entries if entry not in self._keys}
        keys = (ApiKey(id=key.id, digest=key.hash, scopes=frozenset(key.scopes)) for key in auth.api_keys or ())
        return Authentication([_issuer(entry, self._keys[entry]) for entry in entries], keys, clock=time.time)

    def status(self) -> dict[str, IssuerStatus]:
        """How those stand that publish their keys, by name."""
        published = [(entry.issuer, keys) for entry, keys in self._keys.items() if isinstance(keys, RemoteKeys)]
        return {LOGIN.sub("//", str(name)): keys.status for name, keys in published}

    async def keep(self, auth: AuthSettings | None) -> None:
        """Stops fetching the keys of all issuers but those of these settings."""
        kept = () if auth is None else auth.jwt or ()
        for entry in [entry for entry in self._keys if entry not in kept]:
            await self._keys.pop(entry).aclose()


def _issuer(entry: JwtSettings, keys: Keys) -> JwtIssuer:
    # Issuers with public keys sign for many services; what does not say whom it is for is not for us.
    needed = ("aud",) if entry.secret is None else ()
    return JwtIssuer(
        keys=keys,
        name=entry.issuer,
        audience=frozenset(entry.audience),
        require=(*entry.require, *needed),
        scope_claim=tuple(entry.scope_claim.split(".")),
        user_id_claim=None if entry.user_id_claim is None else tuple(entry.user_id_claim.split(".")),
        leeway_s=entry.leeway_s,
        max_lifetime_s=entry.max_lifetime_s,
    )


def _keys(entry: JwtSettings) -> Keys:
    if entry.secret is not None:
        return FixedKeys.secret(entry.secret.reveal())
    if entry.public_key is not None:
        return FixedKeys.public_key(read_pem(entry.public_key), entry.algorithms)
    assert entry.issuer is not None  # the settings insist on it
    return RemoteKeys(
        entry.issuer,
        IssuerClient(httpx.AsyncClient(transport=HttpTransport(ISSUER_LIMITS), trust_env=False)),
        entry.jwks_url,
        algorithms=frozenset(entry.algorithms),
        refresh_s=entry.jwks_refresh_s,
        cooldown_s=entry.jwks_cooldown_s,
    )
