"""What can be configured: one frozen class per section, from which reader and JSON Schema are derived.

`kinds`, `web` and `groups` say what values may be, `keys` how a section declares them; the sections themselves
are in `server`, `access`, `state`, `backends`, `routes` and `limits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import get_args

from gateway.settings.access import AuthSettings, JwtSettings
from gateway.settings.backends import (
    PROTOCOLS,
    ApiKeyAuthSettings,
    BackendSettings,
    BearerAuthSettings,
    BreakerSettings,
    CallbackBackendSettings,
    HttpBackendSettings,
    JwtAuthSettings,
    RcrtBackendSettings,
)
from gateway.settings.groups import ListOf, MapOf, OrWord, Section, Tagged
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Choice
from gateway.settings.limits import NAME, OnFailure, RateLimitSettings, limits_that_clash
from gateway.settings.routes import RouteSettings, routes_never_reached
from gateway.settings.secret import Secret
from gateway.settings.server import (
    ErrorSettings,
    LoggingSettings,
    MetricsSettings,
    ReloadSettings,
    ServerSettings,
)
from gateway.settings.state import StateSettings
from gateway.settings.tls import TlsSettings
from gateway.settings.web import is_loopback


@settings
class Config:
    """The whole file."""

    server: ServerSettings = key(Section(ServerSettings), "The listeners and their limits.", default={})
    auth: AuthSettings | None = key(
        OrWord("none", AuthSettings), "How callers prove who they are; the word none lets everybody in."
    )
    state: StateSettings | None = key(
        Section(StateSettings), "How what the gateway remembers is protected.", default=None
    )
    backends: Mapping[str, BackendSettings] = key(
        MapOf(Tagged("protocol", PROTOCOLS), NAME), "The tool servers, by a name of your choice.", default={}
    )
    routes: tuple[RouteSettings, ...] = key(
        ListOf(Section(RouteSettings), check=routes_never_reached), "Which of their tools are published.", default=[]
    )
    rate_limits: tuple[RateLimitSettings, ...] = key(
        ListOf(Section(RateLimitSettings), check=limits_that_clash), "How often callers may ask.", default=[]
    )
    limits_on_failure: OnFailure = key(
        Choice(*get_args(OnFailure)),
        "How requests are counted while Redis is away: by each process itself, or not at all, in which case those that "
        "a shared limit would count are refused, or allowed.",
        default="local",
    )
    reload: ReloadSettings = key(Section(ReloadSettings), "When this file is read again.", default={})
    metrics: MetricsSettings = key(Section(MetricsSettings), "What is counted, and who sees it.", default={})
    logging: LoggingSettings = key(Section(LoggingSettings), "What is logged, and how.", default={})
    errors: ErrorSettings = key(Section(ErrorSettings), "How refusals are told to callers.", default={})

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """What no section knows by itself."""
        if self.server.workers > 1 and (self.state is None or self.state.url is None):
            yield "server", f"has {self.server.workers} workers, which need state.url to share what they remember"
        if self.limits_on_failure != "local" and (self.state is None or self.state.url is None):
            yield "limits_on_failure", "has no effect without state.url; requests are counted by this process anyway"
        yield from self._nowhere_to_call_back()

    def _nowhere_to_call_back(self) -> Iterator[tuple[str, str]]:
        """Tool servers elsewhere must be told where to call back, and no address to listen on says that."""
        server = self.server
        if server.callback_url or server.public_url or is_loopback(server.host):
            return
        for name, backend in self.backends.items():
            if isinstance(backend, CallbackBackendSettings):
                yield (
                    "server",
                    f"must have callback_url or public_url, because backends.{name} calls back and "
                    f"{server.host} does not tell where",
                )
                return


__all__ = [
    "ApiKeyAuthSettings",
    "AuthSettings",
    "BackendSettings",
    "BearerAuthSettings",
    "BreakerSettings",
    "CallbackBackendSettings",
    "Config",
    "HttpBackendSettings",
    "JwtAuthSettings",
    "JwtSettings",
    "RateLimitSettings",
    "RcrtBackendSettings",
    "RouteSettings",
    "Secret",
    "ServerSettings",
    "StateSettings",
    "TlsSettings",
]
