"""What can be configured: one frozen pydantic model for each section of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

from gateway.configfile.sections import ByName, ByWord, Items, OrWord, Section, setting
from gateway.configfile.substitution import refers
from gateway.configfile.values import Choice
from gateway.configfile.web import TlsSettings, is_loopback
from gateway.core.did_you_mean import suggestion
from gateway.protocols import PROTOCOLS
from gateway.protocols.mcp.settings import McpSettings
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.otc.settings import HttpBackendSettings
from gateway.protocols.rap.settings import CallbackBackendSettings
from gateway.protocols.rcrt.settings import RcrtBackendSettings
from gateway.settings.access import AuthSettings, JwtSettings
from gateway.settings.authorize import AuthorizeSettings
from gateway.settings.console import ConsoleLoginSettings, ConsoleSettings
from gateway.settings.limits import NAME, OnFailure, RateLimitSettings, limits_that_clash
from gateway.settings.routes import RouteSettings, routes_never_reached
from gateway.settings.server import (
    ErrorSettings,
    LoggingSettings,
    MetricsSettings,
    ReloadSettings,
    ServerSettings,
    UsageSettings,
)
from gateway.settings.state import StateSettings
from gateway.settings.telemetry import TelemetrySettings
from gateway.upstream.proxies import ProxyChoice
from gateway.upstream.settings import (
    ApiKeyAuthSettings,
    BackendSettings,
    BearerAuthSettings,
    BreakerSettings,
    HeaderAuthSettings,
    JwtAuthSettings,
    OAuthAuthSettings,
)

S = TypeVar("S", bound=Section)
Backend = Annotated[
    BackendSettings,
    ByWord("protocol", {word: protocol.settings_class() for word, protocol in PROTOCOLS.items()}),
]


class Config(Section):
    """The whole file."""

    advice: ClassVar[Mapping[str, str]] = {
        "auth": "write 'auth: none' to let everybody in, or api_keys or jwt under it"
    }
    server: ServerSettings = setting({}, "The listeners and their limits.")
    auth: Annotated[AuthSettings | None, OrWord("none")] = setting(
        ..., "How callers prove who they are. The word `none` admits everybody."
    )
    authorize: AuthorizeSettings | None = setting(
        None, "A service of yours that is asked before each call whether it may run. By default, none is."
    )
    state: StateSettings | None = setting(
        None,
        "Where calls are stored, for how long, and how that is protected. By default, this process keeps them in "
        "memory.",
    )
    backends: Annotated[Mapping[str, Backend], ByName(NAME)] = setting({}, "The tool servers, by name.")
    routes: Annotated[tuple[RouteSettings, ...], Items(routes_never_reached)] = setting([], "The published tools.")
    rate_limits: Annotated[tuple[RateLimitSettings, ...], Items(limits_that_clash)] = setting([], "Limits on requests.")
    limits_on_failure: Choice[OnFailure] = setting(
        "local",
        "How requests are counted while Redis cannot be reached. `local`: each process counts by itself. "
        "Otherwise requests that a shared limit would count are refused (`refuse`) or let through (`allow`).",
    )
    proxy: ProxyChoice = setting(
        "none",
        "The proxy for requests of the gateway's own: to tool servers, issuers, token endpoints, the authorization "
        "service and the collector of telemetry. `environment`: what `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say.",
    )
    reload: ReloadSettings = setting({}, "When this file is read again.")
    metrics: MetricsSettings = setting({}, "What is counted, and who may see it.")
    usage: UsageSettings | None = setting(
        None, "How calls are counted by key or issuer, tool and day. By default, they are not."
    )
    logging: LoggingSettings = setting({}, "What is logged, and in which form.")
    telemetry: TelemetrySettings | None = setting(
        None, "Where spans of requests are sent, for OpenTelemetry. By default, nowhere."
    )
    mcp: McpSettings = setting({}, "The endpoint for callers that speak MCP.")
    console: ConsoleSettings = setting({}, "Pages for operators.")
    errors: ErrorSettings = setting({}, "How refusals are reported to callers.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.server.workers > 1 and (self.state is None or self.state.url is None):
            yield "server", f"has {self.server.workers} workers, which need state.url to share stored calls"
        if self.limits_on_failure != "local" and (self.state is None or self.state.url is None):
            yield "limits_on_failure", "has no effect without state.url; requests are counted by this process anyway"
        if self.usage is not None and (self.state is None or self.state.url is None):
            yield "usage", "needs state.url, because it is stored there"
        yield from self._nowhere_to_call_back()
        yield from self._passed_on_credentials()
        yield from self._unchecked_requests()
        if self.console.public and self.console.login is not None:
            yield from self._problems_of_login(self.console.login)

    def with_proxies(self) -> Self:
        """Gives `proxy` to every section that has none of its own."""

        def given(section: S) -> S:
            return (
                section if getattr(section, "proxy", self.proxy) else section.model_copy(update={"proxy": self.proxy})
            )

        auth = self.auth
        if auth is not None and auth.jwt is not None:
            auth = auth.model_copy(update={"jwt": tuple(given(entry) for entry in auth.jwt)})
        backends = {name: given(backend) for name, backend in self.backends.items()}
        changed: dict[str, object] = {"auth": auth, "backends": MappingProxyType(backends)}
        for name in ("authorize", "telemetry"):
            section = getattr(self, name)
            changed[name] = None if section is None else given(section)
        return self.model_copy(update=changed)

    def _problems_of_login(self, login: ConsoleLoginSettings) -> Iterator[tuple[str, str]]:
        """Finds what people cannot log in without: an issuer that can be asked, and a way back from it."""
        entry = None if self.auth is None else self.auth.issuer(login.issuer)
        if entry is None:
            issuers = [] if self.auth is None else [entry.issuer or "" for entry in self.auth.jwt or ()]
            if not any(refers(name) for name in (*issuers, login.issuer)):
                yield "console.login.issuer", f"is no issuer of auth.jwt{suggestion(login.issuer, issuers)}"
        elif entry.authorization_server is None:
            yield (
                "console.login.issuer",
                "must be an issuer with discovery or jwks_url, and its name an https URL, for the console asks there "
                "how people log in",
            )
        url = self.server.public_url
        if url is None:
            yield "console.public", "needs server.public_url, to which people come back from their login"
        elif url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
            yield "console.public", "needs a server.public_url with https; http is for loopback addresses only"

    def _passed_on_credentials(self) -> Iterator[tuple[str, str]]:
        """Finds headers that hold the credential of a caller, and would be sent to a tool server."""
        headers = {entry.header for entry in (self.auth and self.auth.jwt) or ()}
        for name, backend in self.backends.items():
            for header in headers.intersection(backend.forward_headers):
                yield (
                    f"backends.{name}.forward_headers",
                    f"must not list {header}, in which callers of auth.jwt show their tokens",
                )

    def _unchecked_requests(self) -> Iterator[tuple[str, str]]:
        """Finds routes whose arguments are not checked, though they make a request that a document has to allow."""
        for route in self.routes:
            if isinstance(self.backends.get(route.backend), OpenApiBackendSettings) and route.validate_input == "off":
                yield (
                    "routes",
                    f"has an entry for tools of {route.backend} with validate_input: off; arguments of openapi are "
                    "parts of a request, which has to fit the document",
                )

    def _nowhere_to_call_back(self) -> Iterator[tuple[str, str]]:
        """Finds a server whose callback backends get no address: one to listen on everywhere is not one to call."""
        server = self.server
        if server.callback_url or server.public_url or is_loopback(server.host):
            return
        for name, backend in self.backends.items():
            if isinstance(backend, CallbackBackendSettings):
                yield (
                    "server",
                    f"must have callback_url or public_url, to which the tool server of backends.{name} sends results; "
                    f"{server.host} is not an address to send to",
                )
                return


__all__ = [
    "ApiKeyAuthSettings",
    "AuthSettings",
    "AuthorizeSettings",
    "BackendSettings",
    "BearerAuthSettings",
    "BreakerSettings",
    "CallbackBackendSettings",
    "Config",
    "ConsoleLoginSettings",
    "ConsoleSettings",
    "HeaderAuthSettings",
    "HttpBackendSettings",
    "JwtAuthSettings",
    "JwtSettings",
    "McpSettings",
    "OAuthAuthSettings",
    "RateLimitSettings",
    "RcrtBackendSettings",
    "RouteSettings",
    "ServerSettings",
    "StateSettings",
    "TelemetrySettings",
    "TlsSettings",
    "UsageSettings",
]
