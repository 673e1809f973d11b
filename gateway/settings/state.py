"""Settings of what the gateway remembers: where, for how long, and how that is protected."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar

from gateway.settings.groups import ListOf, Section
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Duration, Flag, Integer, SecretText, Size
from gateway.settings.reading import Written
from gateway.settings.secret import Secret
from gateway.settings.substitution import UnfitError
from gateway.settings.tls import TlsSettings
from gateway.settings.web import is_loopback
from gateway.state.address import Address

VARIABLE = re.compile(r"\$\{[^}]*\}")
EXAMPLES = (
    "must be a URL such as redis://localhost:6379/0, rediss://user:password@host:6380/0 or "
    "redis+sentinel://one:26379,two:26379/service/0; in a password, / is %2F, @ is %40 and % is %25"
)


class RedisUrl(SecretText):
    """Where Redis is; a secret, because it may hold a password."""

    noun = "Redis URL, a secret"
    judged_anyway = True

    def parse(self, written: Written) -> Secret:
        secret = super().parse(written)
        try:
            Address.parse(secret.reveal())
        except ValueError:
            raise UnfitError(EXAMPLES) from None
        return secret

    def stand_in(self, raw: str) -> Secret:
        """The URL as far as it is written in the file, else one that nothing can be wrong with."""
        known = VARIABLE.sub("missing", raw)
        try:
            Address.parse(known)
        except ValueError:
            return Secret("rediss+sentinel://localhost/missing")
        return Secret(known)


@settings
class StateSettings:
    """Where calls are remembered, for how long, and how that is protected."""

    replaced: ClassVar[Mapping[str, str]] = {
        "on_failure": "was replaced by limits_on_failure at the top of the file, which says what becomes of rate "
        "limits while Redis is away; a call that must be remembered is always refused then, because it could run twice"
    }

    url: Secret | None = key(
        RedisUrl(),
        "A Redis server or the sentinels of one, so that any replica may go on with a call; without it, this process "
        "remembers by itself.",
        default=None,
    )
    tls: TlsSettings | None = key(
        Section(TlsSettings), "Certificates for a url that begins with rediss; left out, the system's.", default=None
    )
    sentinel_password: Secret | None = key(
        SecretText(), "What the sentinels of the url want to hear; left out, nothing.", default=None
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
    max_result_bytes: int = key(
        Size("1KiB", "64MiB"),
        "The largest result that is kept; a larger one reaches only who waits where it arrives.",
        default="1MiB",
    )
    max_bytes: int = key(Size("1MiB", "64GiB", unit=""), "How much a process keeps in memory.", default="256MiB")
    max_bytes_per_caller: int | None = key(
        Size("64KiB", "64GiB", unit=""),
        "How much of that, or of Redis, the calls of one caller may take, which is never more than is still free; left "
        "out, half of max_bytes.",
        default=None,
    )
    max_pending_per_caller: int = key(
        Integer(1, 1_000_000), "How many unfinished calls a caller may have.", default=1000
    )
    max_records_per_caller: int = key(
        Integer(1, 10_000_000), "How many finished calls are remembered for a caller.", default=10000
    )

    @property
    def quota_bytes(self) -> int:
        """`max_bytes_per_caller`, whether written or not."""
        return self.max_bytes // 2 if self.max_bytes_per_caller is None else self.max_bytes_per_caller

    @property
    def address(self) -> Address | None:
        """The url in its parts."""
        return None if self.url is None else Address.parse(self.url.reveal())

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """What others could read or forge on its way to Redis must be sealed, and the way closed."""
        address = self.address
        if address is not None and not (self.insecure or all(is_loopback(host) for host, _ in address.hosts)):
            if not self.keys:
                yield "url", "is elsewhere, so keys must be set to seal what is kept there, or insecure: true"
            if not address.is_tls:
                yield "url", "is elsewhere, so it must begin with rediss for TLS, or insecure: true be set"
        if self.tls is not None and (address is None or not address.is_tls):
            yield "tls", "has no effect unless url begins with rediss"
        if self.sentinel_password is not None and (address is None or address.service is None):
            yield "sentinel_password", "has no effect unless url names sentinels"
        if self.max_result_bytes > self.max_bytes:
            yield ("max_result" if "max_result" in written else "max_bytes"), "lets a result be larger than max_bytes"
        if self.max_bytes_per_caller is not None and self.max_result_bytes > self.max_bytes_per_caller:
            yield "max_bytes_per_caller", "is less than max_result, one result"
        if address is None and self.quota_bytes > self.max_bytes:
            yield "max_bytes_per_caller", "is more than max_bytes, the room of all callers"
