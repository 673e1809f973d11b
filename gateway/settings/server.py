"""Settings of the process itself: listeners and their limits, logs, answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, get_args

from gateway.settings.groups import Section
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Choice, Duration, Flag, Integer, Size, Text
from gateway.settings.web import BaseUrl

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


@settings
class ServerSettings:
    """The listener for callers, and what it spends on each of them at most."""

    host: str = key(HOST, "The address to listen on.", default="127.0.0.1")
    port: int = key(PORT, "The port to listen on; 0 takes a free one.", default=8080)
    admin: AdminSettings = key(Section(AdminSettings), "The listener for operators.", default={})
    public_url: str | None = key(
        BaseUrl(),
        "The URL at which callers reach the gateway, used in links it hands out; left out, http://host:port.",
        default=None,
    )
    callback_url: str | None = key(
        BaseUrl(), "What tool servers reach to bring results; left out, the public URL.", default=None
    )
    max_body_bytes: int = key(Size("1KiB", "64MiB"), "The largest request body that is accepted.", default="1MiB")
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
    shutdown_grace_s: float = key(
        Duration("0s", "1h"), "How long running calls may take to finish after the signal to stop.", default="30s"
    )
    openapi: bool = key(Flag(), "Whether /openapi.json describes this surface to anybody who asks.", default=True)

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Two listeners on one port: the second would not start."""
        ours, theirs = self.host, self.admin.host
        if self.port and self.port == self.admin.port and (ours == theirs or EVERYWHERE & {ours, theirs}):
            yield "admin", "listens on the same host and port as the server"


@settings
class LoggingSettings:
    """What is written to standard error, and how."""

    level: LogLevel = key(Choice(*get_args(LogLevel)), "The least severe lines that are written.", default="info")
    format: LogFormat = key(
        Choice(*get_args(LogFormat)), "One JSON object per line for machines, or text for people.", default="json"
    )


@settings
class ErrorSettings:
    """How refusals are told to callers."""

    strict: bool = key(
        Flag(),
        "Whether 401, 403, 413, 415 and 429 become the 400 that the letter of the call-tool pages asks for.",
        default=False,
    )
