"""Which bearer tokens are good: OXP 1.0, Security, and what RFC 8725 warns of."""

from __future__ import annotations

import base64
import gc
import tracemalloc
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.auth import NoAuthentication, Reason
from gateway.auth.authentication import CACHE_ENTRIES
from gateway.ports import ANONYMOUS, Caller
from gateway.wire import Head
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
    assert authentication().identify(bearer()) == Caller(principal="jwt::alice")


def test_a_colon_in_a_subject_cannot_pass_for_one_of_the_issuer() -> None:
    """Ours: `https://idp` with subject `8443:x` is not `https://idp:8443` with subject `x`."""
    auth = authentication(issuer(name="https://idp"), issuer(name="https://idp:8443"))
    one = auth.identify(bearer(CLAIMS | {"iss": "https://idp", "sub": "8443:x"})).principal
    other = auth.identify(bearer(CLAIMS | {"iss": "https://idp:8443", "sub": "x"})).principal
    assert (one, other) == ("jwt:https://idp:8443%3Ax", "jwt:https://idp:8443:x")


@pytest.mark.parametrize("subject", ["", "a\nb", "\ud800", "x" * 257])
def test_a_subject_that_no_log_could_show_is_refused(subject: str) -> None:
    """Ours."""
    refused(authentication(), bearer(CLAIMS | {"sub": subject}))


def test_the_issuer_is_part_of_the_principal() -> None:
    auth = authentication(name="https://issuer.example")
    claims = CLAIMS | {"iss": "https://issuer.example"}
    assert auth.identify(bearer(claims)).principal == "jwt:https://issuer.example:alice"


def test_the_handmade_tokens_of_these_tests_are_good_ones() -> None:
    assert authentication().identify(handmade(HS256, CLAIMS)).principal == "jwt::alice"


def test_without_authentication_everybody_is_anonymous_and_credentials_are_ignored() -> None:
    assert NoAuthentication().identify(with_header("Bearer garbage")) is ANONYMOUS
    assert NoAuthentication().identify(Head(method="GET", path="/tools", headers={})) is ANONYMOUS


def test_no_credential_is_told_how_to_send_one() -> None:
    error = refused(authentication(), Head(method="GET", path="/tools", headers={}))
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate"'),)
    assert (error.reason, error.attempted) == ("missing", False)


def test_a_refused_credential_is_told_no_more_than_that() -> None:
    expired, forged = (
        refused(authentication(), bearer(CLAIMS | {"exp": 1})),
        refused(authentication(), with_header("x")),
    )
    assert expired.message == forged.message
    assert (
        expired.headers == forged.headers == ((b"www-authenticate", b'Bearer realm="toolgate", error="invalid_token"'),)
    )
    assert (expired.detail, forged.detail) == ("expired", "header")


FORMS = ["bearer {}", "BEARER {}", "Bearer   {} "]


@pytest.mark.parametrize("form", FORMS)
def test_the_scheme_folds_case_and_blanks(form: str) -> None:
    token = bearer().headers[b"authorization"].decode().removeprefix("Bearer ")
    assert authentication().identify(with_header(form.format(token))).principal == "jwt::alice"


NO_BEARERS = [
    "",
    "x",
    "Bearer",
    "Bearer ",
    "Basic YTpi",
    "Token x",
    "Bearer x",
    "Bearer a.b",
    "Bearer a.b.c",
    "Bearer a.b.c.d",
    "Bearer ...",
    "Bearer a b c",
    "Bearer \xff.\xff.\xff",
    "Bearer " + "a" * 8193,
    "Bearer " + "e30." * 2000,
]


@pytest.mark.parametrize("value", NO_BEARERS, ids=lambda value: ascii(value)[:20])
def test_what_is_no_bearer_token_is_refused(value: str) -> None:
    refused(authentication(), with_header(value.encode("latin-1")))


def test_a_token_without_its_scheme_is_refused() -> None:
    refused(authentication(), with_header(bearer().headers[b"authorization"].removeprefix(b"Bearer ")))


@pytest.mark.parametrize("secret", [OTHER_SECRET, SECRET + "x", SECRET.upper()])
def test_a_token_signed_with_another_secret_is_refused(secret: str) -> None:
    refused(authentication(), bearer(key=secret))


def test_a_token_with_any_byte_of_its_signature_changed_is_refused() -> None:
    value = bearer().headers[b"authorization"]
    start = value.rindex(b".") + 1
    for at in range(start, len(value) - 1):  # the last character also holds two bits of nothing
        changed = b"A" if value[at : at + 1] != b"A" else b"B"
        refused(authentication(), with_header(value[:at] + changed + value[at + 1 :]))


def test_a_token_without_a_signature_is_refused() -> None:
    value = bearer().headers[b"authorization"]
    refused(authentication(), with_header(value[: value.rindex(b".") + 1]))
    refused(authentication(), with_header(f"Bearer {jwt.encode(CLAIMS, '', 'none')}"))


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", "HS384", "HS512", "RS256", "ES256", "EdDSA", "hs256"])
def test_the_header_does_not_choose_the_algorithm(name: str) -> None:
    refused(authentication(), handmade({"alg": name, "typ": "JWT"}, CLAIMS))


@pytest.mark.parametrize("header", [{}, {"alg": None}, {"alg": 7}, {"alg": ["HS256"]}, [], "HS256", b"{", b"\xff"])
def test_a_header_of_another_shape_is_refused(header: Any) -> None:
    refused(authentication(), handmade(header, CLAIMS))


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_with_the_right_secret_is_refused(algorithm: str) -> None:
    secret = SECRET * 2  # long enough for either
    token = bearer(key=secret, algorithm=algorithm)
    refused(authentication(issuer(secret)), token, Reason.ALGORITHM)


def test_neither_a_private_key_nor_its_public_half_is_a_secret() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    refused(authentication(), with_header(f"Bearer {jwt.encode(CLAIMS, key, 'RS256')}"))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    refused(authentication(), handmade(HS256, CLAIMS, key=public))


def test_headers_that_point_at_keys_are_ignored() -> None:
    pointing: dict[str, Any] = {
        "kid": "../../dev/null",
        "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/cert",
        "jwk": {"kty": "oct", "k": base64.urlsafe_b64encode(OTHER_SECRET.encode()).decode()},
    }
    assert authentication().identify(bearer(**pointing)).principal == "jwt::alice"
    refused(authentication(), bearer(key=OTHER_SECRET, **pointing))


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
def test_an_issuer_nobody_knows_is_refused(name: Any) -> None:
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


def test_bad_tokens_are_never_remembered() -> None:
    auth = authentication()
    token = bearer()
    caller = auth.identify(token)
    value = token.headers[b"authorization"]
    body = value[: value.rindex(b".") + 1]
    gc.collect()
    tracemalloc.start()
    for number in range(CACHE_ENTRIES):
        refused(auth, with_header(body + b"%043d" % number))
    gc.collect()  # what errors leave behind is not what is remembered
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000  # bytes; a hundred for each of them would already be more
    assert auth.identify(token) is caller  # nothing has pushed it out


def test_as_many_good_tokens_are_remembered_as_there_is_room_for() -> None:
    auth = authentication()
    first = handmade(HS256, CLAIMS | {"sub": "first"})
    second = handmade(HS256, CLAIMS | {"sub": "second"})
    callers = auth.identify(first), auth.identify(second)
    for number in range(CACHE_ENTRIES - 2):
        auth.identify(handmade(HS256, CLAIMS | {"sub": str(number)}))
    assert auth.identify(first) is callers[0]
    auth.identify(handmade(HS256, CLAIMS | {"sub": "one more"}))
    assert auth.identify(second) is callers[1]
    assert auth.identify(first) is not callers[0]  # verified longest ago, so it made room


def test_a_secret_is_not_shown() -> None:
    assert SECRET not in repr(FIRST)
