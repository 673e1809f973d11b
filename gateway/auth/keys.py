"""Keys that verify signatures (RFC 7518, RFC 8037, RFC 9864): from the configuration, or of a JWK set.

The operator chooses the algorithms, and the kind of a key decides which of them it is for, so that the header of a
token never turns one kind of key into another (RFC 8725, sections 2.1 and 3.1).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_der_x509_certificate
from jwt.algorithms import Algorithm

from gateway.core.model import Json

HS256 = "HS256"
SECRET_BYTES = 32  # RFC 7518, section 3.2: a key at least as long as the hash
RSA_BITS = range(2048, 8192 + 1)  # RFC 7518, section 3.3; a longer key costs a millisecond and more per token
MAX_NUMBER = 2048  # characters of one number of a JWK; the longest there can be, a modulus of 8192 bits, has 1366
MAX_KEYS = 100  # large issuers have ten; each takes some 100 us to read, on the loop that serves calls
MAX_KID = 256  # characters
MAX_TRIED = 16  # keys for one token; a check takes some 50 us, and anybody can send a token that names no key
LAST_TIME = 2**53  # seconds; beyond it doubles leave seconds out
# RFC 7518, section 6. A key set that publishes one of these has revealed its secret.
PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

NONE: frozenset[str] = frozenset()
FOR_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
FOR_CURVE = {"secp256r1": frozenset({"ES256"}), "secp384r1": frozenset({"ES384"}), "secp521r1": frozenset({"ES512"})}
# RFC 9864 names the curve, RFC 8037 does not; the algorithm is the same.
EDDSA = "EdDSA"
FOR_ED25519, FOR_ED448 = frozenset({EDDSA, "Ed25519"}), frozenset({EDDSA, "Ed448"})
FOR_EDWARDS = FOR_ED25519 | FOR_ED448

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
    algorithm = jwt.get_algorithm_by_name(EDDSA if name in FOR_EDWARDS else name)
    return Verifier(algorithm, algorithm.prepare_key(key))


def named_in_tokens(algorithms: Iterable[str]) -> frozenset[str]:
    """What tokens may call the algorithms that an operator lists: `EdDSA` stands for its curves, too."""
    listed = frozenset(algorithms)
    return listed | FOR_EDWARDS if EDDSA in listed else listed


def algorithms_for(key: object) -> frozenset[str]:
    """The algorithms a public key may be used with; none for one too weak, too costly or of another kind."""
    match key:
        case RSAPublicKey():
            return FOR_RSA if key.key_size in RSA_BITS else NONE
        case EllipticCurvePublicKey():
            return FOR_CURVE.get(key.curve.name, NONE)
        case Ed25519PublicKey():
            return FOR_ED25519
        case Ed448PublicKey():
            return FOR_ED448
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
            f"is of a kind that no algorithm uses; RSA keys have {RSA_BITS[0]} to {RSA_BITS[-1]} bits, "
            "elliptic curves are P-256, P-384, P-521, Ed25519 and Ed448"
        )
    return key


def read_jwk(jwk: Mapping[str, Any]) -> PublicKey:
    """Reads a JSON Web Key (RFC 7517) that has no private part. Raises UnfitKeyError."""
    kind = {"RSA": "RS256", "EC": "ES256", "OKP": EDDSA}.get(str(jwk.get("kty")))
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


class Keys:
    """What the signatures of one issuer are verified with. These, from the configuration, stay as they are.

    A token's `kid` does not matter to them: there is one key, once for each of `algorithms`.
    """

    def __init__(self, verifiers: Iterable[tuple[str, Verifier]]) -> None:
        self._verifiers = dict(verifiers)
        self.algorithms = frozenset(self._verifiers)

    @classmethod
    def secret(cls, secret: str) -> Self:
        """A secret shared with the issuer, for HS256. Raises UnfitKeyError."""
        return cls([(HS256, with_secret(secret))])

    @classmethod
    def public_key(cls, key: PublicKey, algorithms: Iterable[str]) -> Self:
        """Raises UnfitKeyError for an algorithm the key is not for."""
        listed = frozenset(algorithms)
        names = listed | (named_in_tokens(listed) & algorithms_for(key))
        return cls((name, with_key(key, name)) for name in names)

    def find(self, kid: object, algorithm: str) -> Sequence[Verifier]:
        """The keys that a token's header may mean, `MAX_TRIED` at most."""
        verifier = self._verifiers.get(algorithm)
        return () if verifier is None else (verifier,)

    def has(self, kid: object, algorithm: str) -> bool:
        """Whether there is a key of that very id, so that no other one can be meant."""
        return algorithm in self._verifiers

    @property
    def is_empty(self) -> bool:
        """Whether there is no key yet."""
        return False

    @property
    def may_change(self) -> bool:
        """Whether `refresh` would ask, or wait for, the issuer."""
        return False

    async def refresh(self) -> None:
        """Has the issuer asked for its keys, unless that was done a moment ago; waits some seconds at most."""

    def start(self) -> None:
        """Begins to keep the keys current, unless it does already."""

    async def aclose(self) -> None:
        """Stops that; the keys stay."""


class KeySetError(ValueError):
    """A document that is no key set, or one without a limit."""


class KeySet:
    """The keys that fit an issuer's algorithms, by what a token's header may ask for."""

    def __init__(self, keys: Sequence[tuple[str | None, str, Verifier]] = (), expires_at: float | None = None) -> None:
        """Takes triples of key id, algorithm and verifier.

        `expires_at` is when the last key expires, in seconds since 1970; None: one of them does not say.
        """
        self.expires_at = expires_at
        self._named: dict[tuple[str | None, str], list[Verifier]] = {}  # under None those without an id
        self._all: dict[str, list[Verifier]] = {}
        for kid, name, verifier in keys:
            self._named.setdefault((kid, name), []).append(verifier)
            self._all.setdefault(name, []).append(verifier)

    @classmethod
    def read(cls, document: Json, algorithms: Collection[str]) -> Self:
        """Reads `{"keys": [...]}`; keys that cannot be used are left out. Raises KeySetError."""
        entries = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            raise KeySetError("it is no JWK set")
        if len(entries) > MAX_KEYS:
            raise KeySetError(f"it has more than {MAX_KEYS} keys")
        found: list[tuple[str | None, str, Verifier]] = []
        expiries = []
        for entry in entries:
            jwk = {name: value for name, value in entry.items() if value is not None} if isinstance(entry, dict) else {}
            if _is_for_verifying(jwk) and (fitted := _fitted(jwk, algorithms)):
                found += fitted
                expiries.append(_expiry(jwk))
        said = [at for at in expiries if at is not None]
        return cls(found, max(said) if said and len(said) == len(expiries) else None)

    def find(self, kid: object, algorithm: str) -> Sequence[Verifier]:
        """The keys of that id, else those without one; for a token without an id, all that are for the algorithm.

        RFC 7517, section 4.5, leaves `kid` to the issuer. At most `MAX_TRIED`.
        """
        verifiers: Sequence[Verifier] = ()
        if isinstance(kid, str):
            verifiers = self._named.get((kid, algorithm)) or self._named.get((None, algorithm)) or ()
        elif kid is None:
            verifiers = self._all.get(algorithm, ())
        return verifiers[:MAX_TRIED]

    def has(self, kid: object, algorithm: str) -> bool:
        """Whether there is a key of that very id."""
        return isinstance(kid, str) and (kid, algorithm) in self._named

    @property
    def is_empty(self) -> bool:
        return not self._all

    @property
    def algorithms(self) -> frozenset[str]:
        """Those of which there is a key."""
        return frozenset(self._all)

    def __len__(self) -> int:
        """How many keys there are; one may be for several algorithms."""
        return len({id(verifier.key) for verifiers in self._all.values() for verifier in verifiers})


def _is_for_verifying(jwk: Mapping[str, Any]) -> bool:
    """RFC 7517, sections 4.2 and 4.3: both members are optional, but what they say holds; null says nothing."""
    if PRIVATE & jwk.keys() or jwk.get("use", "sig") != "sig":
        return False
    operations = jwk.get("key_ops", ["verify"])
    return isinstance(operations, list) and "verify" in operations


def _expiry(jwk: Mapping[str, Any]) -> float | None:
    """When a key expires by its own word (`exp`, OpenID Federation 1.0, section 8.7.2) or its certificate's.

    It is for operators alone: whether a token is good does not depend on it.
    """
    at, chain = jwk.get("exp"), jwk.get("x5c")
    if isinstance(at, int | float) and not isinstance(at, bool) and 0 < at < LAST_TIME:
        return float(at)
    if isinstance(chain, list) and chain and isinstance(chain[0], str):
        with suppress(ValueError):  # binascii.Error is one
            return load_der_x509_certificate(b64decode(chain[0])).not_valid_after_utc.timestamp()
    return None


def _fitted(jwk: Mapping[str, Any], algorithms: Collection[str]) -> list[tuple[str | None, str, Verifier]]:
    """The key, once for each of the algorithms it may be used with."""
    kid = jwk.get("kid")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KID):
        return []
    try:
        key = read_jwk(jwk)
    except UnfitKeyError:
        return []
    return [(kid, name, with_key(key, name)) for name in _used_with(key, jwk.get("alg")) if name in algorithms]


def _used_with(key: PublicKey, only: object) -> frozenset[str]:
    """The algorithms for the kind of a key, or the one that its `alg` names; both names of a curve's are the same."""
    fitting = algorithms_for(key)
    if only is None:
        return fitting
    if not isinstance(only, str) or only not in fitting:
        return NONE
    return fitting if only in FOR_EDWARDS else frozenset({only})
