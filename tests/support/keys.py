"""Key pairs of every kind, made once, and their public halves as they are published."""

from __future__ import annotations

from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.auth import JwtIssuer, Keys

KINDS = {
    "RS256": "rsa",
    "RS384": "rsa",
    "RS512": "rsa",
    "PS256": "rsa",
    "PS384": "rsa",
    "PS512": "rsa",
    "ES256": "p256",
    "ES384": "p384",
    "ES512": "p521",
    "EdDSA": "ed25519",
}
CURVES: dict[str, ec.EllipticCurve] = {
    "p256": ec.SECP256R1(),
    "p384": ec.SECP384R1(),
    "p521": ec.SECP521R1(),
    "k256": ec.SECP256K1(),
}


def private(kind: str, number: int = 0) -> Any:
    """A private key of that kind; another `number` is another key."""
    return _made(kind, number)


@cache
def _made(kind: str, number: int) -> Any:
    match kind:
        case "rsa":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "short rsa":
            return rsa.generate_private_key(public_exponent=65537, key_size=1024)
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case "ed448":
            return ed448.Ed448PrivateKey.generate()
        case _:
            return ec.generate_private_key(CURVES[kind])


def public(kind: str, number: int = 0) -> Any:
    return private(kind, number).public_key()


def public_pem(kind: str, form: PublicFormat = PublicFormat.SubjectPublicKeyInfo) -> str:
    pem: bytes = public(kind).public_bytes(Encoding.PEM, form)
    return pem.decode()


def private_pem(kind: str) -> str:
    pem: bytes = private(kind).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def jwk(kind: str, number: int = 0, *, secret: bool = False, **members: Any) -> dict[str, Any]:
    """The key as a JWK, its private part only if `secret`."""
    key = private(kind, number) if secret else public(kind, number)
    if "rsa" in kind:
        body = RSAAlgorithm.to_jwk(key, as_dict=True)
    elif kind.startswith("ed"):
        body = OKPAlgorithm.to_jwk(key, as_dict=True)
    else:
        body = ECAlgorithm.to_jwk(key, as_dict=True)
    body.pop("key_ops", None)  # PyJWT's own addition
    return body | members


def issuer_with(kind: str, *algorithms: str, **settings: Any) -> JwtIssuer:
    """An issuer with one public key, from its PEM form's reader's point of view already read."""
    return JwtIssuer(keys=Keys.public_key(public(kind), algorithms), **settings)
