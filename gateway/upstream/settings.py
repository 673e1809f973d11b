"""Settings of backends. Another protocol is another class here; its adapter stands in `gateway.assembly.factories`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.configfile.sections import ByName, ByOnlyKey, Items, ListOf, Section, repeats, setting
from gateway.configfile.values import AnyText, Choice, Duration, Flag, Integer, Secret, Size, Text, Uuid
from gateway.configfile.web import (
    NAME_OF_HEADER,
    BaseUrl,
    FetchedUrl,
    HeaderName,
    HeaderValue,
    OriginUrl,
    QueriedUrl,
    TlsSettings,
    crosses_in_clear,
    is_own_header,
)
from gateway.settings.credentials import BearerAuthSettings, HeaderAuthSettings
from gateway.settings.proxies import ProxyChoice

OtcDialect = Literal["auto", "rfc", "otc", "lc"]
OxpDialect = Literal["auto", "oxp", "oxp-env"]
ClientAuth = Literal["basic", "body"]
McpEra = Literal["auto", "modern", "legacy"]
McpSessions = Literal["principal", "shared"]
RequestSchema = Literal["tool_request", "agent_response"]
MAX_REPLICAS = 32  # all are looked at for every call, and each has a pool of connections
PARAMETER = Text(r"[!-~]{1,256}", "must be the name of a parameter: visible ASCII without spaces")
OF_TOKEN_REQUESTS = frozenset({"grant_type", "client_id", "client_secret", "scope", "resource", "audience"})
PRINCIPAL = "principal"  # as `subject`: stands for the caller


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


class HttpBackendSettings(ReplicatedBackendSettings):
    """A tool server of a protocol that has several forms."""

    dialect: AnyText = setting("auto", "The form of the protocol. `auto` recognises it from the list of tools.")


class OtcBackendSettings(HttpBackendSettings):
    """A tool server that speaks OTC (Open Tool Calling) in any of its forms."""

    protocol: Choice[Literal["otc"]] = setting(..., "Open Tool Calling.")
    dialect: Choice[OtcDialect] = setting(
        "auto", "The form of the protocol. `auto` recognises it from the list of tools."
    )


class OxpBackendSettings(HttpBackendSettings):
    """A tool server that speaks OXP (Open eXecution Protocol), flat or enveloped."""

    protocol: Choice[Literal["oxp"]] = setting(..., "Open eXecution Protocol.")
    dialect: Choice[OxpDialect] = setting(
        "auto", "The form of the protocol. `auto` recognises it from the list of tools."
    )


class McpBackendSettings(ReplicatedBackendSettings):
    """A tool server that speaks MCP (Model Context Protocol) over streamable HTTP."""

    protocol: Choice[Literal["mcp"]] = setting(..., "Model Context Protocol.")
    # It has no header for keys.
    auth: (
        Annotated[BearerAuthSettings | HeaderAuthSettings | JwtAuthSettings | OAuthAuthSettings, ByOnlyKey()] | None
    ) = setting(None, "How the gateway proves to the tool server who it is.")
    url: QueriedUrl | None = setting(
        None, "The whole URL of the MCP server, with its path, and its query if it wants one."
    )
    urls: Annotated[tuple[QueriedUrl, ...], Items(too_many_replicas, at_least=1)] | None = setting(
        None, "The URLs of all replicas of the MCP server, in place of `url`."
    )
    era: Choice[McpEra] = setting(
        "auto",
        "Whether the server has sessions that begin with `initialize` (`legacy`, revisions up to 2025-11-25) or "
        "not (`modern`). `auto` asks the server.",
    )
    sessions: Choice[McpSessions] = setting(
        "principal",
        "Who shares a session of a legacy server: each user of each caller has its own (`principal`), or all share one "
        "(`shared`).",
    )
    json_text: Flag = setting(
        False, "Whether a result of one text that is a JSON object or array becomes that object or array."
    )
    trust_meta: Flag = setting(
        False,
        "Whether the server is another Toolgate that may say more than MCP has words for: ids and requirements of "
        "tools, and what may be repeated and when. It also gets the user, and the tokens and secrets that its "
        "tools need.",
    )
    trust_annotations: Flag = setting(
        False,
        "Whether tools that the server calls read-only or idempotent may run twice for one call, as with "
        "`idempotent` of a route.",
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        for name in self.forward_headers:
            if name.startswith("mcp-") or name == "last-event-id":
                yield (
                    "forward_headers",
                    f"must not list {name}: it is between the caller and the gateway",
                )


class SingleBackendSettings(BackendSettings):
    """A tool server at one URL: replicas, if it has any, are its own business."""

    url: BaseUrl = setting(..., "The URL of the tool server. A path in it is put before every path of the protocol.")

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.url,)


class CallbackBackendSettings(ReplicatedBackendSettings):
    """A tool server that accepts a call at once and sends the result later to a URL of the gateway."""

    protocol: Choice[Literal["callback"]] = setting(..., "Callbacks, as in RAP (Reactive Agent Protocol).")
    allowed_origins: ListOf[OriginUrl] = setting(
        [], "Further origins to which URLs of the tool server may lead. They get the same credentials."
    )
    # The protocol has no header for keys.
    auth: Annotated[BearerAuthSettings | JwtAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the tool server who it is."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        if "toolkit" in self.model_fields_set:
            yield "toolkit", "has no effect; the tool server names its toolset itself"


class RcrtBackendSettings(SingleBackendSettings):
    """A server of RCRT (Right Context, Right Time), where tools answer breadcrumbs with breadcrumbs."""

    protocol: Choice[Literal["rcrt"]] = setting(..., "Breadcrumbs (RCRT).")
    owner_id: Uuid = setting(..., "The tenant of the workspace: OWNER_ID of the server.")
    agent_id: Uuid = setting(..., "The id of the gateway as an agent. No agent of the server may have it.")
    workspace: Annotated[str, Text("[!-~]{1,256}", "must be 1 to 256 characters without spaces")] = setting(
        "workspace:tools", "The tag of the workspace."
    )
    request_schema: Choice[RequestSchema] = setting(
        "tool_request",
        "The kind of breadcrumb that requests a call: `tool.request.v1`, or `agent.response.v1` for servers that "
        "turn it into requests.",
    )
    return_to_llm: Flag = setting(True, "The value of `return_to_llm` in requests.")
    cleanup: Flag = setting(False, "Whether requests and responses are deleted after they were read.")
    auth: Annotated[BearerAuthSettings, ByOnlyKey()] | None = setting(
        None, "A token for the server. By default, the gateway takes tokens that the server itself issues."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from BackendSettings.problems(self)
        if "forward_headers" in self.model_fields_set:
            yield "forward_headers", "has no effect; breadcrumbs carry no headers"
