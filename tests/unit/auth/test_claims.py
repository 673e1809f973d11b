"""What is read out of a good token: scopes and users wherever an issuer puts them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.auth import Authentication, Reason
from tests.support.authenticators import CLAIMS, HS256, authentication, bearer, handmade, refused

NESTED = {"realm_access": {"roles": ["mail", "calc"]}}
URL_CLAIM = "https://toolgate.example/roles"


def scopes_of(auth: Authentication, claims: dict[str, Any]) -> frozenset[str]:
    return auth.identify(bearer(CLAIMS | claims)).scopes


@pytest.mark.parametrize(
    ("path", "claims", "scopes"),
    [
        ("scope", {"scope": "mail calc"}, {"mail", "calc"}),
        ("realm_access.roles", NESTED, {"mail", "calc"}),
        ("a.b.c", {"a": {"b": {"c": "mail"}}}, {"mail"}),
        (URL_CLAIM, {URL_CLAIM: ["mail"]}, {"mail"}),  # its dots lead nowhere
        ("a.b", {"a.b": "mail", "a": {"b": "calc"}}, {"mail"}),  # the whole name comes first
        ("a.b", {"a": "mail"}, set()),
        ("a.b", {"a": ["mail"]}, set()),
        ("a.b", {"a": {"b": {"c": "mail"}}}, set()),
        ("a.b", {"a": {}}, set()),
        ("a.b", {"a": None}, set()),
        ("a", {}, set()),
    ],
)
def test_scopes_are_found_at_the_end_of_a_path(path: str, claims: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_of(authentication(scope_claim=tuple(path.split("."))), claims) == scopes


def test_without_a_claim_for_it_a_token_names_no_user() -> None:
    assert authentication().identify(bearer(CLAIMS | {"email": "a@x.example"})).user_id is None


@pytest.mark.parametrize(
    ("path", "claims"), [("email", {"email": "a@x.example"}), ("user.id", {"user": {"id": "a@x.example"}})]
)
def test_the_claim_for_it_names_the_user(path: str, claims: dict[str, Any]) -> None:
    caller = authentication(user_id_claim=tuple(path.split("."))).identify(bearer(CLAIMS | claims))
    assert (caller.principal, caller.user_id) == ("jwt::alice", "a@x.example")


def test_the_subject_may_be_the_user() -> None:
    assert authentication(user_id_claim=("sub",)).identify(bearer()).user_id == "alice"


@pytest.mark.parametrize("user", [None, "", 7, True, ["a"], {"id": "a"}, "a\nb", "x" * 257])
def test_where_users_matter_a_token_without_one_is_refused(user: Any) -> None:
    """Ours: otherwise its bearer could name any user in a call."""
    auth = authentication(user_id_claim=("email",))
    assert refused(auth, handmade(HS256, CLAIMS | {"email": user}), Reason.USER).attempted
    refused(auth, bearer(), Reason.USER)


@pytest.mark.parametrize(("claim", "reason"), [("aud", Reason.CLAIM), ("sub", Reason.CLAIM), ("exp", Reason.CLAIM)])
def test_a_required_claim_that_is_missing_or_null_is_refused(claim: str, reason: Reason) -> None:
    auth = authentication(require=("exp", "sub", "aud"), audience=frozenset({"toolgate"}))
    good = CLAIMS | {"aud": "toolgate"}
    assert auth.identify(bearer(good)).principal == "jwt::alice"
    refused(auth, bearer({name: value for name, value in good.items() if name != claim}), reason)
    refused(auth, handmade(HS256, good | {claim: None}), reason)


REASONS: dict[Reason, dict[str, Any]] = {
    Reason.EXPIRED: {"exp": 1},
    Reason.NOT_YET: {"nbf": CLAIMS["exp"]},
    Reason.LIFETIME: {"exp": CLAIMS["exp"] * 2},
    Reason.AUDIENCE: {"aud": "elsewhere"},
    Reason.SUBJECT: {"sub": ""},
    Reason.CLAIM: {"exp": "soon"},
}


@pytest.mark.parametrize(("reason", "claims"), REASONS.items(), ids=REASONS)
def test_what_is_wrong_behind_a_good_signature_is_told_to_us_alone(reason: Reason, claims: dict[str, Any]) -> None:
    """The reason is for logs and counters; every caller reads the same."""
    error = refused(authentication(max_lifetime_s=3600.0), handmade(HS256, CLAIMS | claims), reason)
    assert error.attempted
    assert error.message == "The credentials are not valid."
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate", error="invalid_token"'),)
