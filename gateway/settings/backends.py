"""Settings of backends: where a tool server is, what it speaks, what it may cost.

Another protocol is another class here, one line in `PROTOCOLS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, get_args

from gateway.settings.groups import ListOf, OneOf, Section, repeats
from gateway.settings.keys import key, settings
from gateway.settings.kinds import UUID, Choice, Duration, Flag, Integer, SecretText, Size, Text
from gateway.settings.secret import Secret
from gateway.settings.tls import TlsSettings
from gateway.settings.web import BaseUrl, HeaderName, OriginUrl

OtcDialect = Literal["auto", "rfc", "otc", "lc"]
OxpDialect = Literal["auto", "oxp", "oxp-env"]
RequestSchema = Literal["tool_request", "agent_response"]
MAX_REPLICAS = 32  # all are looked at for every call, and each has a pool of connections
PRINCIPAL = "principal"  # as `subject`: whoever makes the call


@settings
class BearerAuthSettings:
    """A fixed token in `Authorization: Bearer`."""

    bearer: Secret = key(SecretText(header=True), "The token the tool server expects.")


@settings
class ApiKeyAuthSettings:
    """A fixed key in the header the protocol has for it."""

    api_key: Secret = key(SecretText(header=True), "The key the tool server expects.")


@settings
class SigningSettings:
    """Short-lived tokens the gateway signs with HS256 for each call."""

    secret: Secret = key(SecretText(bytes_=32), "The secret shared with the tool server, at least 32 bytes.")
    issuer: str = key(Text(), "The `iss` of the tokens.", default="toolgate")
    audience: str | None = key(Text(), "The `aud` of the tokens.", default=None)
    subject: str = key(
        Text(), "The `sub` of the tokens; the word principal stands for whoever makes the call.", default=PRINCIPAL
    )
    ttl_s: float = key(Duration("1s", "15m"), "How long a token is good for.", default="60s")


@settings
class JwtAuthSettings:
    """A token in `Authorization: Bearer`, made for each call."""

    jwt: SigningSettings = key(Section(SigningSettings), "What the token says and how it is signed.")


BackendAuthSettings = BearerAuthSettings | ApiKeyAuthSettings | JwtAuthSettings


@settings
class DiscoverySettings:
    """How the gateway asks a tool server for its tools."""

    refresh_s: float = key(Duration("1s", "1d"), "How long a list of tools is good for.", default="60s")
    max_tools: int = key(Integer(1, 1_000_000), "How many tools one tool server may offer.", default=20000)
    max_schema_bytes: int = key(
        Size("1KiB", "16MiB"),
        "The largest schema of one tool, and as much for all else it says; a larger one is left out.",
        default="256KiB",
    )


@settings
class BreakerSettings:
    """When a tool server, or one of its tools, gets no more calls for a while."""

    failures: int = key(
        Integer(0, 1_000_000),
        "After how many failures in a row, of a replica: no connection, broken off, status 502, 503 or 504; of a tool: "
        "any other 5xx, no answer in time, a broken answer; 0: never.",
        default=5,
    )
    open_for_s: float = key(
        Duration("10ms", "1h"), "For how long, about; then one call tries, and decides for the others.", default="10s"
    )


@settings
class BackendSettings(ABC):
    """What every backend has, whatever it speaks."""

    protocol: str = key(Text(), "What the tool server speaks.")
    connect_timeout_s: float = key(Duration("10ms", "5m"), "How long connecting may take.", default="2s")
    timeout_s: float = key(
        Duration("10ms", "1h"), "How long a call may take, from its admission to its answer.", default="30s"
    )
    max_concurrency: int = key(
        Integer(1, 100_000),
        "How many calls one process has the tool server run at once, or with callback and rcrt take at once.",
        default=256,
    )
    max_queue: int = key(
        Integer(0, 1_000_000), "How many more calls may wait for their turn; further ones are refused.", default=1024
    )
    queue_timeout_s: float = key(
        Duration("1ms", "1h"),
        "How long a call may wait for its turn, which is part of its timeout; then it is refused.",
        default="10s",
    )
    breaker: BreakerSettings = key(
        Section(BreakerSettings),
        "When the tool server, or one of its tools, gets no more calls for a while.",
        default={},
    )
    max_response_bytes: int = key(
        Size("1KiB", "1GiB"), "The largest answer that is read from the tool server.", default="8MiB"
    )
    auth: BackendAuthSettings | None = key(
        OneOf[BackendAuthSettings](BearerAuthSettings, ApiKeyAuthSettings, JwtAuthSettings),
        "How the gateway proves to the tool server who it is.",
        default=None,
    )
    tls: TlsSettings | None = key(
        Section(TlsSettings), "Certificates for https; left out, those the system trusts.", default=None
    )
    forward_headers: tuple[str, ...] = key(
        ListOf(HeaderName()), "Headers of the caller that are passed on; never its credentials.", default=[]
    )
    discovery: DiscoverySettings = key(Section(DiscoverySettings), "How the gateway asks for the tools.", default={})
    toolkit: str | None = key(
        Text(r"[A-Za-z0-9_]{1,64}", "must be letters, digits and _, at most 64"),
        "The toolkit of tools whose ids name none; left out, the name of the backend.",
        default=None,
    )

    @property
    @abstractmethod
    def addresses(self) -> tuple[str, ...]:
        """The URLs of all replicas."""

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Certificates say something about https only."""
        if self.tls is not None and not any(url.startswith("https:") for url in self.addresses):
            yield "tls", "has no effect unless the tool server's URL begins with https"


def too_many_replicas(urls: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Finds replicas that are in the list already, and those beyond what one process keeps connections to."""
    yield from repeats(urls)
    if len(urls) > MAX_REPLICAS:
        yield MAX_REPLICAS, f"is one too many; there may be {MAX_REPLICAS}"


@settings
class HttpBackendSettings(BackendSettings):
    """A tool server that answers each call in the same HTTP exchange."""

    url: str | None = key(
        BaseUrl(), "Where the tool server is; a path is put before every path of the protocol.", default=None
    )
    urls: tuple[str, ...] | None = key(
        ListOf(BaseUrl(), at_least=1, check=too_many_replicas),
        "In place of url: where all replicas of the tool server are.",
        default=None,
    )
    dialect: str = key(Text(), "The form of the protocol; auto learns it from the list of tools.", default="auto")

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.urls or ((self.url,) if self.url else ())

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """A tool server is somewhere, and that is said once."""
        yield from BackendSettings.problems(self, written)
        if (self.url is None) is (self.urls is None):
            yield "urls", "must have exactly one of url and urls"


@settings
class OtcBackendSettings(HttpBackendSettings):
    """A tool server that speaks Open Tool Calling, in any of its forms."""

    protocol: Literal["otc"] = key(Choice("otc"), "Open Tool Calling.")
    dialect: OtcDialect = key(
        Choice(*get_args(OtcDialect)),
        "The form of the protocol; auto learns it from the list of tools.",
        default="auto",
    )


@settings
class OxpBackendSettings(HttpBackendSettings):
    """A tool server that speaks OXP, flat or enveloped."""

    protocol: Literal["oxp"] = key(Choice("oxp"), "Open Execution Protocol.")
    dialect: OxpDialect = key(
        Choice(*get_args(OxpDialect)),
        "The form of the protocol; auto learns it from the list of tools.",
        default="auto",
    )


@settings
class SingleBackendSettings(BackendSettings):
    """A tool server whose calls outlive their exchange: replicas, if it has any, are its own business."""

    url: str = key(BaseUrl(), "Where the tool server is; a path is put before every path of the protocol.")

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.url,)


@settings
class CallbackBackendSettings(SingleBackendSettings):
    """A tool server that takes a call at once and calls back with its result."""

    protocol: Literal["callback"] = key(Choice("callback"), "Callback invocation (RAP).")
    allowed_origins: tuple[str, ...] = key(
        ListOf(OriginUrl()),
        "Other servers the tool server may send the gateway to; they see the same credentials.",
        default=[],
    )
    # The protocol has no header for keys.
    auth: BearerAuthSettings | JwtAuthSettings | None = key(
        OneOf[BearerAuthSettings | JwtAuthSettings](BearerAuthSettings, JwtAuthSettings),
        "How the gateway proves to the tool server who it is.",
        default=None,
    )

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """The toolkit has a name already."""
        yield from BackendSettings.problems(self, written)
        if "toolkit" in written:
            yield "toolkit", "has no effect; the tool server names its toolset itself"


@settings
class RcrtBackendSettings(SingleBackendSettings):
    """A server of breadcrumbs with a workspace whose runner answers some of them with others."""

    protocol: Literal["rcrt"] = key(Choice("rcrt"), "RCRT breadcrumbs.")
    owner_id: str = key(UUID, "The tenant of the workspace; the server must know it.")
    agent_id: str = key(UUID, "Who the gateway is there; no agent of its own may have this id.")
    workspace: str = key(
        Text(r"[!-~]{1,256}", "must be 1 to 256 characters without spaces"),
        "The tag of the workspace.",
        default="workspace:tools",
    )
    request_schema: RequestSchema = key(
        Choice(*get_args(RequestSchema)),
        "What asks for a call: tool.request.v1, or agent.response.v1 where the server expands it.",
        default="tool_request",
    )
    return_to_llm: bool = key(Flag(), "What requests say about where their results go.", default=True)
    cleanup: bool = key(Flag(), "Whether requests and responses are deleted once they are read.", default=False)
    auth: BearerAuthSettings | None = key(
        OneOf[BearerAuthSettings](BearerAuthSettings),
        "A token for the server; left out, the gateway has its own endpoint issue them.",
        default=None,
    )

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """A breadcrumb has no headers."""
        yield from BackendSettings.problems(self, written)
        if "forward_headers" in written:
            yield "forward_headers", "has no effect; breadcrumbs carry no headers"


PROTOCOLS: Mapping[str, type[BackendSettings]] = {
    "otc": OtcBackendSettings,
    "oxp": OxpBackendSettings,
    "callback": CallbackBackendSettings,
    "rcrt": RcrtBackendSettings,
}
