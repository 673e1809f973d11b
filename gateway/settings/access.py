"""Settings of who may call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Literal, get_args

from gateway.auth.signatures import HS256, SECRET_BYTES, UnfitKeyError, algorithms_for, read_pem, with_secret
from gateway.settings.groups import ListOf, Section
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Choice, Duration, Flag, Leaf, Schema, SecretText, Text, or_substituted
from gateway.settings.reading import Written
from gateway.settings.secret import Secret
from gateway.settings.substitution import UnfitError
from gateway.settings.web import AuthorizationUrl, is_issuer_url

RegisteredClaim = Literal["exp", "sub", "iat", "nbf", "iss", "aud"]
SigningAlgorithm = Literal[
    "HS256", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
FETCHED = ("jwks_url", "discovery")  # where keys come from that are not in the file
SOURCES = ("secret", *FETCHED, "public_key")
OF_FETCHED = ("jwks_refresh", "jwks_cooldown")
NOBODY = (
    "exp",
    "iat",
    "nbf",
    "iss",
    "aud",
    "jti",
)  # registered claims that are the same for many users, or never twice
OF_NOTHING = sha256().digest()


class SharedSecret(SecretText):
    """A secret for HS256; never something that its owner publishes, such as a public key."""

    def __init__(self) -> None:
        super().__init__(bytes_=SECRET_BYTES)

    def parse(self, written: Written) -> Secret:
        secret = super().parse(written)
        try:
            with_secret(secret.reveal())
        except UnfitKeyError as exc:
            raise UnfitError(f"{exc}") from None
        return secret


class PublicKeyText(Leaf[str]):
    """A public key in PEM form; empty where it is missing and that is allowed."""

    noun = "public key in PEM"

    def parse(self, written: Written) -> str:
        try:
            read_pem(written.text)
        except UnfitKeyError as exc:
            raise UnfitError(str(exc)) from None
        return written.text

    def stand_in(self, raw: str) -> str:
        return ""

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string", "minLength": 1}


class KeyHash(Leaf[bytes]):
    """The SHA-256 digest of an API key, as `toolgate hash-key` prints it."""

    noun = "`sha256:` and 64 hexadecimal digits"
    PATTERN = "sha256:[0-9a-f]{64}"

    def parse(self, written: Written) -> bytes:
        if re.fullmatch(self.PATTERN, written.text) is None:
            raise UnfitError("must be sha256: and 64 hexadecimal digits, as toolgate hash-key prints it")
        digest = bytes.fromhex(written.text.removeprefix("sha256:"))
        if digest == OF_NOTHING:  # what is made of a variable that was not set, and would let in whoever sends nothing
            raise UnfitError("is the hash of nothing at all")
        return digest

    def stand_in(self, raw: str) -> bytes:
        return bytes(32)

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": or_substituted(self.PATTERN)}


@settings
class JwtSettings:
    """One issuer of tokens: a secret shared with it, or where its public keys are."""

    issuer: str | None = key(
        Text(),
        "The `iss` of its tokens; one entry with a secret may do without and takes tokens of any other issuer.",
        default=None,
    )
    secret: Secret | None = key(SharedSecret(), "The shared secret for HS256, at least 32 bytes.", default=None)
    jwks_url: str | None = key(AuthorizationUrl(), "Where it publishes its keys as a JWK set.", default=None)
    discovery: bool = key(
        Flag(), "Whether it says where its keys are: OpenID Connect Discovery, below its own URL.", default=False
    )
    public_key: str | None = key(PublicKeyText(), "Its public key in PEM form.", default=None)
    algorithms: tuple[SigningAlgorithm, ...] = key(
        ListOf(Choice(*get_args(SigningAlgorithm))),
        "What it signs with, and nothing else is accepted; with a secret always HS256, otherwise to be written out.",
        default=[],
    )
    audience: tuple[str, ...] = key(
        ListOf(Text()),
        "A token must name one of these. With a secret it may also have no `aud`, and must if the list is empty.",
        default=[],
    )
    require: tuple[RegisteredClaim, ...] = key(
        ListOf(Choice(*get_args(RegisteredClaim))),
        "Claims a token must have; exp and sub always.",
        default=["exp", "sub"],
    )
    scope_claim: str = key(
        Text(), "The claim that lists what the caller may use; dots lead into objects.", default="scope"
    )
    user_id_claim: str | None = key(
        Text(),
        "The claim that says which user calls; a token must have it, a call must name no other user, and what it says "
        "in `user_info` is not passed on.",
        default=None,
    )
    leeway_s: float = key(Duration("0s", "5m"), "By how much clocks may differ.", default="30s")
    max_lifetime_s: float | None = key(
        Duration("1s", "365d"), "How far ahead the end of a token may lie; farther is refused.", default=None
    )
    jwks_refresh_s: float = key(Duration("1s", "7d"), "How often its keys are fetched again.", default="5m")
    jwks_cooldown_s: float = key(
        Duration("1s", "1d"),
        "How often they are fetched at most for tokens with a key that is not known, and after a failure.",
        default="30s",
    )

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Keys that do not go together, and what would let a token in that is not for us."""
        missing = [claim for claim in ("exp", "sub") if claim not in self.require]
        if missing:
            yield "require", f"must also list {' and '.join(missing)}"
        if "aud" in self.require and not self.audience:
            yield "require", "lists aud, of which none is accepted without audience"
        if self.user_id_claim in NOBODY:
            yield "user_id_claim", f"must be a claim that says who the user is, which {self.user_id_claim} never does"
        sources = [name for name in SOURCES if getattr(self, name) not in (None, False)]
        if len(sources) != 1:
            at = sources[1] if sources else ""
            yield at, "must have exactly one of secret, jwks_url, discovery: true and public_key"
        else:
            yield from self._unlike_a_secret(sources[0]) if self.secret is None else self._unlike_a_key()
        if not any(name in sources for name in FETCHED):
            yield from ((name, "has no effect on keys that are not fetched") for name in OF_FETCHED if name in written)

    def _unlike_a_key(self) -> Iterator[tuple[str, str]]:
        if self.algorithms not in ((), (HS256,)):
            yield "algorithms", "must be HS256 alone, or left out, with a secret"

    def _unlike_a_secret(self, source: str) -> Iterator[tuple[str, str]]:
        """An issuer with public keys signs for many: its tokens must be for us, and algorithms fit the kind of key."""
        if self.issuer is None:
            yield source, "needs issuer beside it"
        elif self.discovery and not is_issuer_url(self.issuer):
            yield "issuer", "must be an https URL without query, because of discovery; http is for loopback only"
        if not self.audience:
            yield source, "needs audience beside it, or tokens for other services would be good here"
        if not self.algorithms:
            yield source, "needs algorithms beside it: those its tokens are signed with, such as [RS256]"
        elif HS256 in self.algorithms:
            yield "algorithms", "must not have HS256, which is for a secret; this issuer has public keys"
        elif self.public_key:
            fitting = algorithms_for(read_pem(self.public_key))
            if not fitting.issuperset(self.algorithms):
                yield "algorithms", f"must be of those the public key is for: {', '.join(sorted(fitting))}"


def issuers_that_clash(entries: Sequence[JwtSettings | None]) -> Iterator[tuple[int, str]]:
    """Finds entries among which a token could not choose."""
    seen: set[str | None] = set()
    for index, entry in enumerate(entries):
        if entry is None:
            continue
        if entry.issuer in seen:
            yield index, "has the issuer of an earlier entry" if entry.issuer else "has no issuer, as an earlier entry"
        seen.add(entry.issuer)


@settings
class ApiKeySettings:
    """One key that is accepted in the header `OXP-API-Key` or `OTC-API-Key`, or as a bearer token."""

    id: str = key(
        Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "must be letters, digits, and . _ -, at most 64"),
        "Whose it is; two keys may share an id, so that one can replace the other.",
    )
    hash: bytes = key(KeyHash(), "What toolgate hash-key prints for it.")
    scopes: tuple[str, ...] = key(ListOf(Text()), "What its owner may use.", default=[])


def keys_that_clash(entries: Sequence[ApiKeySettings | None]) -> Iterator[tuple[int, str]]:
    """Finds keys that would be two callers."""
    seen: set[bytes] = set()
    for index, entry in enumerate(entries):
        if entry is None:
            continue
        if entry.hash in seen and any(entry.hash):  # all zeros stand in for one that is missing
            yield index, "has the hash of an earlier entry"
        seen.add(entry.hash)


@settings
class AuthSettings:
    """How callers prove who they are: with tokens, with API keys, or some with one and some with the other."""

    jwt: tuple[JwtSettings, ...] | None = key(
        ListOf(Section(JwtSettings), at_least=1, check=issuers_that_clash),
        "Issuers of tokens that are accepted.",
        default=None,
    )
    api_keys: tuple[ApiKeySettings, ...] | None = key(
        ListOf(Section(ApiKeySettings), at_least=1, check=keys_that_clash), "API keys that are accepted.", default=None
    )

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Nobody could call."""
        if not self.jwt and not self.api_keys:
            yield "jwt", "must have jwt or api_keys; to let everybody in, write 'auth: none'"
