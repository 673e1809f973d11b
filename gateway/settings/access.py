"""Settings of who may call, and of the keys that seal what the gateway hands out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, get_args

from gateway.settings.groups import ListOf, Section
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Choice, Duration, Flag, Integer, SecretText, Size, Text
from gateway.settings.secret import Secret
from gateway.settings.web import RedisUrl, is_local_redis

RegisteredClaim = Literal["exp", "sub", "iat", "nbf", "iss", "aud"]
HS256_BYTES = 32  # RFC 7518, section 3.2: a key at least as long as the hash


@settings
class JwtSettings:
    """One issuer of tokens, signed with HS256 and a secret shared with it."""

    secret: Secret = key(SecretText(bytes_=HS256_BYTES), "The shared secret, at least 32 bytes.")
    issuer: str | None = key(
        Text(), "The `iss` of its tokens; one entry may do without and takes tokens of any other issuer.", default=None
    )
    audience: tuple[str, ...] = key(
        ListOf(Text()), "A token that has `aud` must name one of these; empty: it must not have `aud`.", default=[]
    )
    require: tuple[RegisteredClaim, ...] = key(
        ListOf(Choice(*get_args(RegisteredClaim))),
        "Claims a token must have; exp and sub always.",
        default=["exp", "sub"],
    )
    scope_claim: str = key(Text(), "The claim that lists what the caller may use.", default="scope")
    leeway_s: float = key(Duration("0s", "5m"), "By how much clocks may differ.", default="30s")
    max_lifetime_s: float | None = key(
        Duration("1s", "365d"), "How far ahead the end of a token may lie; farther is refused.", default=None
    )

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """A token without an end or without a subject is never good."""
        missing = [claim for claim in ("exp", "sub") if claim not in self.require]
        if missing:
            yield "require", f"must also list {' and '.join(missing)}"


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
class AuthSettings:
    """How callers prove who they are."""

    jwt: tuple[JwtSettings, ...] = key(
        ListOf(Section(JwtSettings), at_least=1, check=issuers_that_clash), "Issuers of tokens that are accepted."
    )


@settings
class StateSettings:
    """Where calls are remembered, for how long, and how that is protected."""

    url: Secret | None = key(
        RedisUrl(),
        "A Redis server, so that any replica may go on with a call; without it, this process remembers by itself.",
        default=None,
    )
    keys: tuple[Secret, ...] = key(
        ListOf(SecretText(characters=32)),
        "Secrets of at least 32 characters: the first seals, all of them open, so that keys can be changed.",
        default=[],
    )
    insecure: bool = key(
        Flag(), "Whether a Redis server elsewhere may be used without TLS or without keys.", default=False
    )
    result_ttl_s: float = key(Duration("1s", "7d"), "How long a result is kept for repetitions.", default="1h")
    pending_ttl_s: float = key(Duration("1s", "30d"), "How long a call may take at the most.", default="1d")
    seen_ttl_s: float = key(
        Duration("1s", "30d"),
        "How long a call whose result is gone is still known, so as not to run again.",
        default="1d",
    )
    max_result_bytes: int = key(Size("1KiB", "64MiB"), "The largest result that is kept.", default="1MiB")
    max_bytes: int = key(Size("1MiB", "64GiB", unit=""), "How much a process keeps in memory.", default="256MiB")
    max_pending_per_caller: int = key(
        Integer(1, 1_000_000), "How many unfinished calls a caller may have.", default=1000
    )
    max_records_per_caller: int = key(
        Integer(1, 10_000_000), "How many calls are remembered for a caller, finished ones included.", default=10000
    )

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """What others could read or forge on its way to Redis must be sealed, and the way closed."""
        if self.url is None or self.insecure or is_local_redis(self.url.reveal()):
            return
        if not self.keys:
            yield "url", "is elsewhere, so keys must be set to seal what is kept there, or insecure: true"
        if not self.url.reveal().startswith("rediss://"):
            yield "url", "is elsewhere, so it must begin with rediss:// for TLS, or insecure: true be set"
