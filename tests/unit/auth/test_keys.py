"""Which keys are taken, and for what (RFC 7517, 7518, 8037, 7468); which of a published set are for which tokens."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from gateway.auth.keys import (
    FOR_RSA,
    MAX_TRIED,
    KeySet,
    UnfitKeyError,
    algorithms_for,
    read_jwk,
    read_pem,
    with_secret,
)
from tests.support.keys import jwk, private, private_pem, public, public_pem

KINDS = {
    "rsa": FOR_RSA,
    "p256": {"ES256"},
    "p384": {"ES384"},
    "p521": {"ES512"},
    "ed25519": {"EdDSA", "Ed25519"},
    "ed448": {"EdDSA", "Ed448"},
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
    with pytest.raises(UnfitKeyError, match="of a kind that no algorithm uses"):
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
        {"kty": ["RSA"]},
        {"n": 7},
        {"n": "!!"},
        {"n": "AQAB"},
        {"n": "A" * 4000},
        {"e": "AA"},
        {"kty": "EC", "crv": "P-999", "x": "AAAA", "y": "AAAA"},
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
    "text", [public_pem("rsa"), public_pem("ed25519"), private_pem("p256"), str(jwk("rsa")).replace("'", '"')]
)
def test_a_published_key_is_not_taken_for_a_secret(text: str) -> None:
    with pytest.raises(UnfitKeyError, match="not a shared secret"):
        with_secret(text)


def test_neither_a_secret_nor_a_key_is_shown() -> None:
    assert "tomato" not in repr(with_secret("tomato, tomato, tomato and potato"))


ALL = ("RS256", "PS256", "ES256", "EdDSA")


def key_set(*keys: Any, algorithms: tuple[str, ...] = ALL) -> KeySet:
    return KeySet.read({"keys": list(keys)}, algorithms)


def key_found(keys: KeySet, kid: object, algorithm: str) -> Any:
    """The only key that is meant; None for none or several."""
    found = keys.find(kid, algorithm)
    return found[0].key if len(found) == 1 else None


def keys_found(keys: KeySet, kid: object, algorithm: str) -> list[Any]:
    return [verifier.key for verifier in keys.find(kid, algorithm)]


def test_a_key_is_found_by_its_id_for_each_algorithm_it_is_for() -> None:
    keys = key_set(jwk("rsa", kid="r"), jwk("p256", kid="e"), jwk("ed25519", kid="d"))
    assert key_found(keys, "r", "RS256") == key_found(keys, "r", "PS256") == public("rsa")
    assert key_found(keys, "e", "ES256") == public("p256")
    assert key_found(keys, "d", "EdDSA") == public("ed25519")
    for kid, algorithm in (("r", "ES256"), ("e", "EdDSA"), ("d", "RS256"), ("x", "RS256"), ("", "RS256")):
        assert not keys.find(kid, algorithm)


def test_a_key_that_names_its_algorithm_is_for_no_other() -> None:
    keys = key_set(jwk("rsa", kid="r", alg="PS256"))
    assert keys.find("r", "PS256")
    assert not keys.find("r", "RS256")
    assert not key_set(jwk("rsa", kid="r"), algorithms=("RS256",)).find("r", "PS256")


@pytest.mark.parametrize("kid", [None, "r"])
def test_a_token_without_a_key_id_may_be_signed_with_any_key(kid: str | None) -> None:
    """Not specified: OpenID Connect Core, section 10.1, wants ids where there are several keys; issuers have none."""
    members: dict[str, Any] = {} if kid is None else {"kid": kid}
    one = jwk("rsa", **members)
    assert key_found(key_set(one, jwk("p256")), None, "RS256") == public("rsa")
    assert keys_found(key_set(one, jwk("rsa", 1)), None, "RS256") == [public("rsa"), public("rsa", 1)]
    assert not key_set().find(None, "RS256")


@pytest.mark.parametrize("kid", ["", "None", "x"])
def test_a_key_without_an_id_is_meant_where_no_key_has_the_id_of_a_token(kid: str) -> None:
    keys = key_set(jwk("rsa"), jwk("rsa", 1), jwk("rsa", kid="r"))
    assert keys_found(keys, kid, "RS256") == [public("rsa"), public("rsa", 1)]
    assert not keys.has(kid, "RS256")
    assert keys_found(keys, "r", "RS256") == [public("rsa")]
    assert keys.has("r", "RS256")


def test_only_some_keys_are_tried_for_one_token() -> None:
    assert len(key_set(*[jwk("rsa")] * 50).find(None, "RS256")) == MAX_TRIED


def test_two_keys_may_share_an_id_if_they_are_of_different_kinds() -> None:
    """RFC 7517, section 4.5."""
    keys = key_set(jwk("rsa", kid="k"), jwk("p256", kid="k"))
    assert (key_found(keys, "k", "RS256"), key_found(keys, "k", "ES256")) == (public("rsa"), public("p256"))


def test_two_keys_of_one_id_and_kind_are_both_tried() -> None:
    keys = key_set(jwk("rsa", 0, kid="k"), jwk("rsa", 1, kid="k"))
    assert keys_found(keys, "k", "RS256") == [public("rsa", 0), public("rsa", 1)]


ALL_EDWARDS = ("EdDSA", "Ed25519", "Ed448")


@pytest.mark.parametrize("named", [{}, {"alg": "EdDSA"}, {"alg": "Ed25519"}])
def test_a_key_on_a_curve_goes_by_the_name_of_the_curve_and_by_that_of_its_family(named: dict[str, Any]) -> None:
    """RFC 9864: `Ed25519` is what RFC 8037 calls `EdDSA`, with that curve."""
    keys = key_set(jwk("ed25519", kid="k", **named), algorithms=ALL_EDWARDS)
    assert key_found(keys, "k", "EdDSA") == key_found(keys, "k", "Ed25519") == public("ed25519")
    assert not keys.find("k", "Ed448")
    assert len(keys) == 1


def test_the_name_of_one_curve_is_not_that_of_another() -> None:
    assert not key_set(jwk("ed448", kid="k", alg="Ed25519"), algorithms=ALL_EDWARDS).find("k", "EdDSA")


UNUSED: dict[str, Any] = {
    "a shared secret": {"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "kid": "k"},
    "a private key": jwk("rsa", secret=True, kid="k"),
    "a private key on a curve": jwk("p256", secret=True, kid="k"),
    "a private Edwards key": jwk("ed25519", secret=True, kid="k"),
    "one exponent of a private key": jwk("rsa", kid="k", d="AQAB"),
    "one for encryption": jwk("rsa", kid="k", use="enc"),
    "one of an unknown use": jwk("rsa", kid="k", use=["sig"]),
    "one to sign with": jwk("rsa", kid="k", key_ops=["sign"]),
    "one to wrap keys with": jwk("rsa", kid="k", key_ops=["wrapKey"]),
    "one for nothing": jwk("rsa", kid="k", key_ops=[]),
    "one for no list": jwk("rsa", kid="k", key_ops="verify"),
    "one for another algorithm": jwk("rsa", kid="k", alg="RSA-OAEP"),
    "one for HMAC": jwk("rsa", kid="k", alg="HS256"),
    "one for an algorithm that is no text": jwk("rsa", kid="k", alg=["RS256"]),
    "one that is too short": jwk("short rsa", kid="k"),
    "one on another curve": jwk("k256", kid="k"),
    "one with a number for id": jwk("rsa", kid=7),
    "one with an endless id": jwk("rsa", kid="k" * 257),
    "one of an unknown type": {"kty": "AKP", "kid": "k"},
    "nothing": {},
    "no object": "rsa",
    "null": None,
}


@pytest.mark.parametrize("unused", UNUSED.values(), ids=UNUSED)
def test_a_key_that_must_not_be_used_is_left_out_and_the_others_stay(unused: Any) -> None:
    keys = key_set(unused, jwk("ed25519", kid="good"))
    for algorithm in ("RS256", "PS256", "ES256", "HS256"):
        assert not keys.find("k", algorithm)
        assert not keys.find(None, algorithm)
    assert key_found(keys, "good", "EdDSA") == public("ed25519")


@pytest.mark.parametrize(
    "use",
    [
        {"use": "sig"},
        {"key_ops": ["verify"]},
        {"key_ops": ["sign", "verify"]},
        {"alg": "RS256"},
        {"use": None, "key_ops": None, "alg": None, "x5c": None, "exp": None, "d": None},  # null says nothing
    ],
)
def test_a_key_that_says_what_it_is_for_is_used_for_that(use: dict[str, Any]) -> None:
    assert key_set(jwk("rsa", kid="k", **use)).find("k", "RS256")


@pytest.mark.parametrize("kid", [7, 1.5, True, [], {}, ["k"]])
def test_a_key_id_that_is_no_text_finds_nothing(kid: object) -> None:
    assert not key_set(jwk("rsa", kid="k")).find(kid, "RS256")


def certified(days: int, **members: Any) -> dict[str, Any]:
    """A key whose certificate is good for so many days from now on."""
    now, name = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer.example")])
    builder = x509.CertificateBuilder(name, name, public("rsa"), x509.random_serial_number())
    whole = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=days))
    der = whole.sign(private("rsa"), SHA256()).public_bytes(Encoding.DER)
    return jwk("rsa", x5c=[b64encode(der).decode()], **members)


SOON = 2_000_000_000.0
EXPIRIES: dict[str, tuple[list[Any], float | None]] = {
    "a key that says when": ([jwk("rsa", exp=SOON)], SOON),
    "several": ([jwk("rsa", kid="a", exp=SOON - 1), jwk("p256", kid="b", exp=SOON)], SOON),
    "one that does not say": ([jwk("rsa", exp=SOON), jwk("p256")], None),
    "one that is not for signatures": ([jwk("rsa", exp=SOON), jwk("rsa", use="enc")], SOON),
    "no number": ([jwk("rsa", exp="soon")], None),
    "no time": ([jwk("rsa", exp=10**400)], None),
    "no certificate": ([jwk("rsa", x5c=["AAAA"])], None),
    "no base64": ([jwk("rsa", x5c=["\ud800"])], None),
}


@pytest.mark.parametrize(("keys", "expires_at"), EXPIRIES.values(), ids=EXPIRIES)
def test_a_set_expires_with_its_last_key(keys: list[Any], expires_at: float | None) -> None:
    assert key_set(*keys).expires_at == expires_at


def test_the_certificate_of_a_key_says_when_it_expires() -> None:
    expected = (datetime.now(UTC) + timedelta(days=30)).timestamp()
    assert key_set(certified(30), certified(10)).expires_at == pytest.approx(expected, abs=60)
