"""Settings of backends. Another protocol is another class here; its adapter stands in `gateway.assembly.parts`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.settings.sections import ByOnlyKey, Items, ListOf, Section, repeats, setting
from gateway.settings.values import AnyText, Choice, Duration, Flag, Integer, Secret, Size, Text, Uuid
from gateway.settings.web import AuthorizationUrl, BaseUrl, EndpointUrl, HeaderName, OriginUrl, TlsSettings

OtcDialect = Literal["auto", "rfc", "otc", "lc"]
OxpDialect = Literal["auto", "oxp", "oxp-env"]
ClientAuth = Literal["basic", "body"]
McpEra = Literal["auto", "modern", "legacy"]
McpSessions = Literal["principal", "shared"]
RequestSchema = Literal["tool_request", "agent_response"]
MAX_REPLICAS = 32  # all are looked at for every call, and each has a pool of connections
PRINCIPAL = "principal"  # as `subject`: stands for the caller


class BearerAuthSettings(Section):
    """A fixed token in `Authorization: Bearer`."""

    bearer: Annotated[SecretStr, Secret(header=True)] = setting(..., "The token the tool server expects.")


class ApiKeyAuthSettings(Section):
    """A fixed key in the header the protocol has for it."""

    api_key: Annotated[SecretStr, Secret(header=True)] = setting(..., "The key the tool server expects.")


class SigningSettings(Section):
    """Short-lived tokens the gateway signs with HS256 for each call."""

    secret: Annotated[SecretStr, Secret(bytes_=32)] = setting(..., "The secret shared with the tool server.")
    issuer: AnyText = setting("toolgate", "The `iss` of the tokens.")
    audience: AnyText | None = setting(None, "The `aud` of the tokens.")
    subject: AnyText = setting(PRINCIPAL, "The `sub` of the tokens; the word principal stands for the caller.")
    ttl_s: Annotated[float, Duration("1s", "15m")] = setting("60s", "How long a token is good for.")


class JwtAuthSettings(Section):
    """A token in `Authorization: Bearer`, made for each call."""

    jwt: SigningSettings = setting(..., "What the token says and how it is signed.")


class ClientCredentialsSettings(Section):
    """Tokens that an authorization server issues to the gateway itself (OAuth 2.0 client credentials)."""

    token_url: AuthorizationUrl = setting(..., "The token endpoint of the authorization server.")
    client_id: AnyText = setting(..., "Who the gateway is there.")
    client_secret: Annotated[SecretStr, Secret()] = setting(..., "How it proves that.")
    client_auth: Choice[ClientAuth] = setting(
        "basic", "Where id and secret stand: in the header of HTTP's basic authentication, or in the body."
    )
    scope: AnyText | None = setting(None, "The scopes to ask for, separated by spaces.")
    resource: AnyText | None = setting(None, "What the tokens are for, mostly the URL of the tool server (RFC 8707).")


class OAuthAuthSettings(Section):
    """A token in `Authorization: Bearer`, fetched from an authorization server and renewed in time."""

    oauth: ClientCredentialsSettings = setting(..., "Who issues the tokens, and to whom.")


class OwnHeaderSettings(Section):
    """A header of the tool server's own choice."""

    name: Annotated[str, Text("[A-Za-z0-9][A-Za-z0-9._-]{0,255}", "must be the name of one header")] = setting(
        ..., "The name of the header."
    )
    value: Annotated[SecretStr, Secret(header=True)] = setting(..., "What the tool server expects in it.")


class HeaderAuthSettings(Section):
    """A fixed key in a header that the tool server names."""

    header: OwnHeaderSettings = setting(..., "The header and the key.")


BackendAuthSettings = BearerAuthSettings | ApiKeyAuthSettings | JwtAuthSettings | OAuthAuthSettings | HeaderAuthSettings


class DiscoverySettings(Section):
    """How the gateway asks a tool server for its tools."""

    refresh_s: Annotated[float, Duration("1s", "1d")] = setting("60s", "How long a list of tools is good for.")
    max_tools: Annotated[int, Integer(1, 1_000_000)] = setting(20000, "How many tools one tool server may offer.")
    max_schema_bytes: Annotated[int, Size("1KiB", "16MiB")] = setting(
        "256KiB", "The largest schema of one tool, and as much for all else it says; a larger one is left out."
    )


class BreakerSettings(Section):
    """When a tool server, or one of its tools, gets no more calls for a while."""

    failures: Annotated[int, Integer(0, 1_000_000)] = setting(
        5,
        "After how many failures in a row, of a replica: no connection, broken off, status 502, 503 or 504; of a "
        "tool: any other 5xx, no answer in time, a broken answer; 0: never.",
    )
    open_for_s: Annotated[float, Duration("10ms", "1h")] = setting(
        "10s", "For how long, about; then one call tries, and decides for the others."
    )


class BackendSettings(Section):
    """What every backend has, whatever it speaks."""

    protocol: AnyText = setting(..., "What the tool server speaks.")
    connect_timeout_s: Annotated[float, Duration("10ms", "5m")] = setting("2s", "How long connecting may take.")
    timeout_s: Annotated[float, Duration("10ms", "1h")] = setting(
        "30s", "How long a call may take, from its admission to its answer."
    )
    max_concurrency: Annotated[int, Integer(1, 100_000)] = setting(
        256, "How many calls one process has the tool server run at once, or with callback and rcrt take at once."
    )
    max_queue: Annotated[int, Integer(0, 1_000_000)] = setting(1024, "How many more may wait; others are refused.")
    queue_timeout_s: Annotated[float, Duration("1ms", "1h")] = setting(
        "10s", "How long a call may wait for its turn, which is part of its timeout; then it is refused."
    )
    breaker: BreakerSettings = setting({}, "When the tool server, or one of its tools, gets no more calls for a while.")
    max_response_bytes: Annotated[int, Size("1KiB", "1GiB")] = setting("8MiB", "The largest answer of the tool server.")
    auth: Annotated[BackendAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the tool server who it is."
    )
    tls: TlsSettings | None = setting(None, "Certificates for https; left out, those the system trusts.")
    forward_headers: ListOf[HeaderName] = setting([], "Headers of the caller to pass on; never its credentials.")
    discovery: DiscoverySettings = setting({}, "How the gateway asks for the tools.")
    toolkit: Annotated[str, Text("[A-Za-z0-9_]{1,64}", "must be letters, digits and _, at most 64")] | None = setting(
        None, "The toolkit of tools whose ids name none; left out, the name of the backend."
    )

    @property
    @abstractmethod
    def addresses(self) -> tuple[str, ...]:
        """The URLs of all replicas."""

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.tls is not None and not any(url.startswith("https:") for url in self.addresses):
            yield "tls", "has no effect unless the tool server's URL begins with https"


def too_many_replicas(urls: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds replicas that are in the list already, and those beyond what one process keeps connections to."""
    yield from repeats(urls)
    if len(urls) > MAX_REPLICAS:
        yield MAX_REPLICAS, f"is one too many; there may be {MAX_REPLICAS}"


class ReplicatedBackendSettings(BackendSettings):
    """A tool server of which there may be several replicas."""

    url: BaseUrl | None = setting(None, "Where the tool server is; a path is put before every path of the protocol.")
    urls: Annotated[tuple[BaseUrl, ...], Items(too_many_replicas, at_least=1)] | None = setting(
        None, "In place of url: where all replicas of the tool server are."
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

    dialect: AnyText = setting("auto", "The form of the protocol; auto learns it from the list of tools.")


class OtcBackendSettings(HttpBackendSettings):
    """A tool server that speaks Open Tool Calling, in any of its forms."""

    protocol: Choice[Literal["otc"]] = setting(..., "Open Tool Calling.")
    dialect: Choice[OtcDialect] = setting("auto", "The form of the protocol; auto learns it from the list of tools.")


class OxpBackendSettings(HttpBackendSettings):
    """A tool server that speaks OXP, flat or enveloped."""

    protocol: Choice[Literal["oxp"]] = setting(..., "Open Execution Protocol.")
    dialect: Choice[OxpDialect] = setting("auto", "The form of the protocol; auto learns it from the list of tools.")


class McpBackendSettings(ReplicatedBackendSettings):
    """A tool server that speaks MCP over streamable HTTP."""

    protocol: Choice[Literal["mcp"]] = setting(..., "Model Context Protocol.")
    # It has no header for keys.
    auth: (
        Annotated[BearerAuthSettings | HeaderAuthSettings | JwtAuthSettings | OAuthAuthSettings, ByOnlyKey()] | None
    ) = setting(None, "How the gateway proves to the tool server who it is.")
    url: EndpointUrl | None = setting(None, "Where it is spoken, with its path: nothing is put behind it.")
    urls: Annotated[tuple[EndpointUrl, ...], Items(too_many_replicas, at_least=1)] | None = setting(
        None, "In place of url: where all replicas of the tool server are."
    )
    era: Choice[McpEra] = setting("auto", "Whether it begins with initialize (legacy, to 2025-11-25) or not (modern).")
    sessions: Choice[McpSessions] = setting(
        "principal", "Whose a session of a legacy server is: each caller has its own, or all share one."
    )
    json_text: Flag = setting(False, "Whether a single text that is a JSON object or array is read as that value.")
    trust_meta: Flag = setting(
        False,
        "Whether it is believed what it says beyond MCP, as another Toolgate: ids and requirements of tools, what may "
        "be retried, and when.",
    )
    trust_annotations: Flag = setting(
        False, "Whether tools it calls read-only or idempotent may run twice for one call, as routes can allow."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        for name in self.forward_headers:
            if name.startswith("mcp-") or name == "last-event-id":
                yield (
                    "forward_headers",
                    f"must not list {name}: what callers agree on with the gateway is not passed on",
                )


class SingleBackendSettings(BackendSettings):
    """A tool server at one URL: replicas, if it has any, are its own business."""

    url: BaseUrl = setting(..., "Where the tool server is; a path is put before every path of the protocol.")

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.url,)


class CallbackBackendSettings(ReplicatedBackendSettings):
    """A tool server that takes a call at once and calls back with its result."""

    protocol: Choice[Literal["callback"]] = setting(..., "Callback invocation (RAP).")
    allowed_origins: ListOf[OriginUrl] = setting([], "Other origins it may refer to, which get the same credentials.")
    # The protocol has no header for keys.
    auth: Annotated[BearerAuthSettings | JwtAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the tool server who it is."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        if "toolkit" in self.model_fields_set:
            yield "toolkit", "has no effect; the tool server names its toolset itself"


class RcrtBackendSettings(SingleBackendSettings):
    """A server of breadcrumbs with a workspace whose runner answers some of them with others."""

    protocol: Choice[Literal["rcrt"]] = setting(..., "RCRT breadcrumbs.")
    owner_id: Uuid = setting(..., "The tenant of the workspace; the server must know it.")
    agent_id: Uuid = setting(..., "Who the gateway is there; no agent of its own may have this id.")
    workspace: Annotated[str, Text("[!-~]{1,256}", "must be 1 to 256 characters without spaces")] = setting(
        "workspace:tools", "The tag of the workspace."
    )
    request_schema: Choice[RequestSchema] = setting(
        "tool_request", "What asks for a call: tool.request.v1, or agent.response.v1 where the server expands it."
    )
    return_to_llm: Flag = setting(True, "What requests say about where their results go.")
    cleanup: Flag = setting(False, "Whether requests and responses are deleted once they are read.")
    auth: Annotated[BearerAuthSettings, ByOnlyKey()] | None = setting(
        None, "A token for the server; left out, the gateway has its own endpoint issue them."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from BackendSettings.problems(self)
        if "forward_headers" in self.model_fields_set:
            yield "forward_headers", "has no effect; breadcrumbs carry no headers"
