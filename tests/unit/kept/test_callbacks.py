"""The tokens in callback URLs: which calls they are for, and who can have made them."""

from __future__ import annotations

import string

import pytest

from gateway.kept.callbacks import CallbackTokens
from gateway.state.sealing import Digester

OLD, NEW = "the key that was there before, of enough characters", "the key that replaces it, of enough characters too"
CALL = "0123456789abcdef0123456789abcdef01234567"
MIN_GUESSES = 2**128


def tokens(*keys: str, purpose: str = "callbacks") -> CallbackTokens:
    return CallbackTokens(Digester(keys, purpose))


def test_a_token_names_its_call_and_nobody_guesses_it() -> None:
    token = tokens(NEW).mint(CALL)
    assert tokens(NEW).key_of(token) == CALL
    chance, _, mac = token.removeprefix(f"{CALL}.").partition(".")
    assert set(chance + mac) <= set(string.hexdigits.lower())
    assert 16 ** len(chance) >= MIN_GUESSES
    assert 16 ** len(mac) >= MIN_GUESSES


def test_no_two_tokens_of_a_call_are_the_same() -> None:
    assert len({tokens(NEW).mint(CALL) for _ in range(100)}) == 100


def test_the_first_key_makes_and_all_open() -> None:
    before, both, after = tokens(OLD), tokens(NEW, OLD), tokens(NEW)
    assert both.key_of(before.mint(CALL)) == CALL
    assert after.key_of(both.mint(CALL)) == CALL
    assert before.key_of(both.mint(CALL)) is None
    assert after.key_of(before.mint(CALL)) is None


def test_without_keys_each_process_has_its_own() -> None:
    assert tokens().key_of(tokens().mint(CALL)) is None


def test_a_digest_for_another_purpose_is_no_token() -> None:
    assert tokens(NEW).key_of(tokens(NEW, purpose="calls").mint(CALL)) is None


def test_a_token_with_any_other_character_anywhere_is_not_ours() -> None:
    token = tokens(NEW).mint(CALL)
    for at, was in enumerate(token):
        for other in set(string.printable) - {was}:
            assert tokens(NEW).key_of(token[:at] + other + token[at + 1 :]) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", CALL, f"{CALL}.", f"{CALL}..", f"{CALL}.\u00e9", "\ufffd.a", f"{CALL}\u0660.a"]
)
def test_what_has_not_even_the_shape_of_a_token_is_not_ours(token: str) -> None:
    assert tokens(NEW).key_of(token) is None
