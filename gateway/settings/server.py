"""Settings of the process itself: listeners and their limits, logs, answers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.configfile.sections import Items, ListOf, Section, SomeOf, repeats, setting
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import Choice, Duration, Flag, Integer, Secret, Size, Text
from gateway.configfile.web import BaseUrl, HostName, Network, PageOrigin, ServerTlsSettings, is_loopback

HOST = "must be a host name or an IP address, without brackets and port"


def _check_host(text: str) -> str:
    """Refuses a host with a port: only an IPv6 address has colons, and perhaps a zone behind %."""
    if ":" in text or "%" in text:
        try:
            ipaddress.IPv6Address(text)
        except ValueError:
            raise InvalidValueError(HOST) from None
    return text


Host = Annotated[str, Text(r"[A-Za-z0-9_.:%-]{1,255}", HOST, _check_host)]
HOSTS = "The address to listen on, or several. `::` is every address of the machine, also over IPv4."
Port = Annotated[int, Integer(0, 65_535)]
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised, not bound

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


class AdminSettings(Section):
    """The listener for operators, with liveness and detailed health. Callers must not be able to reach it."""

    hosts: SomeOf[Host] = setting("127.0.0.1", HOSTS, alias="host")
    port: Port = setting(9464, "The port to listen on; 0 chooses a free one.")

    @property
    def host(self) -> str:
        """The first of the addresses."""
        return self.hosts[0]


def every_origin_and_others(origins: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds origins that are in the list already, and a `*` that is not alone."""
    yield from repeats(origins)
    if "*" in origins and len(origins) > 1:
        yield origins.index("*"), "stands for every origin, so it must stand alone"


class CorsSettings(Section):
    """Which web pages may call the gateway from a browser. Callers still need a credential."""

    origins: Annotated[tuple[PageOrigin, ...], Items(every_origin_and_others, at_least=1)] = setting(
        ..., "The exact origins of these pages. '*' alone admits every page."
    )
    credentials: Flag = setting(False, "Whether browsers may send cookies and client certificates of their own.")
    max_age_s: Annotated[float, Duration("0s", "1d")] = setting("10m", "How long browsers may remember the answer.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.credentials and "*" in self.origins:
            yield "credentials", "must not be true for every origin; list the origins"


class ServerSettings(Section):
    """The listener for callers, and its limits."""

    hosts: SomeOf[Host] = setting("127.0.0.1", HOSTS, alias="host")
    port: Port = setting(8080, "The port to listen on; 0 chooses a free one.")
    admin: AdminSettings = setting({}, "The listener for operators.")
    public_url: BaseUrl | None = setting(
        None,
        "The URL at which callers reach the gateway, for links in answers. By default, http://host:port with "
        "the first `host`, or https with `tls`.",
    )
    callback_url: BaseUrl | None = setting(
        None, "The URL at which tool servers reach the gateway to send results. By default, `public_url`."
    )
    workers: Annotated[int, Integer(1, 128)] = setting(
        1, "The number of processes that serve callers. More than one need `state.url`."
    )
    max_body_bytes: Annotated[int, Size("1KiB", "64MiB")] = setting(
        "1MiB", "The largest request body that is accepted."
    )
    max_memory_bodies_bytes: Annotated[int, Size("64MiB", "1024GiB")] = setting(
        "256MiB",
        "How much memory the bodies of requests and answers may take in each process. One caller gets a quarter of it.",
    )
    max_head_bytes: Annotated[int, Size("1KiB", "1MiB")] = setting(
        "32KiB", "The largest size of a request line with its headers."
    )
    max_connections: Annotated[int, Integer(1, 1_000_000)] | None = setting(
        None,
        "How many connections of callers may be open in each process. By default, 10000, or as many as open files "
        "allow.",
    )
    head_timeout_s: Annotated[float, Duration("100ms", "10m")] = setting(
        "10s", "How long receiving the request line and headers may take."
    )
    body_timeout_s: Annotated[float, Duration("100ms", "1h")] = setting(
        "30s", "How long receiving a request body may take."
    )
    idle_timeout_s: Annotated[float, Duration("100ms", "1h")] = setting(
        "75s", "How long an idle connection stays open."
    )
    tls: ServerTlsSettings | None = setting(
        None, "Certificates to serve https. By default, the listener serves plain http."
    )
    cors: CorsSettings | None = setting(None, "Which web pages may call the gateway from a browser. By default, none.")
    allowed_hosts: ListOf[HostName] = setting(
        [],
        "The host names that requests may be addressed to, in addition to those of `public_url` and "
        "`callback_url`. By default, any.",
    )
    trusted_proxies: ListOf[Network] = setting(
        [],
        "Networks of proxies whose `X-Forwarded-For` or `Forwarded` is believed. By default, the address of a "
        "caller is that of its connection.",
    )
    drain_delay_s: Annotated[float, Duration("0s", "10m")] = setting(
        "0s",
        "How long new calls are still accepted after the signal to stop, while /health says 503. This is for "
        "proxies that ask for /health rarely.",
    )
    shutdown_grace_s: Annotated[float, Duration("0s", "1h")] = setting(
        "30s", "How long running calls may continue when the gateway stops."
    )
    openapi: Flag = setting(True, "Whether /openapi.json describes the gateway's own API, to everybody.")

    @property
    def host(self) -> str:
        """The first of the addresses."""
        return self.hosts[0]

    @property
    def is_private(self) -> bool:
        """Whether only this machine reaches the listener."""
        return all(map(is_loopback, self.hosts))

    def problems(self) -> Iterator[tuple[str, str]]:
        ours, theirs = set(self.hosts), set(self.admin.hosts)
        if self.port and self.port == self.admin.port and (ours & theirs or EVERYWHERE & (ours | theirs)):
            yield "admin", "listens on the same host and port as the server"
        for name, hosts in (("hosts", self.hosts), ("admin.host", self.admin.hosts)):
            if "::" in hosts and len(hosts) > 1:
                yield name, "has :: beside other addresses, all of which it stands for"
        if self.max_memory_bodies_bytes < 4 * self.max_body_bytes:
            yield "max_memory_bodies_bytes", "must be at least four times max_body, for one caller gets a quarter of it"


class ReloadSettings(Section):
    """When this file is read again. The signal SIGHUP always has it read again."""

    watch: Flag = setting(
        False,
        "Whether the file is also read again when it, or a file that it names, changes. The gateway looks each second.",
    )


class LoggingSettings(Section):
    """What is written to standard error, and in which form."""

    level: Choice[LogLevel] = setting("info", "The lowest severity of the lines that are written.")
    format: Choice[LogFormat] = setting("json", "One JSON object per line, for programs, or text, for people.")


class MetricsSettings(Section):
    """What Prometheus sees, and who else may see it."""

    token: Annotated[SecretStr, Secret(characters=16, header=True)] | None = setting(
        None,
        "A bearer token for `/metrics` on the public listener. By default, only the listener for operators has "
        "`/metrics`.",
    )
    max_tools: Annotated[int, Integer(0, 100_000)] = setting(
        1000,
        "How many tools have counts of their own. All further tools share one. A lower number takes effect at the "
        "next start.",
    )


class UsageSettings(Section):
    """How calls are counted for `toolgate usage`, which prints them. The counts are in Redis."""

    keep_s: Annotated[float, Duration("1d", "4000d")] = setting("400d", "How long the counts of a day are stored.")
    flush_s: Annotated[float, Duration("1s", "10m")] = setting(
        "10s", "How often a process writes what it has counted. What it has not written is lost if it is killed."
    )
    max_rows: Annotated[int, Integer(100, 1_000_000)] = setting(
        10000,
        "How many counts are stored for a day: up to three for each tool that a key or an issuer has used. All "
        "further ones are those of one tool, named `other`.",
    )


class ErrorSettings(Section):
    """The status codes of refusals."""

    strict: Flag = setting(
        False,
        "Whether 401, 403, 413, 415 and 429 become 400, as the call-tool pages of OTC and OXP ask. It applies to "
        "calls, kept calls and lists.",
    )
