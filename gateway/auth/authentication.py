"""Authenticates the head of a request: bearer tokens, API keys, or anonymous callers (OXP 1.0, RFC 6750, 7519, 8725).

A token's header chooses only among the keys of its issuer: `jku`, `x5u` and `jwk` are not read.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from gateway.auth.keys import Keys
from gateway.auth.refusals import (
    ASKED,
    HEADER,
    ISSUER,
    MISSING,
    SIGNATURE,
    TOO_LONG,
    TWO,
    UNREADABLE,
    Reason,
    refused,
    undecided,
)
from gateway.auth.tokens import AUTHORIZATION, JwtIssuer, MalformedError, TokenParts, caller_of, take_apart
from gateway.core.errors import UnauthenticatedError, UndecidedError
from gateway.core.ports import ANONYMOUS, Caller
from gateway.core.wire import Head

CACHE_ENTRIES = 10_000  # about 3 MB; a verification costs 20 us (HS256) to 200 us (ES256), a hit 1 us
CACHE_S = 60.0  # a changed secret or a withdrawn key takes effect within this
MAX_TOKEN = 32 * 1024  # bytes, as the default of `max_head`; a token with 200 groups has 11 KB
NEVER = float("inf")
NOTHING = sha256()  # to be copied: for a new one OpenSSL looks the algorithm up, which takes longer than a token's hash
KEY_HEADERS = (b"oxp-api-key", b"otc-api-key")


class NoAuthentication:
    """`auth: none`: every caller is anonymous, and credentials are ignored as OXP 1.0 demands."""

    def identify(self, head: Head) -> Caller:
        return ANONYMOUS

    async def identify_later(self, head: Head) -> Caller:
        return ANONYMOUS

    async def start(self) -> None:
        """There is nothing to fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key that is accepted."""

    id: str
    digest: bytes  # the SHA-256 of the key (32 bytes); the key itself is not known
    scopes: frozenset[str] = frozenset()

    def caller(self) -> Caller:
        """Whoever shows it."""
        principal = f"key:{self.id}"
        return Caller(principal=principal, account=principal, scopes=self.scopes)


class Authentication:
    """Identifies callers, and remembers by digest the bearer tokens it has verified.

    A request may carry one credential only, whatever kinds of them are configured; a key may also come as a bearer
    token, which is where both official clients of OXP put it. `max_token` is in bytes.
    """

    def __init__(
        self,
        issuers: Sequence[JwtIssuer],
        api_keys: Iterable[ApiKey] = (),
        *,
        clock: Callable[[], float],
        max_token: int = MAX_TOKEN,
    ) -> None:
        self._issuers = {(issuer.header, issuer.name): issuer for issuer in issuers}
        self._api_keys = {key.digest: (key.digest, key.caller()) for key in api_keys}
        headers = dict.fromkeys(issuer.header for issuer in issuers)
        self._token_headers = tuple(name for name in headers if name != AUTHORIZATION)  # those that a proxy sets
        self._beside = (*KEY_HEADERS, *self._token_headers)
        self._reads_authorization = AUTHORIZATION in headers or bool(self._api_keys)
        kinds = ["a bearer token"] if AUTHORIZATION in headers else []
        kinds += [f"a token in {name.decode()}" for name in self._token_headers]
        self._kinds = " or ".join(kinds + (["an API key"] if self._api_keys else []))
        self._max_token = max_token
        self._clock = clock
        self._cache: dict[bytes, tuple[Caller, float]] = {}  # the verification longest ago comes first

    def identify(self, head: Head) -> Caller:
        """Raises UnauthenticatedError; an UndecidedError where the issuer's keys should be asked for first."""
        headers = head.headers
        if not headers.keys().isdisjoint(self._beside):
            return self._by_other_header(head)
        header = headers.get(AUTHORIZATION)
        if not header:
            raise UnauthenticatedError(f"Authentication is needed: send {self._kinds}.", MISSING, False, ASKED)
        hashing = NOTHING.copy()
        hashing.update(header)
        digest = hashing.digest()
        entry = self._cache.get(digest)
        if entry is not None and self._clock() < entry[1]:
            return entry[0]
        return self._verify(self._bearer(header), AUTHORIZATION, digest)

    async def identify_later(self, head: Head) -> Caller:
        """As `identify`, after the keys of the token's issuer have been asked for; waits some seconds at most."""
        place = next((name for name in self._token_headers if name in head.headers), AUTHORIZATION)
        value = head.headers.get(place, b"")
        credential = self._bearer(value) if place == AUTHORIZATION else self._bare(value)
        await self._issuer_of(self._read(credential), place).keys.refresh()
        try:
            return self.identify(head)
        except UndecidedError as exc:
            raise refused(Reason(exc.reason)) from exc

    async def start(self) -> None:
        """Begins to fetch the keys of those issuers that publish them; returns at once."""
        for issuer in self._issuers.values():
            issuer.keys.start()

    def _by_other_header(self, head: Head) -> Caller:
        headers = head.headers
        names = [name for name in self._beside if name in headers]
        is_token = names[0] in self._token_headers
        # A proxy that sets a header of its own leaves the caller's `Authorization`, which may be for the proxy alone.
        counts = AUTHORIZATION in headers and (self._reads_authorization or not is_token)
        if len(names) > 1 or counts or sum(name == names[0] for name, _ in head.lines) > 1:
            raise UnauthenticatedError(f"Send only one credential: {self._kinds}.", Reason.SEVERAL, False, TWO)
        return self._by_token(names[0], headers[names[0]]) if is_token else self._by_key_header(headers[names[0]])

    def _by_token(self, place: bytes, value: bytes) -> Caller:
        """Identifies the caller by the header of a proxy's."""
        digest = sha256(b"%b: %b" % (place, value)).digest()
        entry = self._cache.get(digest)
        if entry is not None and self._clock() < entry[1]:
            return entry[0]
        return self._verify(self._bare(value), place, digest)

    def _by_key_header(self, key: bytes) -> Caller:
        if not self._api_keys:
            message = f"API keys are not accepted here: send {self._kinds}."
            raise UnauthenticatedError(message, HEADER, False, ASKED)
        caller = self._by_key(key)
        if caller is None:
            raise refused(Reason.API_KEY)
        return caller

    def _by_key(self, key: bytes) -> Caller | None:
        """Finds a key by its digest, which cannot be guessed bit by bit; compares in constant time all the same."""
        digest = sha256(key).digest()
        stored, caller = self._api_keys.get(digest, (bytes(32), None))
        return caller if hmac.compare_digest(stored, digest) else None

    def _verify(self, credential: bytes, place: bytes, digest: bytes) -> Caller:
        """Verifies a credential that is not remembered, and remembers it."""
        now, expires = self._clock(), NEVER
        caller = self._by_key(credential) if self._api_keys and place == AUTHORIZATION else None
        if caller is None:
            token = self._read(credential)
            issuer = self._issuer_of(token, place)
            _check_signature(token, issuer.keys)
            caller, expires = caller_of(token.claims, issuer, now)
        self._remember(digest, caller, min(expires, now + CACHE_S))
        return caller

    def _remember(self, digest: bytes, caller: Caller, until: float) -> None:
        """Caches a verified credential. A full cache drops the oldest verification, which expires first."""
        self._cache.pop(digest, None)
        if len(self._cache) >= CACHE_ENTRIES:
            del self._cache[next(iter(self._cache))]
        self._cache[digest] = caller, until

    def _read(self, credential: bytes) -> TokenParts:
        """Takes a token apart; what is not a token may have been a guess at an API key."""
        try:
            return take_apart(credential)
        except MalformedError as exc:
            raise refused(Reason.API_KEY if self._api_keys else UNREADABLE) from exc

    def _issuer_of(self, token: TokenParts, place: bytes) -> JwtIssuer:
        """The issuer that a token names, not verified yet. Raises UnauthenticatedError if none is configured there."""
        name = token.claims.get("iss")
        issuer = self._issuers.get((place, name)) if isinstance(name, str) else None
        issuer = issuer or self._issuers.get((place, None))
        if issuer is None:
            raise refused(ISSUER)
        return issuer

    def _bearer(self, header: bytes) -> bytes:
        """What `Authorization` holds. Raises UnauthenticatedError."""
        scheme, _, token = header.partition(b" ")
        if scheme.lower() != b"bearer":
            raise refused(HEADER)
        return self._fitting(token.strip())

    def _bare(self, value: bytes) -> bytes:
        """The token in a header of a proxy's; some write the scheme before it. Raises UnauthenticatedError."""
        scheme, _, token = value.partition(b" ")
        return self._fitting(token.strip() if scheme.lower() == b"bearer" else value.strip())

    def _fitting(self, token: bytes) -> bytes:
        if not token:
            raise refused(HEADER)
        if len(token) > self._max_token:
            raise refused(TOO_LONG)
        return token


def _check_signature(token: TokenParts, keys: Keys) -> None:
    """Raises UnauthenticatedError; an UndecidedError if its issuer may have another key by now."""
    algorithm, kid = token.header.get("alg"), token.header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in keys.algorithms:
        raise refused(Reason.ALGORITHM)
    verifiers = keys.find(kid, algorithm)
    if any(verifier.accepts(token.signed, token.signature) for verifier in verifiers):
        return
    if not verifiers:
        reason = Reason.NO_KEYS if keys.is_empty else Reason.KEY
    elif keys.has(kid, algorithm):
        raise refused(SIGNATURE)
    else:
        reason = SIGNATURE  # its issuer may have had another key when it was signed
    raise undecided(reason) if keys.may_change else refused(reason)
