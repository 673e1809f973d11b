"""A key is used with the algorithms its operator chose for it, whatever a token's header says (RFC 8725, 3.1)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gateway.auth import Keys, Reason
from gateway.auth.keys import UnfitKeyError
from tests.support.authenticators import authentication, bearer, refused, with_header
from tests.support.keys import KINDS, issuer_with, jwk, private, public

every_algorithm = pytest.mark.parametrize(("algorithm", "kind"), KINDS.items(), ids=KINDS)


@every_algorithm
def test_a_token_signed_with_the_pinned_algorithm_is_good(algorithm: str, kind: str) -> None:
    auth = authentication(issuer_with(kind, algorithm))
    assert auth.identify(bearer(key=private(kind), algorithm=algorithm)).principal == "jwt::alice"


@every_algorithm
def test_a_signature_of_another_key_of_the_same_kind_is_refused(algorithm: str, kind: str) -> None:
    auth = authentication(issuer_with(kind, algorithm))
    error = refused(auth, bearer(key=private(kind, 1), algorithm=algorithm), Reason.SIGNATURE)
    assert error.attempted


@every_algorithm
def test_every_other_algorithm_is_refused_unverified(algorithm: str, kind: str) -> None:
    auth = authentication(issuer_with(kind, algorithm))
    for other, its_kind in KINDS.items():
        if other != algorithm:
            error = refused(auth, bearer(key=private(its_kind), algorithm=other), Reason.ALGORITHM)
            assert not error.attempted


@every_algorithm
def test_what_is_no_signature_is_refused(algorithm: str, kind: str) -> None:
    """An empty one, one of zeros in the right length, one cut short, one too long."""
    auth = authentication(issuer_with(kind, algorithm))
    good = bearer(key=private(kind), algorithm=algorithm).headers[b"authorization"]
    body, _, last = good.rpartition(b".")
    signature = base64.urlsafe_b64decode(last + b"==")
    for wrong in (b"", bytes(len(signature)), signature[:-1], signature + b"\0", signature[::-1], b"\xff" * 4000):
        refused(auth, with_header(body + b"." + base64.urlsafe_b64encode(wrong).rstrip(b"=")), Reason.SIGNATURE)


@pytest.mark.parametrize("number", [0, 1])
def test_keys_that_a_token_brings_along_are_not_used(number: int) -> None:
    """`jku`, `x5u`, `x5c` and `jwk` (RFC 7515, section 4.1) may be there, but the issuer's key decides."""
    brought: dict[str, Any] = {
        "jku": "https://evil.example/jwks.json",
        "x5u": "https://evil.example/cert.pem",
        "x5c": ["MIIB"],
        "jwk": jwk("rsa", number),
        "kid": "anything",
    }
    auth = authentication(issuer_with("rsa", "RS256"))
    head = bearer(key=private("rsa", number), algorithm="RS256", **brought)
    if number:
        refused(auth, head, Reason.SIGNATURE)
    else:
        assert auth.identify(head).principal == "jwt::alice"


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("rsa", "ES256"),
        ("rsa", "HS256"),
        ("rsa", "none"),
        ("p256", "ES384"),
        ("p384", "ES256"),
        ("p256", "RS256"),
        ("ed25519", "ES256"),
        ("k256", "ES256"),
        ("short rsa", "RS256"),
    ],
)
def test_a_key_cannot_be_put_together_with_an_algorithm_it_is_not_for(kind: str, algorithm: str) -> None:
    with pytest.raises(UnfitKeyError):
        Keys.public_key(public(kind), [algorithm])
