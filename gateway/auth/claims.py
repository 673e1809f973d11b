"""What a token says once its signature is good: RFC 7519, section 4.1, and the claims an operator chose.

PyJWT's own checks are not used: they read the wall clock, take "1700000000" for a time, and refuse a token without
`aud` as soon as audiences are given, which OXP 1.0 (Security) checks only if it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.auth.issuers import JwtIssuer
from gateway.auth.refusals import Reason, refused
from gateway.ports import Caller

Claims = Mapping[str, Any]

MAX_NAME = 256  # characters of a subject or a user; they are labels in keys and logs
LAST_TIME = 2**53  # seconds; no clock gets there, and beyond it doubles leave seconds out


def caller_of(claims: Claims, issuer: JwtIssuer, now: float) -> tuple[Caller, float]:
    """The caller that the claims name, and when they expire (seconds since 1970). Raises UnauthenticatedError."""
    if any(claims.get(name) is None for name in issuer.require):
        raise refused(Reason.CLAIM)
    expires = _expiry(claims, now, issuer)
    if not _audience_fits(claims.get("aud"), issuer.audience):
        raise refused(Reason.AUDIENCE)
    subject = claims["sub"]
    if not is_name(subject):
        raise refused(Reason.SUBJECT)
    user_id = None
    if issuer.user_id_claim is not None:
        user_id = _at(claims, issuer.user_id_claim)
        if not is_name(user_id):  # without it, the caller could name any user in a call
            raise refused(Reason.USER)
    principal = f"jwt:{_issuer_name(claims, issuer)}:{_escaped(subject)}"
    return Caller(principal=principal, scopes=_scopes(_at(claims, issuer.scope_claim)), user_id=user_id), expires


def _expiry(claims: Claims, now: float, issuer: JwtIssuer) -> float:
    """Checks the times, which must be numbers (RFC 7519, sections 4.1.4 to 4.1.6), and returns the end."""
    for claim in ("exp", "nbf", "iat"):
        time = claims.get(claim, 0)
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < LAST_TIME:
            raise refused(Reason.CLAIM)
    if claims["exp"] <= now - issuer.leeway_s:
        raise refused(Reason.EXPIRED)
    if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + issuer.leeway_s:
        raise refused(Reason.NOT_YET)
    if issuer.max_lifetime_s is not None and claims["exp"] - now > issuer.max_lifetime_s + issuer.leeway_s:
        raise refused(Reason.LIFETIME)
    return float(claims["exp"])


def _audience_fits(claim: Any, allowed: frozenset[str]) -> bool:
    if claim is None:
        return True
    audiences = [claim] if isinstance(claim, str) else claim
    return isinstance(audiences, list) and any(isinstance(item, str) and item in allowed for item in audiences)


def _at(claims: Claims, path: Sequence[str]) -> Any:
    """The claim of that name, else what the parts of a name with dots lead to: some names are URLs."""
    found: Any = claims.get(".".join(path))
    if found is not None or len(path) == 1:
        return found
    found = claims
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _scopes(claim: Any) -> frozenset[str]:
    """RFC 8693 puts scopes in one string, others in a list. Only U+0020 divides them (RFC 6749, section 3.3)."""
    if isinstance(claim, str):
        return frozenset(claim.split(" ")) - {""}
    return frozenset(item for item in claim if isinstance(item, str)) if isinstance(claim, list) else frozenset()


def _issuer_name(claims: Claims, issuer: JwtIssuer) -> str:
    """The issuer part of a principal: an entry for any issuer takes tokens of several, each with its own `alice`."""
    if issuer.name is not None:
        return issuer.name
    name = claims.get("iss")
    if name is not None and not is_name(name):
        raise refused(Reason.CLAIM)
    return name or ""


def is_name(value: Any) -> bool:
    """Whether a claim can be the name of a subject or user."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def _escaped(subject: str) -> str:
    """A subject without colons: issuers have some, and two pairs must never make one principal."""
    return subject.replace("%", "%25").replace(":", "%3A")
