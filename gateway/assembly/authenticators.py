"""From the settings of `auth` to the authenticator."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from gateway.assembly.files import fingerprints, named_files
from gateway.auth import (
    ApiKey,
    Authentication,
    IssuerStatus,
    JwtIssuer,
    Keys,
    NoAuthentication,
    RemoteKeys,
)
from gateway.auth.authentication import MAX_TOKEN
from gateway.auth.keys import read_pem
from gateway.auth.tokens import AUTHORIZATION, Path, account_of_issuer, without_login
from gateway.core.ports import ANONYMOUS, Authenticator
from gateway.settings import AuthSettings, ConsoleLoginSettings, JwtSettings
from gateway.upstream.credentials import fixed_headers
from gateway.upstream.proxies import proxy_for
from gateway.upstream.replica_url import client_context

Origin = tuple[object, ...]


class Issuers:
    """Makes the authenticator of one configuration after the other.

    An issuer whose keys come from the same place keeps those that were fetched.
    """

    def __init__(self) -> None:
        self._keys: dict[Origin, Keys] = {}

    def authenticator(self, auth: AuthSettings | None, max_token: int = MAX_TOKEN) -> Authenticator:
        """The authenticator of these settings, to be started; `keep` ends what only earlier ones needed.

        `max_token` is the size of the longest token, in bytes.
        """
        if auth is None:
            return NoAuthentication()
        entries = auth.jwt or ()
        origins = [_origin(entry) for entry in entries]
        for entry, origin in zip(entries, origins, strict=True):
            if origin not in self._keys:
                self._keys[origin] = _keys(entry)
        keys = (ApiKey(id=key.id, digest=key.hash, scopes=frozenset(key.scopes)) for key in auth.api_keys or ())
        issuers = [_issuer(entry, self._keys[origin]) for entry, origin in zip(entries, origins, strict=True)]
        return Authentication(issuers, keys, clock=time.time, max_token=max_token)

    def of_login(self, auth: AuthSettings, login: ConsoleLoginSettings) -> tuple[Authentication, Authentication]:
        """What verifies the access tokens of a login, and its ID tokens. Both have the keys of the issuer's callers."""
        entry = auth.issuer(login.issuer)
        assert entry is not None  # the settings insist on it
        handed_over = entry.model_copy(update={"header": None})  # by the issuer itself, whatever a proxy does
        access = self.authenticator(auth.model_copy(update={"jwt": (handed_over,), "api_keys": None}))
        assert isinstance(access, Authentication)
        # OpenID Connect Core 1.0, sections 2 and 3.1.3.7: an ID token is for the client.
        identity = JwtIssuer(
            keys=self._keys[_origin(entry)],
            name=entry.issuer,
            audience=frozenset({login.client_id}),
            require=("exp", "sub", "iat", "aud"),
            leeway_s=entry.leeway_s,
        )
        return access, Authentication([identity], clock=time.time)

    def status(self) -> dict[str, IssuerStatus]:
        """How those stand that publish their keys, by name."""
        published = [(origin[0], keys) for origin, keys in self._keys.items() if isinstance(keys, RemoteKeys)]
        return {without_login(str(name)): keys.status for name, keys in published}

    async def refresh(self) -> None:
        """Waits until the keys of all issuers have been asked for."""
        await asyncio.gather(*(keys.refresh() for keys in self._keys.values() if isinstance(keys, RemoteKeys)))

    async def keep(self, auth: AuthSettings | None) -> None:
        """Stops fetching the keys of all issuers but those of these settings, and fetches theirs as these say."""
        entries = {_origin(entry): entry for entry in (() if auth is None else auth.jwt or ())}
        for origin, entry in entries.items():
            keys = self._keys.get(origin)
            if isinstance(keys, RemoteKeys):
                keys.pace(entry.jwks_refresh_s, entry.jwks_cooldown_s)
        for origin in [origin for origin in self._keys if origin not in entries]:
            await self._keys.pop(origin).aclose()


def accounts(auth: AuthSettings | None) -> frozenset[str]:
    """The names under which what callers use is counted: of keys, issuers, or of everybody."""
    if auth is None:
        return frozenset({ANONYMOUS.account})
    issuers = (account_of_issuer(entry.issuer) for entry in auth.jwt or ())
    return frozenset({*issuers, *(f"key:{key.id}" for key in auth.api_keys or ())})


def _origin(entry: JwtSettings) -> Origin:
    """Where an issuer's keys come from; what tokens must be like and how often keys are fetched is no part of it."""
    files = tuple(fingerprints(named_files(entry.tls)).items())
    fetched = entry.jwks_url, entry.jwks_auth, entry.allow_http, entry.proxy, entry.tls, files
    return entry.issuer, entry.secret, entry.public_key, entry.algorithms, fetched


def _issuer(entry: JwtSettings, keys: Keys) -> JwtIssuer:
    # Issuers with public keys sign for many services; what does not say whom it is for is not for us.
    needed = ("aud",) if entry.secret is None and entry.audience_claim is None else ()
    return JwtIssuer(
        keys=keys,
        name=entry.issuer,
        audience=frozenset(entry.audience),
        audience_claim=_path(entry.audience_claim),
        require=(*entry.require, *needed),
        scope_claims=tuple(tuple(name.split(".")) for name in entry.scope_claim),
        user_id_claim=_path(entry.user_id_claim),
        leeway_s=entry.leeway_s,
        max_lifetime_s=entry.max_lifetime_s,
        header=AUTHORIZATION if entry.header is None else entry.header.encode("ascii"),
    )


def _path(name: str | None) -> Path | None:
    return None if name is None else tuple(name.split("."))


def _keys(entry: JwtSettings) -> Keys:
    if entry.secret is not None:
        return Keys.secret(entry.secret.get_secret_value())
    if entry.public_key is not None:
        return Keys.public_key(read_pem(entry.public_key), entry.algorithms)
    assert entry.issuer is not None  # the settings insist on it
    return RemoteKeys(
        entry.issuer,
        entry.jwks_url,
        algorithms=frozenset(entry.algorithms),
        refresh_s=entry.jwks_refresh_s,
        cooldown_s=entry.jwks_cooldown_s,
        credential=fixed_headers(entry.jwks_auth),
        allow_http=entry.allow_http,
        proxy=partial(proxy_for, entry.proxy),
        tls=None if entry.tls is None else partial(client_context, entry.tls),
    )
