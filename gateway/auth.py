"""Who calls: JWT bearer tokens (HS256), or nobody in particular.

OXP 1.0, Security: HS256 over a shared secret, `exp` must be there, `aud` is checked when it is there; RFC 7519 and
RFC 8725 for the rest. The algorithm is pinned here; nothing in a token's header chooses anything.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt

from gateway.errors import ErrorCode, GatewayError
from gateway.ports import ANONYMOUS, Caller
from gateway.wire import Head

ALGORITHM = "HS256"
CACHE_ENTRIES = 10_000  # about 3 MB; a verification costs 30 us, a hit 1 us
CACHE_S = 60.0  # a changed secret takes effect within this
MAX_TOKEN = 8192  # bytes; tokens with many claims have 2 to 4 KiB
MAX_SUBJECT = 256  # characters; the principal is a label in keys and logs
LAST_TIME = 2**53  # seconds; no clock gets there, and beyond it doubles leave seconds out
# What PyJWT lets through besides its own: numerals too long to convert, nesting no parser survives.
UNREADABLE = (jwt.PyJWTError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtIssuer:
    """One party whose tokens are accepted. Durations are in seconds."""

    secret: str = field(repr=False)
    issuer: str | None = None
    audience: frozenset[str] = frozenset()
    require: tuple[str, ...] = ("exp", "sub")
    scope_claim: str = "scope"
    leeway_s: float = 30.0
    max_lifetime_s: float | None = None


class NoAuthentication:
    """`auth: none`: everybody is anonymous, and credentials are ignored as OXP 1.0 demands."""

    def identify(self, head: Head) -> Caller:
        return ANONYMOUS


class JwtAuthenticator:
    """Verifies bearer tokens and remembers, by digest, those it has verified."""

    def __init__(self, issuers: Sequence[JwtIssuer], *, clock: Callable[[], float]) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._clock = clock
        self._cache: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    def identify(self, head: Head) -> Caller:
        """Reads `Authorization: Bearer`. Raises UNAUTHENTICATED."""
        header = head.headers.get(b"authorization", b"")
        digest = hashlib.sha256(header).digest()
        now = self._clock()
        known = self._cache.get(digest)
        if known is not None and now < known[1]:
            self._cache.move_to_end(digest)
            return known[0]
        caller, expires = self._verify(_bearer(header), now)
        if len(self._cache) >= CACHE_ENTRIES:
            self._cache.popitem(last=False)
        self._cache[digest] = caller, min(expires, now + CACHE_S)
        return caller

    def _verify(self, token: bytes, now: float) -> tuple[Caller, float]:
        issuer = self._issuer_of(token)
        try:
            claims = jwt.decode(
                token,
                issuer.secret,
                algorithms=[ALGORITHM],
                issuer=issuer.issuer,
                options={
                    "require": list(issuer.require),
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except UNREADABLE as exc:
            raise _refused(type(exc).__name__) from exc
        # PyJWT refuses a token without `aud` once audiences are given; OXP checks it only if it is there. And for
        # times it reads the wall clock, and takes "1700000000" for one.
        if not _audience_fits(claims.get("aud"), issuer.audience):
            raise _refused("audience")
        expires = _expiry(claims, now, issuer.leeway_s)
        if issuer.max_lifetime_s is not None and expires - now > issuer.max_lifetime_s + issuer.leeway_s:
            raise _refused("lifetime")
        subject = claims["sub"]
        if not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
            raise _refused("subject")
        principal = f"jwt:{issuer.issuer or ''}:{_escaped(subject)}"
        return Caller(principal=principal, scopes=_scopes(claims.get(issuer.scope_claim))), expires

    def _issuer_of(self, token: bytes) -> JwtIssuer:
        """Picks the entry by the unverified `iss`; the signature then decides whether that was true."""
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except UNREADABLE as exc:
            raise _refused("unreadable") from exc
        name = claims.get("iss")
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        issuer = issuer or self._issuers.get(None)
        if issuer is None:
            raise _refused("issuer")
        return issuer


def _escaped(subject: str) -> str:
    """A subject without colons: issuers have some, and two pairs must never make one principal."""
    return subject.replace("%", "%25").replace(":", "%3A")


def _bearer(header: bytes) -> bytes:
    if not header:
        raise _unauthenticated("Authentication is needed: send a bearer token.", b"Bearer")
    scheme, _, token = header.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token or len(token) > MAX_TOKEN:
        raise _refused("header")
    return token


def _refused(reason: str) -> GatewayError:
    return _unauthenticated("The credentials are not valid.", b'Bearer error="invalid_token"', reason)


def _unauthenticated(message: str, challenge: bytes, reason: str = "missing") -> GatewayError:
    headers = ((b"www-authenticate", challenge),)
    return GatewayError(ErrorCode.UNAUTHENTICATED, message, detail=reason, headers=headers)


def _expiry(claims: Mapping[str, Any], now: float, leeway_s: float) -> float:
    """Checks the times in a token, which must be numbers (RFC 7519, 4.1.4 to 4.1.6), and returns its end."""
    for claim in ("exp", "nbf", "iat"):
        time = claims.get(claim, 0)
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < LAST_TIME:
            raise _refused(claim)
    if claims["exp"] <= now - leeway_s:
        raise _refused("expired")
    if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + leeway_s:
        raise _refused("not yet valid")
    return float(claims["exp"])


def _audience_fits(claim: Any, allowed: frozenset[str]) -> bool:
    if claim is None:
        return True
    audiences = [claim] if isinstance(claim, str) else claim
    return isinstance(audiences, list) and any(isinstance(item, str) and item in allowed for item in audiences)


def _scopes(claim: Any) -> frozenset[str]:
    """RFC 8693 puts scopes in one string, others in a list."""
    if isinstance(claim, str):
        return frozenset(claim.split())
    return frozenset(item for item in claim if isinstance(item, str)) if isinstance(claim, list) else frozenset()
