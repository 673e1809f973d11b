"""The issuers whose tokens are accepted, and their keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from gateway.auth.signatures import HS256, PublicKey, Verifier, with_key, with_secret


class Keys(Protocol):
    """What the signatures of one issuer are verified with; `algorithms` are the only ones it may sign with."""

    @property
    def algorithms(self) -> Collection[str]: ...

    def find(self, kid: object, algorithm: str) -> Verifier | None:
        """The key that a token's header asks for, as far as it may."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether there is no key yet."""
        ...

    @property
    def may_change(self) -> bool:
        """Whether `refresh` would ask, or wait for, the issuer."""
        ...

    async def refresh(self) -> None:
        """Has the issuer asked for its keys, unless that was done a moment ago; waits some seconds at most."""
        ...

    def start(self) -> None: ...

    async def aclose(self) -> None: ...


class FixedKeys:
    """Keys from the configuration. A token's `kid` does not matter: there is nothing to choose from."""

    is_empty = False
    may_change = False

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
        return cls((name, with_key(key, name)) for name in algorithms)

    def find(self, kid: object, algorithm: str) -> Verifier | None:
        return self._verifiers.get(algorithm)

    async def refresh(self) -> None:
        """There is no issuer to ask."""

    def start(self) -> None:
        """There is nothing to fetch."""

    async def aclose(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtIssuer:
    """One party whose tokens are accepted, `name` being its `iss`. Durations are in seconds.

    `scope_claim` and `user_id_claim` are paths into the claims.
    """

    keys: Keys
    name: str | None = None
    audience: frozenset[str] = frozenset()
    require: tuple[str, ...] = ("exp", "sub")
    scope_claim: tuple[str, ...] = ("scope",)
    user_id_claim: tuple[str, ...] | None = None
    leeway_s: float = 30.0
    max_lifetime_s: float | None = None
