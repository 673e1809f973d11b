"""What a tool server is shown."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from gateway.backends.credentials import CACHED_SUBJECTS, Credentials, Fixed, Minted
from gateway.wire import Headers

SECRET = "shared with one tool server, 32 characters"
NOW = 2_000_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def minted(clock: Clock, **settings: Any) -> Minted:
    defaults: dict[str, Any] = {"issuer": "toolgate", "audience": "worker", "subject": "principal", "ttl_s": 60.0}
    return Minted(SECRET, **defaults | settings, clock=clock)


def claims(headers: Headers) -> dict[str, Any]:
    ((name, value),) = headers
    assert name == b"authorization"
    token = value.removeprefix(b"Bearer ")
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_aud": False}  # the clock here is not the wall's
    return dict(jwt.decode(token, SECRET, algorithms=["HS256"], options=options))


FIXED: list[tuple[Credentials, Headers]] = [
    (Fixed(), ()),
    (Fixed.bearer("t0k"), ((b"authorization", b"Bearer t0k"),)),
    (Fixed.api_key("otc", "k"), ((b"otc-api-key", b"k"),)),
    (Fixed.api_key("oxp", "k"), ((b"oxp-api-key", b"k"),)),
]


@pytest.mark.parametrize(("credentials", "headers"), FIXED)
def test_a_fixed_credential_is_the_same_for_everybody(credentials: Credentials, headers: Headers) -> None:
    assert credentials.headers("alice") == credentials.headers("bob") == headers


def test_a_minted_token_says_who_calls_and_for_how_long() -> None:
    assert claims(minted(Clock()).headers("key:alice")) == {
        "iss": "toolgate",
        "aud": "worker",
        "sub": "key:alice",
        "iat": NOW,
        "exp": NOW + 60,
    }


def test_a_minted_token_leaves_out_what_is_not_configured() -> None:
    found = claims(minted(Clock(), issuer=None, audience=None, subject="toolgate").headers("key:alice"))
    assert found.keys() == {"sub", "iat", "exp"}
    assert found["sub"] == "toolgate"


def test_a_minted_token_is_used_for_half_its_life() -> None:
    clock = Clock()
    credentials = minted(clock)
    first = credentials.headers("alice")
    clock.now += 29.9
    assert credentials.headers("alice") is first
    clock.now += 0.1
    second = credentials.headers("alice")
    assert claims(second)["exp"] == NOW + 90
    assert credentials.headers("alice") is second


def test_each_caller_has_a_token_of_its_own() -> None:
    credentials = minted(Clock())
    assert claims(credentials.headers("bob"))["sub"] == "bob"
    assert claims(credentials.headers("alice"))["sub"] == "alice"


def test_all_callers_share_the_token_of_a_fixed_subject() -> None:
    credentials = minted(Clock(), subject="toolgate")
    assert credentials.headers("bob") is credentials.headers("alice")


def test_only_so_many_tokens_are_kept() -> None:
    credentials = minted(Clock())
    first = credentials.headers("first")
    for number in range(CACHED_SUBJECTS - 1):
        credentials.headers(str(number))
    assert credentials.headers("first") is first
    credentials.headers("one more")
    assert credentials.headers("first") is not first
