"""Whatever a caller sends for a credential, it is identified or refused: nothing else comes out."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth import ApiKey, Authentication
from gateway.core.errors import UnauthenticatedError
from gateway.core.wire import Head
from tests.support.authenticators import NOW, Clock, handmade, issuer
from tests.support.keys import issuer_with

NAMES = ["alg", "kid", "typ", "crit", "b64", "jku", "iss", "sub", "aud", "exp", "nbf", "iat", "scope", "user"]
WORDS = ["HS256", "RS256", "none", "alice", "toolgate", "JWT", "a", ""]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
JSON = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.sampled_from(NAMES), LEAVES, max_size=3)
OBJECTS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), JSON, max_size=6)


def auth() -> Authentication:
    keys = [ApiKey(id="a", digest=hashlib.sha256(b"key").digest())]
    issuers = [
        issuer(user_id_claim=("user", "id"), scope_claims=(("scope", "a"),)),
        issuer_with("rsa", "RS256", name="a"),
    ]
    return Authentication(issuers, keys, clock=Clock())


AUTH = auth()


def attempt(head: Head) -> bool:
    """Whether somebody was identified."""
    try:
        return AUTH.identify(head).principal.startswith(("jwt:", "key:"))
    except UnauthenticatedError:
        return False


@given(JSON | OBJECTS, JSON | OBJECTS)
@settings(max_examples=100, deadline=None)
def test_any_header_and_claims_under_a_good_signature(header: Any, claims: Any) -> None:
    attempt(handmade(header, claims))


@given(OBJECTS)
@settings(max_examples=100, deadline=None)
def test_any_further_claims_beside_good_ones(claims: dict[str, Any]) -> None:
    good = {"sub": "alice", "exp": NOW + 60, "user": {"id": "alice"}}
    spoiled = claims.keys() & {"sub", "exp", "nbf", "iat", "aud", "iss", "user"}
    assert attempt(handmade({"alg": "HS256"}, good | claims)) or spoiled
