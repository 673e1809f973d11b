"""Which claims make a token good: its times, audiences, subject and scopes (RFC 7519, section 4.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.authenticators import CLAIMS, HS256, NOW, authentication, bearer, handmade, refused


@pytest.mark.parametrize("claims", [[], "alice", 7, None, b"{", b"", b"\xff", b"[" * 3000, b'{"exp":' + b"9" * 5000])
def test_claims_of_another_shape_are_refused(claims: Any) -> None:
    refused(authentication(), handmade(HS256, claims))


@pytest.mark.parametrize("missing", ["exp", "sub"])
def test_a_token_needs_an_end_and_a_subject(missing: str) -> None:
    refused(authentication(), bearer({key: value for key, value in CLAIMS.items() if key != missing}))


def test_further_claims_can_be_required() -> None:
    auth = authentication(require=("exp", "sub", "iat"))
    refused(auth, bearer())
    assert auth.identify(bearer(CLAIMS | {"iat": NOW})).principal == "jwt::alice"


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


def test_an_absent_audience_is_accepted() -> None:
    assert authentication(audience=frozenset({"toolgate"})).identify(bearer()).principal == "jwt::alice"


def test_an_audience_nobody_was_told_to_expect_is_refused() -> None:
    refused(authentication(), bearer(CLAIMS | {"aud": "elsewhere"}))


@pytest.mark.parametrize("subject", ["", "x" * 257, 7, None, True, ["alice"], {"id": "alice"}])
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
    assert authentication(scope_claim=("scp",)).identify(bearer(CLAIMS | {"scp": claim})).scopes == scopes
