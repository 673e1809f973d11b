"""Good and bad tokens, and the heads they arrive in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest

from gateway.auth import ApiKey, Authentication, JwtIssuer, Keys, Reason
from gateway.core.errors import ErrorCode, UnauthenticatedError
from gateway.core.wire import Head

SECRET = "correct horse battery staple, twice over"
OTHER_SECRET = "another secret of at least 32 characters"
NOW = 2_000_000_000.0
CLAIMS: dict[str, Any] = {"sub": "alice", "exp": NOW + 600}
HS256 = {"alg": "HS256", "typ": "JWT"}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def issuer(secret: str = SECRET, **settings: Any) -> JwtIssuer:
    """One with a shared secret."""
    return JwtIssuer(keys=Keys.secret(secret), **settings)


def authentication(
    *issuers: JwtIssuer, clock: Clock | None = None, api_keys: tuple[ApiKey, ...] = (), **settings: Any
) -> Authentication:
    """Of these issuers, or of one with these settings."""
    return Authentication(issuers or [issuer(**settings)], api_keys, clock=clock or Clock())


def with_header(value: str | bytes, **more: str) -> Head:
    """A head with `Authorization`; `more` headers are written with underscores."""
    value = value.encode() if isinstance(value, str) else value
    others = {name.replace("_", "-").encode(): text.encode() for name, text in more.items()}
    return Head(method="POST", path="/tools/call", headers={b"authorization": value} | others)


def without_header(**more: str) -> Head:
    """A head without `Authorization`."""
    headers = {name.replace("_", "-").encode(): text.encode() for name, text in more.items()}
    return Head(method="POST", path="/tools/call", headers=headers)


def bearer(claims: dict[str, Any] | None = None, key: Any = SECRET, algorithm: str = "HS256", **header: Any) -> Head:
    """The head of a request with a signed token."""
    token = jwt.encode(CLAIMS if claims is None else claims, key, algorithm, headers=header)
    return with_header(f"Bearer {token}")


def handmade(header: Any, claims: Any, key: bytes = SECRET.encode()) -> Head:
    """A token that no library would make, with a good HMAC."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(key, signed, hashlib.sha256)).rstrip(b"=")
    return with_header(b"Bearer " + signed + b"." + signature)


def refused(auth: Authentication, head: Head, reason: Reason | None = None) -> UnauthenticatedError:
    """Asserts that the caller is not identified, for that reason if it is given."""
    with pytest.raises(UnauthenticatedError) as caught:
        auth.identify(head)
    error = caught.value
    assert error.code is ErrorCode.UNAUTHENTICATED
    assert error.detail == error.reason
    assert reason is None or error.reason == reason
    return error
