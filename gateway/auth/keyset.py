"""A JSON Web Key Set as an issuer publishes it (RFC 7517, section 5), less what must not be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from gateway.auth.signatures import PublicKey, UnfitKeyError, Verifier, algorithms_for, read_jwk, with_key
from gateway.model import Json

MAX_KEYS = 100  # large issuers have ten; each takes some 100 us to read, on the loop that serves calls
MAX_KID = 256  # characters
# RFC 7518, section 6. Whoever publishes one of these has no secret any more.
PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class KeySetError(ValueError):
    """A document that is no key set, or one without a limit."""


class KeySet:
    """The keys that fit an issuer's algorithms, by what a token's header may ask for."""

    def __init__(self, keys: Sequence[tuple[str | None, str, Verifier]] = ()) -> None:
        """Takes triples of key id, algorithm and verifier; of two with one id and algorithm the first counts."""
        self._named = {(kid, name): verifier for kid, name, verifier in reversed(keys) if kid is not None}
        self._all: dict[str, list[Verifier]] = {}
        for _, name, verifier in keys:
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
        for entry in entries:
            if isinstance(entry, dict) and _is_for_verifying(entry):
                found += _fitted(entry, algorithms)
        return cls(found)

    def find(self, kid: object, algorithm: str) -> Verifier | None:
        """The key of that id; for a token without one, the only key there is (OpenID Connect Core, section 10.1)."""
        if isinstance(kid, str):
            return self._named.get((kid, algorithm))
        fitting = self._all.get(algorithm, ())
        return fitting[0] if kid is None and len(fitting) == 1 else None

    @property
    def is_empty(self) -> bool:
        return not self._all

    def __len__(self) -> int:
        """How many pairs of a key and an algorithm there are."""
        return sum(map(len, self._all.values()))


def _is_for_verifying(jwk: Mapping[str, Any]) -> bool:
    """RFC 7517, sections 4.2 and 4.3: both members are optional, but what they say holds."""
    if PRIVATE & jwk.keys() or jwk.get("use", "sig") != "sig":
        return False
    operations = jwk.get("key_ops", ["verify"])
    return isinstance(operations, list) and "verify" in operations


def _fitted(jwk: Mapping[str, Any], algorithms: Collection[str]) -> list[tuple[str | None, str, Verifier]]:
    """The key, once for each of the algorithms it may be used with."""
    kid, only = jwk.get("kid"), jwk.get("alg")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KID):
        return []
    try:
        key: PublicKey = read_jwk(jwk)
    except UnfitKeyError:
        return []
    names = (name for name in algorithms if only in (None, name))
    return [(kid, name, with_key(key, name)) for name in names if name in algorithms_for(key)]
