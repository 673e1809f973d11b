"""Which keys verify which signatures: the algorithms of RFC 7518 and RFC 8037 that tokens may be signed with.

The operator chooses the algorithms, and what kind a key is decides which of them it is for. What the header of a token
says only picks among keys that were fitted to an algorithm here, so it can never turn one kind of key into another
(RFC 8725, sections 2.1 and 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import Algorithm

HS256 = "HS256"
SECRET_BYTES = 32  # RFC 7518, section 3.2: a key at least as long as the hash
RSA_BITS = range(2048, 8192 + 1)  # RFC 7518, section 3.3; a longer key costs a millisecond and more per token
MAX_NUMBER = 2048  # characters of one number of a JWK; the longest there can be, a modulus of 8192 bits, has 1366
NONE: frozenset[str] = frozenset()
FOR_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
FOR_CURVE = {
    "secp256r1": frozenset({"ES256"}),
    "secp384r1": frozenset({"ES384"}),
    "secp521r1": frozenset({"ES512"}),
}
FOR_EDWARDS = frozenset({"EdDSA"})

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey


class UnfitKeyError(ValueError):
    """A key that is not one, or not one for this; says why without showing it."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """One key and the one algorithm it is used with here."""

    algorithm: Algorithm
    key: Any = field(repr=False)

    def accepts(self, signed: bytes, signature: bytes) -> bool:
        """Whether the signature is over these bytes and was made with our key, or its private half."""
        return self.algorithm.verify(signed, self.key, signature)


def with_secret(secret: str) -> Verifier:
    """Verifies HS256. Raises UnfitKeyError for text that is a public key, a certificate or a JWK."""
    algorithm = jwt.get_algorithm_by_name(HS256)
    try:
        return Verifier(algorithm, algorithm.prepare_key(secret))
    except jwt.InvalidKeyError:
        raise UnfitKeyError("is an asymmetric key, a certificate or a JWK, not a shared secret") from None


def with_key(key: PublicKey, name: str) -> Verifier:
    """Verifies one of the algorithms the key is for. Raises UnfitKeyError."""
    if name not in algorithms_for(key):
        raise UnfitKeyError(f"is not for {name}")
    algorithm = jwt.get_algorithm_by_name(name)
    return Verifier(algorithm, algorithm.prepare_key(key))


def algorithms_for(key: object) -> frozenset[str]:
    """The algorithms a public key may be used with; none for one too weak, too costly or of another kind."""
    match key:
        case RSAPublicKey():
            return FOR_RSA if key.key_size in RSA_BITS else NONE
        case EllipticCurvePublicKey():
            return FOR_CURVE.get(key.curve.name, NONE)
        case Ed25519PublicKey() | Ed448PublicKey():
            return FOR_EDWARDS
        case _:
            return NONE


def read_pem(text: str) -> PublicKey:
    """Reads `-----BEGIN PUBLIC KEY-----` or `BEGIN RSA PUBLIC KEY`. Raises UnfitKeyError."""
    if "PRIVATE KEY-----" in text:
        raise UnfitKeyError("is a private key; only its public half belongs here")
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise UnfitKeyError("is no public key in PEM form, which begins with -----BEGIN PUBLIC KEY-----") from None
    if not isinstance(key, PublicKey) or not algorithms_for(key):
        raise UnfitKeyError(
            f"is of a kind no algorithm takes; RSA keys have {RSA_BITS[0]} to {RSA_BITS[-1]} bits, "
            "elliptic curves are P-256, P-384, P-521, Ed25519 and Ed448"
        )
    return key


def read_jwk(jwk: Mapping[str, Any]) -> PublicKey:
    """Reads a JSON Web Key (RFC 7517) that has no private part. Raises UnfitKeyError."""
    kind = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}.get(str(jwk.get("kty")))
    if kind is None:
        raise UnfitKeyError("is not asymmetric")
    if any(len(str(jwk.get(number, ""))) > MAX_NUMBER for number in ("n", "e", "x", "y")):
        raise UnfitKeyError("is too long")
    try:
        # The algorithm only names the family here; which ones the key is for is decided by `algorithms_for`.
        key = jwt.PyJWK(dict(jwk), kind).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, UnsupportedAlgorithm):
        raise UnfitKeyError("cannot be read") from None
    if not isinstance(key, PublicKey):
        raise UnfitKeyError("is no public key")
    return key
