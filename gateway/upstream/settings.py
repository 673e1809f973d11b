"""Settings that every backend has. Those of a protocol stand in its folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.configfile.sections import ByName, ByOnlyKey, Items, ListOf, Section, repeats, setting
from gateway.configfile.values import AnyText, Choice, Duration, Flag, Integer, Secret, Size, Text
from gateway.configfile.web import (
    NAME_OF_HEADER,
    BaseUrl,
    FetchedUrl,
    HeaderName,
    HeaderValue,
    TlsSettings,
    crosses_in_clear,
    is_own_header,
)
from gateway.upstream.proxies import ProxyChoice

ClientAuth = Literal["basic", "body"]
MAX_REPLICAS = 32  # all are looked at for every call, and each has a pool of connections
PARAMETER = Text(r"[!-~]{1,256}", "must be the name of a parameter: visible ASCII without spaces")
OF_TOKEN_REQUESTS = frozenset({"grant_type", "client_id", "client_secret", "scope", "resource", "audience"})
PRINCIPAL = "principal"  # as `subject`: stands for the caller


class BearerAuthSettings(Section):
    """A fixed token in `Authorization: Bearer`."""

    bearer: Annotated[SecretStr, Secret(header=True)] = setting(..., "The token that the tool server expects.")


class OwnHeaderSettings(Section):
    """A header that the tool server defines."""

    name: Annotated[str, Text("[A-Za-z0-9][A-Za-z0-9._-]{0,255}", "must be the name of one header")] = setting(
        ..., "The name of the header."
    )
    value: Annotated[SecretStr, Secret(header=True)] = setting(..., "The value that the tool server expects in it.")


class HeaderAuthSettings(Section):
    """A fixed key in a header that the tool server defines."""

    header: OwnHeaderSettings = setting(..., "The header and the key in it.")


class ApiKeyAuthSettings(Section):
    """A fixed key in the header that the protocol defines for it."""

    api_key: Annotated[SecretStr, Secret(header=True)] = setting(..., "The key that the tool server expects.")


class SigningSettings(Section):
    """Short-lived tokens that the gateway makes for each call and signs with HS256."""

    secret: Annotated[SecretStr, Secret(bytes_=32)] = setting(..., "The secret shared with the tool server.")
    issuer: AnyText = setting("toolgate", "The `iss` of the tokens.")
    audience: AnyText | None = setting(None, "The `aud` of the tokens.")
    subject: AnyText = setting(PRINCIPAL, "The `sub` of the tokens. The word `principal` stands for the caller.")
    ttl_s: Annotated[float, Duration("1s", "15m")] = setting("60s", "How long a token is valid.")


class JwtAuthSettings(Section):
    """A token in `Authorization: Bearer`, which the gateway makes for each call."""

    jwt: SigningSettings = setting(..., "What the token says and how it is signed.")


class ClientCredentialsSettings(Section):
    """Tokens that an authorization server issues to the gateway itself (OAuth 2.0 client credentials)."""

    token_url: FetchedUrl = setting(..., "The token endpoint of the authorization server.")
    client_id: AnyText = setting(..., "The id that the gateway has at the authorization server.")
    client_secret: Annotated[SecretStr, Secret()] = setting(..., "The secret that belongs to this id.")
    client_auth: Choice[ClientAuth] = setting(
        "basic",
        "Where id and secret are sent: in the header, as HTTP basic authentication (`basic`), or in the body (`body`).",
    )
    scope: AnyText | None = setting(None, "The scopes to ask for, separated by spaces.")
    resource: AnyText | None = setting(
        None, "The resource that the tokens are for (RFC 8707), usually the URL of the tool server."
    )
    audience: AnyText | None = setting(
        None, "The `audience` of the request, where the authorization server has that in place of `resource`."
    )
    parameters: Annotated[Mapping[str, Annotated[str, Text(any_scalar=True)]], ByName(PARAMETER)] = setting(
        {}, "Further parameters of the request, by their names."
    )
    allow_http: Flag = setting(
        False,
        "Whether `token_url` may be http on another machine, as inside a cluster. The client's secret is then sent "
        "unencrypted.",
    )
    proxy: ProxyChoice | None = setting(
        None, "The proxy for requests to the token endpoint. By default, that of the backend."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        if crosses_in_clear(self.token_url) and not self.allow_http:
            yield "token_url", "must be an https URL; http is for loopback addresses only, unless allow_http is true"
        for name in self.parameters:
            if name in OF_TOKEN_REQUESTS:
                yield "parameters", f"must not have {name}, which has a key of its own or is the gateway's"


class OAuthAuthSettings(Section):
    """A token in `Authorization: Bearer`, which the gateway fetches from an authorization server and renews in time."""

    oauth: ClientCredentialsSettings = setting(..., "Where tokens are fetched, and with which credential.")


BackendAuthSettings = BearerAuthSettings | ApiKeyAuthSettings | JwtAuthSettings | OAuthAuthSettings | HeaderAuthSettings


class DiscoverySettings(Section):
    """How the gateway fetches the list of a tool server's tools."""

    refresh_s: Annotated[float, Duration("1s", "1d")] = setting("60s", "How often the list of tools is fetched.")
    max_tools: Annotated[int, Integer(1, 1_000_000)] = setting(20000, "How many tools one tool server may offer.")
    max_schema_bytes: Annotated[int, Size("1KiB", "16MiB")] = setting(
        "256KiB",
        "The largest schema of one tool, and the largest size of everything else that is said of it. A larger "
        "tool is left out.",
    )


class BreakerSettings(Section):
    """When calls of a tool server, or of one of its tools, are refused for a while."""

    failures: Annotated[int, Integer(0, 1_000_000)] = setting(
        5,
        "The number of failures in a row after which calls are refused; 0 means never. For a replica, failures "
        "are failed and broken connections and the statuses 502, 503 and 504. For a tool, they are any other 5xx, "
        "no answer in time, and unusable answers.",
    )
    open_for_s: Annotated[float, Duration("10ms", "1h")] = setting(
        "10s", "For about how long calls are refused. After that one call is a trial, and its outcome decides."
    )


class BackendSettings(Section):
    """What every backend has, whatever it speaks."""

    protocol: AnyText = setting(..., "The protocol that the tool server speaks.")
    connect_timeout_s: Annotated[float, Duration("10ms", "5m")] = setting(
        "2s", "How long opening a connection may take."
    )
    timeout_s: Annotated[float, Duration("10ms", "1h")] = setting(
        "30s", "How long a call may take, from its admission to its answer."
    )
    max_concurrency: Annotated[int, Integer(1, 100_000)] = setting(
        256,
        "How many calls one process may have running at the tool server. For `callback` and `rcrt`: how many it "
        "may be sending at once.",
    )
    max_queue: Annotated[int, Integer(0, 1_000_000)] = setting(
        1024, "How many further calls may wait. Any beyond them is refused."
    )
    queue_timeout_s: Annotated[float, Duration("1ms", "1h")] = setting(
        "10s", "How long a call may wait before it is sent. Then it is refused. The time counts towards its timeout."
    )
    breaker: BreakerSettings = setting(
        {}, "When calls of the tool server, or of one of its tools, are refused for a while."
    )
    max_response_bytes: Annotated[int, Size("1KiB", "1GiB")] = setting(
        "8MiB", "The largest answer that is accepted from the tool server."
    )
    auth: Annotated[BackendAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the tool server who it is."
    )
    tls: TlsSettings | None = setting(
        None, "Certificates for https. By default, the authorities that the system trusts."
    )
    proxy: ProxyChoice | None = setting(
        None, "The proxy for requests to the tool server. By default, the one at the top of the file."
    )
    forward_headers: ListOf[HeaderName] = setting(
        [], "Headers of the caller that are passed on. Its credentials never are."
    )
    headers: Annotated[Mapping[str, HeaderValue], ByName(NAME_OF_HEADER)] = setting(
        {},
        "Headers that every request to the tool server has, in the place of others of these names. Credentials belong "
        "into `auth`.",
    )
    discovery: DiscoverySettings = setting({}, "How the gateway fetches the list of tools.")
    toolkit: Annotated[str, Text("[A-Za-z0-9_]{1,64}", "must be letters, digits and _, at most 64")] | None = setting(
        None, "The toolkit of tools whose ids have none. By default, the name of the backend."
    )

    @property
    @abstractmethod
    def addresses(self) -> tuple[str, ...]:
        """The URLs of all replicas."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from self._problems_of_headers()
        if self.tls is not None and not any(url.startswith("https:") for url in self.addresses):
            yield "tls", "has no effect unless the tool server's URL begins with https"

    def _problems_of_headers(self) -> Iterator[tuple[str, str]]:
        names = [name.lower() for name in self.headers]
        of_auth = self.auth.header.name.lower() if isinstance(self.auth, HeaderAuthSettings) else None
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield "headers", f"has {name} twice; upper and lower case are the same"
            if is_own_header(name) or name.startswith("mcp-") or name == "last-event-id":
                yield "headers", f"must not have {name}, which the gateway sets or withholds itself"
            if name == of_auth:
                yield "headers", f"must not have {name}, which auth sets"
            if name in self.forward_headers:
                yield "headers", f"must not have {name}, which is in forward_headers, too"


def too_many_replicas(urls: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds replicas that are in the list already, and those beyond what one process keeps connections to."""
    yield from repeats(urls)
    if len(urls) > MAX_REPLICAS:
        yield MAX_REPLICAS, f"is one too many; there may be {MAX_REPLICAS}"


class ReplicatedBackendSettings(BackendSettings):
    """A tool server of which there may be several replicas."""

    url: BaseUrl | None = setting(
        None, "The URL of the tool server. A path in it is put before every path of the protocol."
    )
    urls: Annotated[tuple[BaseUrl, ...], Items(too_many_replicas, at_least=1)] | None = setting(
        None, "The URLs of all replicas of the tool server, in place of `url`."
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.urls or ((self.url,) if self.url else ())

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from BackendSettings.problems(self)
        if (self.url is None) is (self.urls is None):
            yield "urls", "must have exactly one of url and urls"


class SingleBackendSettings(BackendSettings):
    """A tool server at one URL: replicas, if it has any, are its own business."""

    url: BaseUrl = setting(..., "The URL of the tool server. A path in it is put before every path of the protocol.")

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.url,)
