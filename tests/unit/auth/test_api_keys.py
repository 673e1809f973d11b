"""API keys: which header, whose, and never beside another credential (OXP 1.0, Security)."""

from __future__ import annotations

import hashlib

import pytest

from gateway.auth import ApiKey, Authentication, Reason
from gateway.core.ports import Caller
from gateway.core.wire import Head
from tests.support.authenticators import Clock, authentication, bearer, issuer, refused, with_header, without_header

KEY, OTHER = "a-key-that-cannot-be-guessed", "another-key-that-cannot-be-guessed"


def api_key(key: str, name: str, *scopes: str) -> ApiKey:
    return ApiKey(id=name, digest=hashlib.sha256(key.encode()).digest(), scopes=frozenset(scopes))


KEYS = (api_key(KEY, "nightly", "calc"), api_key(OTHER, "mailer", "mail", "calc"))
NIGHTLY = Caller(principal="key:nightly", account="key:nightly", scopes=frozenset({"calc"}))
MAILER = Caller(principal="key:mailer", account="key:mailer", scopes=frozenset({"mail", "calc"}))


def keys_only() -> Authentication:
    return Authentication([], KEYS, clock=Clock())


def keys_and_tokens() -> Authentication:
    return authentication(issuer(), api_keys=KEYS)


either = pytest.mark.parametrize("auth", [keys_only(), keys_and_tokens()], ids=["keys only", "keys and tokens"])


@either
@pytest.mark.parametrize(
    ("head", "caller"),
    [
        (without_header(oxp_api_key=KEY), NIGHTLY),
        (without_header(otc_api_key=KEY), NIGHTLY),
        (without_header(otc_api_key=OTHER), MAILER),
        (with_header(f"Bearer {KEY}"), NIGHTLY),
        (with_header(f"bearer  {OTHER} "), MAILER),
    ],
)
def test_a_key_names_its_owner_in_either_header_and_as_a_bearer_token(
    auth: Authentication, head: Head, caller: Caller
) -> None:
    """Spec: OXP 1.0 and OTC 1.0 each name a header. Both official clients send `Authorization: Bearer` instead."""
    assert auth.identify(head) == auth.identify(head) == caller


@either
@pytest.mark.parametrize(
    "wrong", ["", "x", KEY[:-1], KEY + "x", KEY.upper(), f" {KEY}", f"Bearer {KEY}", "\xff", "x" * 20000]
)
def test_another_key_is_refused_and_counts_as_a_guess(auth: Authentication, wrong: str) -> None:
    assert refused(auth, without_header(oxp_api_key=wrong), Reason.API_KEY).attempted


def test_a_digest_is_no_key() -> None:
    refused(keys_only(), without_header(oxp_api_key=hashlib.sha256(KEY.encode()).hexdigest()), Reason.API_KEY)


@either
def test_a_wrong_key_as_a_bearer_token_is_refused_and_counts_as_a_guess(auth: Authentication) -> None:
    assert refused(auth, with_header(f"Bearer {KEY}x"), Reason.API_KEY).attempted


@either
@pytest.mark.parametrize(
    "head",
    [
        without_header(oxp_api_key=KEY, otc_api_key=KEY),
        without_header(oxp_api_key=KEY, otc_api_key=OTHER),
        with_header(f"Bearer {KEY}", oxp_api_key=KEY),
        with_header("Bearer x", otc_api_key=KEY),
        with_header("", oxp_api_key=KEY),
        with_header("Basic YTpi", oxp_api_key=KEY),
        with_header(bearer().headers[b"authorization"], oxp_api_key=KEY),
        with_header(bearer().headers[b"authorization"], oxp_api_key=""),
    ],
)
def test_two_credentials_are_refused_even_if_both_are_good(auth: Authentication, head: Head) -> None:
    """Not specified: the gateway would have to guess whose call it is."""
    error = refused(auth, head, Reason.SEVERAL)
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate", error="invalid_request"'),)
    assert not error.attempted


def test_without_any_credential_the_answer_says_what_to_send() -> None:
    error = refused(keys_only(), without_header(), Reason.MISSING)
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate"'),)


def test_where_no_key_is_configured_one_beside_a_good_token_is_a_second_credential() -> None:
    auth = authentication(issuer())
    token = bearer()
    auth.identify(token)
    error = refused(auth, with_header(token.headers[b"authorization"], oxp_api_key=KEY), Reason.SEVERAL)
    assert str(error) == "Send only one credential: a bearer token."


def test_where_no_key_is_configured_a_key_alone_gets_what_to_send_and_is_no_guess() -> None:
    """Spec: RFC 6750, section 3.1: no error code for a method that is not supported."""
    error = refused(authentication(issuer()), without_header(otc_api_key=KEY), Reason.HEADER)
    assert str(error) == "API keys are not accepted here: send a bearer token."
    assert error.headers == ((b"www-authenticate", b'Bearer realm="toolgate"'),)
    assert not error.attempted


@pytest.mark.parametrize(
    ("auth", "sentence"),
    [
        (keys_only(), "Authentication is needed: send an API key."),
        (keys_and_tokens(), "Authentication is needed: send a bearer token or an API key."),
        (authentication(issuer()), "Authentication is needed: send a bearer token."),
    ],
)
def test_a_refusal_names_only_credentials_that_are_accepted(auth: Authentication, sentence: str) -> None:
    assert str(refused(auth, without_header(), Reason.MISSING)) == sentence


def test_two_keys_of_one_owner_are_one_caller() -> None:
    """Not specified: so that a key can be replaced without becoming somebody else."""
    auth = Authentication([], [api_key(KEY, "nightly", "calc"), api_key(OTHER, "nightly", "calc")], clock=Clock())
    assert auth.identify(without_header(oxp_api_key=KEY)) == auth.identify(without_header(oxp_api_key=OTHER)) == NIGHTLY


def test_a_key_as_a_bearer_token_is_remembered_like_a_token() -> None:
    auth = keys_only()
    head = with_header(f"Bearer {KEY}")
    assert auth.identify(head) is auth.identify(head)
