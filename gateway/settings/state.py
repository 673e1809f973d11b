"""Settings of what the gateway remembers: where, for how long, and how that is protected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import SecretStr

from gateway.configfile.sections import ListOf, Section, setting
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import Duration, Flag, Integer, Secret, Size
from gateway.configfile.web import TlsSettings, is_loopback
from gateway.redisclient.address import RedisAddress

VARIABLE = re.compile(r"\$\{[^}]*\}")
EXAMPLES = (
    "must be a URL such as redis://localhost:6379/0, rediss://user:password@host:6380/0, "
    "redis+sentinel://one:26379,two:26379/service/0 or redis+cluster://one:6379,two:6379; "
    "in a password, / is %2F, @ is %40 and % is %25"
)


class RedisUrl(Secret):
    """Where Redis is; a secret, because it may hold a password."""

    always_judged = True

    def holds_secret(self, raw: str) -> bool:
        """Whether the password is written out."""
        user_info, _, _ = VARIABLE.sub("", raw).partition("://")[2].rpartition("@")
        return bool(user_info.partition(":")[2])

    def stand_in(self, raw: str) -> SecretStr:
        """The URL as far as it is written in the file, else one that nothing can be wrong with."""
        known = VARIABLE.sub("missing", raw)
        try:
            RedisAddress.parse(known)
        except ValueError:
            return SecretStr("rediss+sentinel://localhost/missing")
        return SecretStr(known)


def _check_address(url: str) -> None:
    try:
        RedisAddress.parse(url)
    except ValueError:
        raise InvalidValueError(EXAMPLES) from None


class StateSettings(Section):
    """Where calls are stored, for how long, and how that is protected."""

    replaced: ClassVar[Mapping[str, str]] = {
        "on_failure": "was replaced by limits_on_failure at the top of the file, which says what becomes of rate "
        "limits while Redis is away; a call that has to be stored is always refused then, because it could run twice"
    }

    url: Annotated[SecretStr, RedisUrl(check=_check_address, title="Redis URL, a secret")] | None = setting(
        None,
        "A Redis server, its sentinels, or nodes of a Redis Cluster. With it, any replica can continue a call. By "
        "default, this process keeps calls in its memory.",
    )
    tls: TlsSettings | None = setting(
        None, "Certificates for a `url` that begins with rediss. By default, the authorities that the system trusts."
    )
    sentinel_password: Annotated[SecretStr, Secret()] | None = setting(None, "The password of the sentinels.")
    keys: ListOf[Annotated[SecretStr, Secret(characters=32)]] = setting(
        [],
        "Secrets of at least 32 characters, with which stored data is encrypted. The first one encrypts, and all "
        "of them decrypt, so that keys can be changed.",
    )
    insecure: Flag = setting(
        False, "Whether a Redis server on another machine may be used without TLS or without keys."
    )
    result_ttl_s: Annotated[float, Duration("1s", "7d")] = setting(
        "1h", "How long a result is stored for repeated calls."
    )
    pending_ttl_s: Annotated[float, Duration("1s", "30d")] = setting("1d", "The longest time that a call may take.")
    seen_ttl_s: Annotated[float, Duration("1s", "30d")] = setting(
        "1d",
        "How long the gateway remembers that a call has run after its result has expired. A repeated call is "
        "refused then.",
    )
    max_result_bytes: Annotated[int, Size("1KiB", "64MiB")] = setting(
        "1MiB",
        "The largest result that is stored. A larger result only reaches a caller that is waiting at the replica "
        "where it arrives.",
    )
    max_bytes: Annotated[int, Size("1MiB", "64GiB")] = setting(
        "256MiB", "How much memory stored calls may take in one process.", alias="max_bytes"
    )
    max_bytes_per_caller: Annotated[int, Size("64KiB", "64GiB")] | None = setting(
        None,
        "How much memory, here or in Redis, the calls of one caller may take. It is never more than what is still "
        "free. By default, half of `max_bytes`.",
    )
    max_pending_per_caller: Annotated[int, Integer(1, 1_000_000)] = setting(
        1000, "How many unfinished calls a caller may have."
    )
    max_records_per_caller: Annotated[int, Integer(1, 10_000_000)] = setting(
        10000, "How many finished calls of a caller are stored."
    )

    @property
    def quota_bytes(self) -> int:
        """`max_bytes_per_caller`, whether written or not."""
        return self.max_bytes // 2 if self.max_bytes_per_caller is None else self.max_bytes_per_caller

    @property
    def address(self) -> RedisAddress | None:
        """The url in its parts."""
        return None if self.url is None else RedisAddress.parse(self.url.get_secret_value())

    def problems(self) -> Iterator[tuple[str, str]]:
        address = self.address
        if address is not None and not (self.insecure or all(is_loopback(host) for host, _ in address.hosts)):
            if not self.keys:
                yield "url", "is on another machine, so set keys, which encrypt what is stored there, or insecure: true"
            if not address.is_tls:
                yield "url", "is on another machine, so it must begin with rediss for TLS; or set insecure: true"
        if self.tls is not None and (address is None or not address.is_tls):
            yield "tls", "has no effect unless url begins with rediss"
        if self.sentinel_password is not None and (address is None or address.service is None):
            yield "sentinel_password", "has no effect unless url names sentinels"
        if self.max_result_bytes > self.max_bytes:
            yield (
                ("max_result_bytes" if "max_result_bytes" in self.model_fields_set else "max_bytes"),
                "lets a result be larger than max_bytes",
            )
        if self.max_bytes_per_caller is not None and self.max_result_bytes > self.max_bytes_per_caller:
            yield "max_bytes_per_caller", "is less than max_result, one result"
        if address is None and self.quota_bytes > self.max_bytes:
            yield "max_bytes_per_caller", "is more than max_bytes, the room of all callers"
