"""What a tool server is shown."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from gateway.core.wire import Headers
from gateway.upstream.credentials import CACHED_SUBJECTS, Minted, credentials_of
from tests.unit.upstream.admitting import settings_of

SECRET = "shared with one tool server, 32 characters"
URL = "http://127.0.0.1:9"
NOW = 2_000_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def minted(clock: Clock, **keys: Any) -> Minted:
    settings = settings_of("otc", URL, auth={"jwt": {"secret": SECRET, **keys}})
    return Minted(settings.auth.jwt, clock)


def claims(headers: Headers) -> dict[str, Any]:
    ((name, value),) = headers
    assert name == b"authorization"
    token = value.removeprefix(b"Bearer ")
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_aud": False}  # the clock here is not the wall's
    return dict(jwt.decode(token, SECRET, algorithms=["HS256"], options=options))


FIXED: list[tuple[str, Any, Headers]] = [
    ("otc", None, ()),
    ("otc", {"bearer": "t0k"}, ((b"authorization", b"Bearer t0k"),)),
    ("otc", {"api_key": "k"}, ((b"otc-api-key", b"k"),)),
    ("oxp", {"api_key": "k"}, ((b"oxp-api-key", b"k"),)),
]


@pytest.mark.parametrize(("protocol", "auth", "headers"), FIXED)
def test_a_fixed_credential_is_the_same_for_everybody(protocol: str, auth: Any, headers: Headers) -> None:
    credentials = credentials_of(settings_of(protocol, URL, auth=auth))
    assert credentials("alice") == credentials("bob") == headers


def test_a_minted_token_says_who_calls_and_for_how_long() -> None:
    assert claims(minted(Clock(), audience="worker")("key:alice")) == {
        "iss": "toolgate",
        "aud": "worker",
        "sub": "key:alice",
        "iat": NOW,
        "exp": NOW + 60,
    }


def test_a_minted_token_of_a_fixed_subject_is_shared_and_leaves_out_what_is_not_configured() -> None:
    credentials = minted(Clock(), subject="toolgate")
    found = claims(credentials("key:alice"))
    assert found.keys() == {"iss", "sub", "iat", "exp"}
    assert found["sub"] == "toolgate"
    assert credentials("bob") is credentials("key:alice")


def test_a_minted_token_is_used_for_half_its_life() -> None:
    clock = Clock()
    credentials = minted(clock)
    first = credentials("alice")
    clock.now += 29.9
    assert credentials("alice") is first
    clock.now += 0.1
    second = credentials("alice")
    assert claims(second)["exp"] == NOW + 90
    assert credentials("alice") is second


def test_each_caller_has_a_token_of_its_own() -> None:
    credentials = minted(Clock())
    assert [claims(credentials(caller))["sub"] for caller in ("bob", "alice")] == ["bob", "alice"]


def test_only_so_many_tokens_are_kept() -> None:
    credentials = minted(Clock())
    first = credentials("first")
    for number in range(CACHED_SUBJECTS - 1):
        credentials(str(number))
    assert credentials("first") is first
    credentials("one more")
    assert credentials("first") is not first
