"""What the claims of a token must be (RFC 7519, section 4.1), and the scopes and users that are read out of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.auth import Authentication, Reason
from tests.support.authenticators import CLAIMS, HS256, NOW, authentication, bearer, handmade, refused

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
        ("apps.my.app.roles", {"apps": {"my.app": {"roles": ["mail"]}}}, {"mail"}),
        ("https://x.example/apps.my.app", {"https://x.example/apps": {"my.app": "mail"}}, {"mail"}),
        ("a.b.c", {"a.b": {"d": "calc"}, "a": {"b.c": "mail"}}, {"mail"}),  # the longer name leads nowhere
        ("a.b.c", {"a.b": {"c": "mail"}, "a": {"b": {"c": "calc"}}}, {"mail"}),
        ("a.b", {"a": "mail"}, set()),
        ("a.b", {"a": ["mail"]}, set()),
        ("a.b", {"a": {"b": {"c": "mail"}}}, set()),
        ("a.b", {"a": {}}, set()),
        ("a.b", {"a": None}, set()),
        ("a", {}, set()),
    ],
)
def test_scopes_are_found_at_the_end_of_a_path(path: str, claims: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_of(authentication(scope_claims=(tuple(path.split(".")),)), claims) == scopes


def test_scopes_may_stand_in_several_claims() -> None:
    auth = authentication(scope_claims=(("scope",), ("realm_access", "roles"), ("groups",)))
    assert scopes_of(auth, {"scope": "calc"} | NESTED) == {"mail", "calc"}


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"client_id": "ours"}, None),
        ({"client_id": ["theirs", "ours"]}, None),
        ({"client_id": "ours", "aud": "ours"}, None),
        ({"client_id": "theirs"}, Reason.AUDIENCE),
        ({"client_id": "ours", "aud": "theirs"}, Reason.AUDIENCE),
        ({"client_id": 7}, Reason.AUDIENCE),
        ({"aud": "ours"}, Reason.CLAIM),
        ({"client_id": None}, Reason.CLAIM),
        ({}, Reason.CLAIM),
    ],
)
def test_the_audience_may_stand_in_a_claim_of_another_name(claims: dict[str, Any], reason: Reason | None) -> None:
    """As in access tokens of Amazon Cognito; an `aud` counts all the same (RFC 7519, section 4.1.3)."""
    auth = authentication(audience=frozenset({"ours"}), audience_claim=("client_id",))
    head = handmade(HS256, CLAIMS | claims)
    if reason is None:
        assert auth.identify(head).principal == "jwt::alice"
    else:
        refused(auth, head, reason)


def test_without_a_claim_for_it_a_token_names_no_user() -> None:
    assert authentication().identify(bearer(CLAIMS | {"email": "a@x.example"})).user_id is None


@pytest.mark.parametrize(
    ("path", "claims"), [("email", {"email": "a@x.example"}), ("user.id", {"user": {"id": "a@x.example"}})]
)
def test_the_claim_for_it_names_the_user(path: str, claims: dict[str, Any]) -> None:
    caller = authentication(user_id_claim=tuple(path.split("."))).identify(bearer(CLAIMS | claims))
    assert (caller.principal, caller.user_id) == ("jwt::alice", "a@x.example")


@pytest.mark.parametrize("user", [None, "", 7, True, ["a"], {"id": "a"}, "a\nb", "x" * 257])
def test_where_users_matter_a_token_without_one_is_refused(user: Any) -> None:
    """Not specified: otherwise its bearer could name any user in a call."""
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
def test_why_a_signed_token_is_refused_is_in_our_log_only(reason: Reason, claims: dict[str, Any]) -> None:
    """The reason is for logs and counters; every caller reads the same."""
    error = refused(authentication(max_lifetime_s=3600.0), handmade(HS256, CLAIMS | claims), reason)
    assert error.attempted
    assert error.message == "The credentials are not valid."
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate", error="invalid_token"'),)


NO_TIMES: list[Any] = ["2000000600", "soon", None, True, [], {}, -1, 2**53, 10**400, b"1e999", b"NaN", b"-Infinity"]


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("time", NO_TIMES, ids=lambda time: repr(time)[:12])
def test_a_time_must_be_a_number_that_a_clock_can_show(claim: str, time: Any) -> None:
    text = time.decode() if isinstance(time, bytes) else json.dumps(time)
    claims = json.dumps(CLAIMS | {claim: 0}).replace(f'"{claim}": 0', f'"{claim}": {text}')
    refused(authentication(), handmade(HS256, claims.encode()))


LEEWAY_S = 30.0
TIMES = [
    ({"exp": NOW - LEEWAY_S + 1}, True),
    ({"exp": NOW - LEEWAY_S}, False),
    ({"exp": NOW + 0.5}, True),
    ({"exp": 0}, False),
    ({"exp": 2**53 - 1}, True),
    ({"nbf": NOW + LEEWAY_S}, True),
    ({"nbf": NOW + LEEWAY_S + 1}, False),
    ({"iat": NOW + LEEWAY_S}, True),
    ({"iat": NOW + LEEWAY_S + 1}, False),
    ({"nbf": 0, "iat": 0}, True),
]


@pytest.mark.parametrize(("claims", "good"), TIMES)
def test_a_token_is_good_between_its_times_give_or_take_the_leeway(claims: dict[str, Any], good: bool) -> None:
    auth = authentication(leeway_s=LEEWAY_S)
    if good:
        assert auth.identify(bearer(CLAIMS | claims)).principal == "jwt::alice"
    else:
        refused(auth, bearer(CLAIMS | claims))


def test_an_end_too_far_ahead_is_refused_when_that_is_switched_on() -> None:
    auth = authentication(max_lifetime_s=900.0, leeway_s=30.0)
    assert auth.identify(bearer(CLAIMS | {"exp": NOW + 930})).principal == "jwt::alice"
    refused(auth, bearer(CLAIMS | {"exp": NOW + 931}))
    assert authentication().identify(bearer(CLAIMS | {"exp": NOW + 10**8})).principal == "jwt::alice"


AUDIENCES: list[tuple[Any, bool]] = [
    ("toolgate", True),
    ("other", True),
    (["toolgate"], True),
    (["elsewhere", "toolgate", 7], True),
    (None, True),  # null is absent
    ("elsewhere", False),
    ("", False),
    ([], False),
    (["elsewhere"], False),
    (["toolgate "], False),
    ([["toolgate"]], False),
    ({"toolgate": True}, False),
    (7, False),
]


@pytest.mark.parametrize(("audience", "good"), AUDIENCES)
def test_an_audience_is_checked_when_it_is_there(audience: Any, good: bool) -> None:
    auth = authentication(audience=frozenset({"toolgate", "other"}))
    token = handmade(HS256, CLAIMS | {"aud": audience})
    if good:
        assert auth.identify(token).principal == "jwt::alice"
    else:
        assert refused(auth, token).detail == "audience"


def test_an_absent_audience_is_good_and_one_that_was_not_configured_is_not() -> None:
    assert authentication(audience=frozenset({"toolgate"})).identify(bearer()).principal == "jwt::alice"
    refused(authentication(), bearer(CLAIMS | {"aud": "elsewhere"}))


@pytest.mark.parametrize("subject", ["", "x" * 257, "a\nb", "\ud800", 7, None, True, ["alice"], {"id": "alice"}])
def test_a_subject_is_a_text_of_bounded_length(subject: Any) -> None:
    refused(authentication(), handmade(HS256, CLAIMS | {"sub": subject}))


SCOPES: list[tuple[Any, frozenset[str]]] = [
    ("mail calc", frozenset({"mail", "calc"})),
    (["mail", 7, "calc"], frozenset({"mail", "calc"})),
    (" mail  calc ", frozenset({"mail", "calc"})),
    # RFC 6749, section 3.3: only U+0020 divides scopes; to others these are blanks as well.
    *((f"a{blank}mail", frozenset({f"a{blank}mail"})) for blank in "\u00a0\u2003\u3000\u2028\x85\t\n\x0b\x1f"),
    ("", frozenset()),
    (None, frozenset()),
    (7, frozenset()),
    ({"mail": True}, frozenset()),
]


@pytest.mark.parametrize(("claim", "scopes"), SCOPES)
def test_scopes_are_read_from_a_text_or_a_list(claim: Any, scopes: frozenset[str]) -> None:
    assert authentication(scope_claims=(("scp",),)).identify(bearer(CLAIMS | {"scp": claim})).scopes == scopes
