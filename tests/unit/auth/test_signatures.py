"""Which keys are taken, and for what: RFC 7517, 7518, 8037 and the forms of RFC 7468."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PublicFormat

from gateway.auth.keys import FOR_RSA, UnfitKeyError, algorithms_for, read_jwk, read_pem, with_secret
from tests.support.keys import jwk, private, private_pem, public, public_pem

KINDS = {
    "rsa": FOR_RSA,
    "p256": {"ES256"},
    "p384": {"ES384"},
    "p521": {"ES512"},
    "ed25519": {"EdDSA"},
    "ed448": {"EdDSA"},
}
UNFIT = ("short rsa", "k256")


@pytest.mark.parametrize(("kind", "names"), KINDS.items(), ids=KINDS)
def test_a_key_is_for_the_algorithms_of_its_kind(kind: str, names: set[str]) -> None:
    assert algorithms_for(public(kind)) == names
    assert read_pem(public_pem(kind)) == read_jwk(jwk(kind)) == public(kind)


@pytest.mark.parametrize("kind", UNFIT)
def test_a_weak_or_unusual_key_is_for_nothing(kind: str) -> None:
    """RFC 7518, section 3.3: 2048 bits at least. secp256k1 is of another registry entry, ES256K."""
    assert algorithms_for(public(kind)) == set()
    with pytest.raises(UnfitKeyError, match="of a kind no algorithm takes"):
        read_pem(public_pem(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_key_is_for_nothing(kind: str) -> None:
    assert algorithms_for(private(kind)) == set()
    with pytest.raises(UnfitKeyError, match="is a private key"):
        read_pem(private_pem(kind))
    with pytest.raises(UnfitKeyError, match="no public key"):
        read_jwk(jwk(kind, secret=True))


def test_the_older_form_of_an_rsa_key_is_read_too() -> None:
    assert read_pem(public_pem("rsa", PublicFormat.PKCS1)) == public("rsa")


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\nMIIB\n", "\0é"])
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(UnfitKeyError, match=r"^is no public key in PEM form, which begins with"):
        read_pem(text)


@pytest.mark.parametrize(
    "members",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": "AKP"},
        {"kty": None},
        {"kty": ["RSA"]},
        {"n": ""},
        {"n": 7},
        {"n": None},
        {"n": "!!"},
        {"n": "AQAB"},
        {"n": "A" * 4000},
        {"e": "AA"},
        {"e": "Ag"},
        {"e": {}},
    ],
    ids=repr,
)
def test_a_broken_jwk_is_unfit_or_for_nothing(members: dict[str, Any]) -> None:
    try:
        key = read_jwk(jwk("rsa") | members)
    except UnfitKeyError:
        return
    assert algorithms_for(key) == set()


@pytest.mark.parametrize(
    "members", [{"crv": "P-384"}, {"crv": "P-999"}, {"crv": 1}, {"x": "AAAA"}, {"y": None}, {"x": "é"}], ids=repr
)
def test_a_broken_jwk_of_a_curve_is_unfit(members: dict[str, Any]) -> None:
    with pytest.raises(UnfitKeyError):
        read_jwk(jwk("p256") | members)


def test_a_point_that_is_not_on_its_curve_is_unfit() -> None:
    one, other = jwk("p256", 0), jwk("p256", 1)
    with pytest.raises(UnfitKeyError):
        read_jwk(one | {"y": other["y"]})


@pytest.mark.parametrize(
    "text", [public_pem("rsa"), public_pem("ed25519"), private_pem("p256"), str(jwk("rsa")).replace("'", '"')]
)
def test_a_published_key_is_not_taken_for_a_secret(text: str) -> None:
    with pytest.raises(UnfitKeyError, match="not a shared secret"):
        with_secret(text)


def test_neither_a_secret_nor_a_key_is_shown() -> None:
    assert "tomato" not in repr(with_secret("tomato, tomato, tomato and potato"))
