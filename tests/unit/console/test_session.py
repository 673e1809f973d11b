"""The cookies of the console: what opens, until when, and under which configuration."""

from __future__ import annotations

import pytest

from gateway.console.session import ATTEMPT_S, Cookies, LoginAttempt
from gateway.core.sealing import Sealer
from tests.support.authenticators import Clock

KEY, OTHER_KEY = "a key of 32 characters, or of more", "another key of 32 characters, or more"
SESSION_S = 3600.0


def cookies(clock: Clock, *keys: str, is_secure: bool = True, meant_for: tuple[str, ...] = ("a", "b")) -> Cookies:
    sealer = Sealer(keys or [KEY], "console")
    return Cookies(sealer, is_secure=is_secure, session_s=SESSION_S, meant_for=meant_for, clock=clock)


def value_of(header: tuple[str, str]) -> str:
    """The value of a cookie that is set."""
    assert header[0] == "set-cookie"
    return header[1].partition("=")[2].partition(";")[0]


def test_a_session_is_known_until_its_end() -> None:
    clock = Clock()
    ours = cookies(clock)
    value = value_of(ours.open_session("jwt:https://a.example:ada"))
    clock.now += SESSION_S - 1
    assert ours.principal(value) == "jwt:https://a.example:ada"
    clock.now += 1
    assert ours.principal(value) is None


def test_a_login_that_began_too_long_ago_is_not_known() -> None:
    clock, attempt = Clock(), LoginAttempt.begin()
    ours = cookies(clock)
    value = value_of(ours.begin(attempt))
    clock.now += ATTEMPT_S - 1
    assert ours.attempt(value) == attempt
    clock.now += 1
    assert ours.attempt(value) is None


def test_neither_cookie_passes_for_the_other() -> None:
    ours = cookies(Clock())
    assert ours.principal(value_of(ours.begin(LoginAttempt.begin()))) is None
    assert ours.attempt(value_of(ours.open_session("a\nb\nc"))) is None


@pytest.mark.parametrize("meant_for", [("a",), ("ab", ""), ("a", "b", ""), ("b", "a"), ("a\nb",)])
def test_a_session_holds_only_under_what_it_was_meant_for(meant_for: tuple[str, ...]) -> None:
    clock = Clock()
    value = value_of(cookies(clock).open_session("ada"))
    assert cookies(clock).principal(value) == "ada"
    assert cookies(clock, meant_for=meant_for).principal(value) is None


def test_keys_can_be_changed_without_ending_sessions() -> None:
    clock = Clock()
    value = value_of(cookies(clock).open_session("ada"))
    assert cookies(clock, OTHER_KEY, KEY).principal(value) == "ada"
    assert cookies(clock, OTHER_KEY).principal(value) is None


def test_only_over_https_do_cookies_have_the_prefix() -> None:
    safe, plain = cookies(Clock()), cookies(Clock(), is_secure=False)
    assert safe.session_name == f"__Host-{plain.session_name}"
    assert "Secure" in safe.open_session("ada")[1].split("; ")
    assert "Secure" not in plain.open_session("ada")[1].split("; ")


def test_the_challenge_is_that_of_the_specification() -> None:
    """Spec: RFC 7636, appendix B."""
    attempt = LoginAttempt("state", "nonce", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert attempt.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
