"""What can be configured: one frozen class per section, from which reader and JSON Schema are derived.

`kinds`, `web` and `groups` say what values may be, `keys` how a section declares them; the sections themselves
are in `server`, `access`, `backends` and `routes`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.settings.access import AuthSettings, JwtSettings, StateSettings
from gateway.settings.backends import (
    PRINCIPAL,
    PROTOCOLS,
    ApiKeyAuthSettings,
    BackendAuthSettings,
    BackendSettings,
    BearerAuthSettings,
    CallbackBackendSettings,
    DiscoverySettings,
    HttpBackendSettings,
    JwtAuthSettings,
    OtcBackendSettings,
    OxpBackendSettings,
    RcrtBackendSettings,
    SigningSettings,
)
from gateway.settings.groups import ListOf, MapOf, OrWord, Section, Tagged
from gateway.settings.keys import key, settings
from gateway.settings.kinds import Text
from gateway.settings.routes import RouteSettings, routes_never_reached
from gateway.settings.secret import Secret
from gateway.settings.server import AdminSettings, ErrorSettings, LoggingSettings, ServerSettings

NAME = Text(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "must be letters, digits, - and _, at most 64, and begin with a letter or digit"
)


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
    logging: LoggingSettings = key(Section(LoggingSettings), "What is logged, and how.", default={})
    errors: ErrorSettings = key(Section(ErrorSettings), "How refusals are told to callers.", default={})


__all__ = [
    "PRINCIPAL",
    "AdminSettings",
    "ApiKeyAuthSettings",
    "AuthSettings",
    "BackendAuthSettings",
    "BackendSettings",
    "BearerAuthSettings",
    "CallbackBackendSettings",
    "Config",
    "DiscoverySettings",
    "ErrorSettings",
    "HttpBackendSettings",
    "JwtAuthSettings",
    "JwtSettings",
    "LoggingSettings",
    "OtcBackendSettings",
    "OxpBackendSettings",
    "RcrtBackendSettings",
    "RouteSettings",
    "Secret",
    "ServerSettings",
    "SigningSettings",
    "StateSettings",
]
