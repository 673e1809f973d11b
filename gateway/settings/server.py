"""Settings of the process itself: listeners and their limits, logs, answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, get_args

from gateway.settings.groups import ListOf, Section, repeats
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Choice, Duration, Flag, Integer, SecretText, Size, Text
from gateway.settings.secret import Secret
from gateway.settings.tls import ServerTlsSettings
from gateway.settings.web import BaseUrl, HostName, Network, PageOrigin

HOST = Text(r"[A-Za-z0-9_.:%-]{1,255}", "must be a host name or an IP address, without brackets and port")
PORT = Integer(0, 65535)
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised, not bound

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


@settings
class AdminSettings:
    """The listener for operators: liveness and detailed health. Keep it away from callers."""

    host: str = key(HOST, "The address to listen on.", default="127.0.0.1")
    port: int = key(PORT, "The port to listen on; 0 takes a free one.", default=9464)


def every_origin_and_others(origins: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds origins that are in the list already, and a `*` that is not alone."""
    yield from repeats(origins)
    if "*" in origins and len(origins) > 1:
        yield origins.index("*"), "stands for every origin, so it must stand alone"


@settings
class CorsSettings:
    """Which web pages may call from a browser. Who may call at all is for credentials to say."""

    origins: tuple[str, ...] = key(
        ListOf(PageOrigin(), at_least=1, check=every_origin_and_others),
        "The origins of those pages, each exactly; '*' alone lets every page call.",
    )
    credentials: bool = key(
        Flag(), "Whether browsers may send cookies and client certificates of their own.", default=False
    )
    max_age_s: float = key(
        Duration("0s", "1d"), "How long a browser need not ask again what is allowed.", default="10m"
    )

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Every page on the web would act with what the browser has of its user (Fetch Standard forbids it, too)."""
        if self.credentials and "*" in self.origins:
            yield "credentials", "must not be true for every origin; list the origins"


@settings
class ServerSettings:
    """The listener for callers, and what it spends on each of them at most."""

    host: str = key(HOST, "The address to listen on.", default="127.0.0.1")
    port: int = key(PORT, "The port to listen on; 0 takes a free one.", default=8080)
    admin: AdminSettings = key(Section(AdminSettings), "The listener for operators.", default={})
    public_url: str | None = key(
        BaseUrl(),
        "The URL at which callers reach the gateway, used in links it hands out; left out, http://host:port, or https "
        "with tls.",
        default=None,
    )
    callback_url: str | None = key(
        BaseUrl(), "What tool servers reach to bring results; left out, the public URL.", default=None
    )
    workers: int = key(
        Integer(1, 128), "How many processes serve callers; more than one share what state.url leads to.", default=1
    )
    max_body_bytes: int = key(Size("1KiB", "64MiB"), "The largest request body that is accepted.", default="1MiB")
    max_memory_bodies_bytes: int = key(
        Size("64MiB", "1024GiB"),
        "How much memory bodies and answers may hold in each process; one caller gets a quarter of it.",
        default="256MiB",
    )
    max_head_bytes: int = key(
        Size("1KiB", "1MiB"), "The largest request head, which is request line and headers.", default="32KiB"
    )
    max_connections: int = key(Integer(1, 1_000_000), "How many callers may be connected at a time.", default=10000)
    head_timeout_s: float = key(
        Duration("100ms", "10m"), "How long a caller may take to send the head of a request.", default="10s"
    )
    body_timeout_s: float = key(
        Duration("100ms", "1h"), "How long a caller may take to send the body of a request.", default="30s"
    )
    idle_timeout_s: float = key(
        Duration("100ms", "1h"), "How long a connection stays open between two requests.", default="75s"
    )
    tls: ServerTlsSettings | None = key(Section(ServerTlsSettings), "Serves https; left out, plain http.", default=None)
    cors: CorsSettings | None = key(
        Section(CorsSettings), "Which web pages may call from a browser; left out, none.", default=None
    )
    allowed_hosts: tuple[str, ...] = key(
        ListOf(HostName()),
        "The only hosts that requests may name, besides those of public_url and callback_url; left out, any.",
        default=[],
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = key(
        ListOf(Network()),
        "Networks of proxies whose X-Forwarded-For or Forwarded tells who calls; left out, the peer itself does.",
        default=[],
    )
    drain_delay_s: float = key(
        Duration("0s", "10m"),
        "How long after the signal to stop new calls are still taken while /health says 503, for proxies that look "
        "rarely.",
        default="0s",
    )
    shutdown_grace_s: float = key(
        Duration("0s", "1h"), "How long running calls may take to finish after the signal to stop.", default="30s"
    )
    openapi: bool = key(Flag(), "Whether /openapi.json describes this surface to anybody who asks.", default=True)

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Two listeners on one port: the second would not start."""
        ours, theirs = self.host, self.admin.host
        if self.port and self.port == self.admin.port and (ours == theirs or EVERYWHERE & {ours, theirs}):
            yield "admin", "listens on the same host and port as the server"
        if self.max_memory_bodies_bytes < 4 * self.max_body_bytes:
            yield "max_memory_bodies", "must be at least four times max_body, for one caller gets a quarter of it"


@settings
class ReloadSettings:
    """When the file is read again. SIGHUP always has it read."""

    watch: bool = key(
        Flag(),
        "Whether it is also read when it changes, or a file that it names; looked at every second.",
        default=False,
    )


@settings
class LoggingSettings:
    """What is written to standard error, and how."""

    level: LogLevel = key(Choice(*get_args(LogLevel)), "The least severe lines that are written.", default="info")
    format: LogFormat = key(
        Choice(*get_args(LogFormat)), "One JSON object per line for machines, or text for people.", default="json"
    )


@settings
class MetricsSettings:
    """What Prometheus gets to see, and who else does."""

    token: Secret | None = key(
        SecretText(characters=16, header=True),
        "A bearer token with which the public listener shows the metrics, too; left out, only the admin listener does.",
        default=None,
    )
    max_tools: int = key(
        Integer(0, 100_000),
        "How many tools are counted apart; all further ones are counted together. A lower number takes effect at the "
        "next start.",
        default=1000,
    )


@settings
class ErrorSettings:
    """How refusals are told to callers."""

    strict: bool = key(
        Flag(),
        "Whether 401, 403, 413, 415 and 429 of calls, kept calls and lists become the 400 the call-tool pages ask for.",
        default=False,
    )
