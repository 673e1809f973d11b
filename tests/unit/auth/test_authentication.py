"""Which bearer tokens are good: OXP 1.0, Security, and what RFC 8725 warns of."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from gateway.auth import Reason
from gateway.core.ports import Caller
from tests.support.authenticators import (
    CLAIMS,
    HS256,
    NOW,
    OTHER_SECRET,
    SECRET,
    Clock,
    authentication,
    bearer,
    handmade,
    issuer,
    refused,
    with_header,
)


def test_a_good_token_names_its_caller() -> None:
    assert authentication().identify(bearer()) == Caller(principal="jwt::alice", account="jwt")


def test_a_colon_in_a_subject_cannot_pass_for_one_of_the_issuer() -> None:
    """Not specified: `https://idp` with subject `8443:x` is not `https://idp:8443` with subject `x`."""
    auth = authentication(issuer(name="https://idp"), issuer(name="https://idp:8443"))
    one = auth.identify(bearer(CLAIMS | {"iss": "https://idp", "sub": "8443:x"})).principal
    other = auth.identify(bearer(CLAIMS | {"iss": "https://idp:8443", "sub": "x"})).principal
    assert (one, other) == ("jwt:https://idp:8443%3Ax", "jwt:https://idp:8443:x")


@pytest.mark.parametrize("form", ["bearer {}", "BEARER {}", "Bearer   {} "])
def test_the_scheme_folds_case_and_blanks(form: str) -> None:
    token = bearer().headers[b"authorization"].decode().removeprefix("Bearer ")
    assert authentication().identify(with_header(form.format(token))).principal == "jwt::alice"


@pytest.mark.parametrize("secret", [OTHER_SECRET, SECRET + "x", SECRET.upper()])
def test_a_token_signed_with_another_secret_is_refused(secret: str) -> None:
    refused(authentication(), bearer(key=secret))


def test_a_token_without_a_signature_is_refused() -> None:
    value = bearer().headers[b"authorization"]
    refused(authentication(), with_header(value[: value.rindex(b".") + 1]))
    refused(authentication(), with_header(f"Bearer {jwt.encode(CLAIMS, '', 'none')}"))


NO_HEADERS: list[Any] = [{}, [], "HS256", b"{", b"\xff"]
OTHER_WORDS: list[Any] = [None, 7, ["HS256"], {}, "none", "None", "", "HS384", "RS256", "EdDSA", "hs256", "HS256 "]


@pytest.mark.parametrize("header", [*NO_HEADERS, *({"alg": word} for word in OTHER_WORDS)])
def test_the_header_does_not_choose_the_algorithm(header: Any) -> None:
    refused(authentication(), handmade(header, CLAIMS))


FIRST = issuer(name="https://first.example")
SECOND = issuer(OTHER_SECRET, name="https://second.example", audience=frozenset({"second"}))
ANY_SECRET = "the third secret, 32 characters long"
ANY = issuer(ANY_SECRET)


def test_each_issuer_answers_for_its_own_tokens_alone() -> None:
    auth = authentication(FIRST, SECOND)
    first, second = CLAIMS | {"iss": FIRST.name}, CLAIMS | {"iss": SECOND.name}
    assert auth.identify(bearer(first)).principal == "jwt:https://first.example:alice"
    assert auth.identify(bearer(second, OTHER_SECRET)).principal == "jwt:https://second.example:alice"
    refused(auth, bearer(second))
    refused(auth, bearer(first, OTHER_SECRET))
    refused(auth, bearer(second | {"aud": "first"}, OTHER_SECRET))


@pytest.mark.parametrize(
    "name", [None, "", "https://third.example", "https://first.example/", 7, ["https://first.example"]]
)
def test_an_unknown_issuer_is_refused(name: Any) -> None:
    claims = CLAIMS if name is None else CLAIMS | {"iss": name}
    assert refused(authentication(FIRST, SECOND), handmade(HS256, claims)).detail == "issuer"


def test_an_entry_without_an_issuer_takes_the_tokens_of_any_other() -> None:
    auth = authentication(FIRST, ANY)
    assert auth.identify(bearer(CLAIMS, ANY_SECRET)).principal == "jwt::alice"
    refused(auth, bearer(CLAIMS | {"iss": FIRST.name}, ANY_SECRET))
    for name in ("https://third.example", "https://fourth.example"):  # whose alices are not the same
        caller = auth.identify(bearer(CLAIMS | {"iss": name}, ANY_SECRET))
        assert caller.principal == f"jwt:{name}:alice"


@pytest.mark.parametrize("name", ["", 7, True, ["a"], "a\nb", "x" * 257])
def test_an_entry_without_an_issuer_takes_no_issuer_without_a_name(name: Any) -> None:
    refused(authentication(FIRST, ANY), handmade(HS256, CLAIMS | {"iss": name}, ANY_SECRET.encode()), Reason.CLAIM)


def test_a_verified_token_is_remembered_for_a_minute_and_never_past_its_end() -> None:
    clock = Clock()
    auth = authentication(clock=clock, leeway_s=0.0)
    token = bearer(CLAIMS | {"exp": NOW + 100})
    caller = auth.identify(token)
    clock.now += 59
    assert auth.identify(token) is caller
    clock.now += 1
    again = auth.identify(token)
    assert again is not caller
    assert again == caller
    clock.now = NOW + 99
    assert auth.identify(token) is again
    clock.now = NOW + 100
    refused(auth, token)


def test_a_token_is_remembered_by_all_of_it() -> None:
    auth = authentication()
    value = bearer().headers[b"authorization"]
    auth.identify(with_header(value))
    refused(auth, with_header(value + b"A"))
    refused(auth, with_header(value[:-1]))


def test_as_many_good_tokens_are_remembered_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.auth.authentication.CACHE_ENTRIES", 10)
    auth = authentication()
    first = handmade(HS256, CLAIMS | {"sub": "first"})
    second = handmade(HS256, CLAIMS | {"sub": "second"})
    callers = auth.identify(first), auth.identify(second)
    for number in range(8):
        auth.identify(handmade(HS256, CLAIMS | {"sub": str(number)}))
    assert auth.identify(first) is callers[0]
    auth.identify(handmade(HS256, CLAIMS | {"sub": "one more"}))
    assert auth.identify(second) is callers[1]
    assert auth.identify(first) is not callers[0]  # verified longest ago, so it made room
