"""Settings of the process itself: listeners and their limits, logs, answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.settings.sections import Items, ListOf, Section, repeats, setting
from gateway.settings.values import Choice, Duration, Flag, Integer, Secret, Size, Text
from gateway.settings.web import BaseUrl, HostName, Network, PageOrigin, ServerTlsSettings

Host = Annotated[
    str, Text(r"[A-Za-z0-9_.:%-]{1,255}", "must be a host name or an IP address, without brackets and port")
]
Port = Annotated[int, Integer(0, 65_535)]
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised, not bound

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


class AdminSettings(Section):
    """The listener for operators: liveness and detailed health. Keep it away from callers."""

    host: Host = setting("127.0.0.1", "The address to listen on.")
    port: Port = setting(9464, "The port to listen on; 0 takes a free one.")


def every_origin_and_others(origins: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds origins that are in the list already, and a `*` that is not alone."""
    yield from repeats(origins)
    if "*" in origins and len(origins) > 1:
        yield origins.index("*"), "stands for every origin, so it must stand alone"


class CorsSettings(Section):
    """Which web pages may call from a browser. Who may call at all is for credentials to say."""

    origins: Annotated[tuple[PageOrigin, ...], Items(every_origin_and_others, at_least=1)] = setting(
        ..., "The origins of those pages, each exactly; '*' alone lets every page call."
    )
    credentials: Flag = setting(False, "Whether browsers may send cookies and client certificates of their own.")
    max_age_s: Annotated[float, Duration("0s", "1d")] = setting("10m", "How long browsers may remember this.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.credentials and "*" in self.origins:
            yield "credentials", "must not be true for every origin; list the origins"


class ServerSettings(Section):
    """The listener for callers, and what it spends on each of them at most."""

    host: Host = setting("127.0.0.1", "The address to listen on.")
    port: Port = setting(8080, "The port to listen on; 0 takes a free one.")
    admin: AdminSettings = setting({}, "The listener for operators.")
    public_url: BaseUrl | None = setting(
        None,
        "The URL at which callers reach the gateway, used in links it hands out; left out, http://host:port, or https "
        "with tls.",
    )
    callback_url: BaseUrl | None = setting(None, "What tool servers reach to bring results; left out, the public URL.")
    workers: Annotated[int, Integer(1, 128)] = setting(1, "How many processes serve callers; several share state.url.")
    max_body_bytes: Annotated[int, Size("1KiB", "64MiB")] = setting("1MiB", "The largest request body accepted.")
    max_memory_bodies_bytes: Annotated[int, Size("64MiB", "1024GiB")] = setting(
        "256MiB", "How much memory bodies and answers may hold in each process; one caller gets a quarter of it."
    )
    max_head_bytes: Annotated[int, Size("1KiB", "1MiB")] = setting("32KiB", "The largest request line with headers.")
    max_connections: Annotated[int, Integer(1, 1_000_000)] | None = setting(
        None,
        "How many callers may be connected to each worker; left out, 10000, or as many as open files allow.",
    )
    head_timeout_s: Annotated[float, Duration("100ms", "10m")] = setting("10s", "How long a request head may take.")
    body_timeout_s: Annotated[float, Duration("100ms", "1h")] = setting("30s", "How long a request body may take.")
    idle_timeout_s: Annotated[float, Duration("100ms", "1h")] = setting("75s", "How long an idle connection is open.")
    tls: ServerTlsSettings | None = setting(None, "Serves https; left out, plain http.")
    cors: CorsSettings | None = setting(None, "Which web pages may call from a browser; left out, none.")
    allowed_hosts: ListOf[HostName] = setting(
        [], "The only hosts that requests may name, besides those of public_url and callback_url; left out, any."
    )
    trusted_proxies: ListOf[Network] = setting(
        [], "Networks of proxies whose X-Forwarded-For or Forwarded is believed; left out, the peer is the caller."
    )
    drain_delay_s: Annotated[float, Duration("0s", "10m")] = setting(
        "0s",
        "How long after the signal to stop new calls are still taken while /health says 503, for proxies that look "
        "rarely.",
    )
    shutdown_grace_s: Annotated[float, Duration("0s", "1h")] = setting("30s", "How long calls may run when stopping.")
    openapi: Flag = setting(True, "Whether /openapi.json describes this surface, without credentials.")

    def problems(self) -> Iterator[tuple[str, str]]:
        ours, theirs = self.host, self.admin.host
        if self.port and self.port == self.admin.port and (ours == theirs or EVERYWHERE & {ours, theirs}):
            yield "admin", "listens on the same host and port as the server"
        if self.max_memory_bodies_bytes < 4 * self.max_body_bytes:
            yield "max_memory_bodies_bytes", "must be at least four times max_body, for one caller gets a quarter of it"


class ReloadSettings(Section):
    """When the file is read again. SIGHUP always has it read."""

    watch: Flag = setting(False, "Whether it is also read when it or a file it names changes; checked each second.")


class LoggingSettings(Section):
    """What is written to standard error, and how."""

    level: Choice[LogLevel] = setting("info", "The least severe lines that are written.")
    format: Choice[LogFormat] = setting("json", "One JSON object per line for machines, or text for people.")


class MetricsSettings(Section):
    """What Prometheus gets to see, and who else does."""

    token: Annotated[SecretStr, Secret(characters=16, header=True)] | None = setting(
        None,
        "A bearer token with which the public listener shows the metrics, too; left out, only the admin listener does.",
    )
    max_tools: Annotated[int, Integer(0, 100_000)] = setting(
        1000,
        "How many tools are counted apart; all further ones are counted together. A lower number takes effect at the "
        "next start.",
    )


class ErrorSettings(Section):
    """The status codes of refusals."""

    strict: Flag = setting(
        False,
        "Whether 401, 403, 413, 415 and 429 of calls, kept calls and lists become the 400 the call-tool pages ask for.",
    )
