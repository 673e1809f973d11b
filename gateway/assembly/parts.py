"""From settings to running parts: what each section of the configuration is made into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.admission import Admission
from gateway.backends.callback import CallbackBackend
from gateway.backends.http import HttpBackend
from gateway.backends.mcp import McpBackend
from gateway.backends.rcrt import RcrtBackend
from gateway.backends.server import BackendContext, Server
from gateway.catalogue.evaluation import Source
from gateway.dialects import mcp
from gateway.dialects.mcp import McpSurface
from gateway.dialects.recognise import REST
from gateway.ports import Backend, Encoder, Receiver, Surface
from gateway.routing import OutputCheck, Route
from gateway.settings import (
    BackendSettings,
    CallbackBackendSettings,
    Config,
    RcrtBackendSettings,
    RouteSettings,
)
from gateway.settings.backends import McpBackendSettings, OtcBackendSettings, OxpBackendSettings
from gateway.state.sealing import Sealer


class Adapter(Protocol):
    """Makes a backend from its settings: a class whose instances are backends.

    `max_exchange_s` is how long one exchange of a call may take, whatever the timeout of the call.
    """

    @property
    def max_exchange_s(self) -> float: ...

    def __call__(self, name: str, settings: Any, context: BackendContext, /) -> Backend: ...


ADAPTERS: Mapping[type[BackendSettings], Adapter] = {
    OtcBackendSettings: HttpBackend,
    OxpBackendSettings: HttpBackend,
    CallbackBackendSettings: CallbackBackend,
    RcrtBackendSettings: RcrtBackend,
    McpBackendSettings: McpBackend,
}

# Keys that concern calls alone; all others decide which tools a tool server lists and what they mean.
OF_CALLS = {
    "connect_timeout_s",
    "timeout_s",
    "max_concurrency",
    "max_queue",
    "queue_timeout_s",
    "breaker",
    "max_response_bytes",
    "forward_headers",
}


DIALECTS = REST.dialects | McpSurface.dialects
ENCODERS: Mapping[tuple[str, str], Encoder] = {**REST.encoders, **mcp.ENCODERS}  # also of surfaces that are off


def surfaces(config: Config, sealer: Sealer) -> Sequence[Surface]:
    """The protocols that callers speak; the first speaks for paths that are none's. `sealer` is for MCP's sessions."""
    asked = config.mcp
    if not asked.enabled:
        return (REST,)
    return REST, McpSurface(asked.path, sealer, instructions=asked.instructions, stream_after_s=asked.stream_after_s)


def patience_s(name: str, settings: BackendSettings, routes: Sequence[RouteSettings]) -> float:
    """The shortest time the configuration gives any exchange of a call to this backend."""
    timeouts = [route.timeout_s or settings.timeout_s for route in routes if route.backend == name and not route.deny]
    return min(min(timeouts, default=settings.timeout_s), ADAPTERS[type(settings)].max_exchange_s)


def receivers(backends: Mapping[str, Backend]) -> Mapping[str, Receiver]:
    """What takes the callbacks of those tool servers that call back."""
    return {
        name: backend.receiver
        for name, backend in backends.items()
        if backend.deferred and backend.receiver is not None
    }


def update_timeouts(admissions: Mapping[str, Admission[Server]], config: Config) -> None:
    """Sets the patience of backends by the current routes."""
    for name, admission in admissions.items():
        given_s = patience_s(name, config.backends[name], config.routes)
        for replica in admission.replicas:
            replica.target.patience_s = given_s


def routes(config: Config, backends: Mapping[str, Backend]) -> Sequence[Route]:
    """All routes in their order."""
    return [_route(entry, backends, config.backends[entry.backend]) for entry in config.routes]


def sources(config: Config, backends: Mapping[str, Backend]) -> Sequence[Source]:
    """All backends as the catalogue asks them for their tools."""
    ordered = routes(config, backends)
    return [
        Source(
            name=name,
            backend=backends[name],
            refresh_s=settings.discovery.refresh_s,
            max_tools=settings.discovery.max_tools,
            max_schema_bytes=settings.discovery.max_schema_bytes,
            routes=ordered,
            terms=settings.model_dump(exclude=OF_CALLS),
        )
        for name, settings in config.backends.items()
    ]


def _route(entry: RouteSettings, backends: Mapping[str, Backend], backend: BackendSettings) -> Route:
    return Route(
        tools=entry.tools,
        backend_name=entry.backend,
        backend=backends[entry.backend],
        deny=entry.deny,
        timeout_s=entry.timeout_s or backend.timeout_s,
        scopes=frozenset(entry.scopes),
        secrets={key: secret.get_secret_value() for key, secret in entry.secrets.items()},
        context=frozenset(entry.context),
        authorization_urls=entry.authorization_urls,
        idempotent=entry.idempotent,
        validate_output=OutputCheck(entry.validate_output),
        forward_headers=tuple(name.encode("ascii") for name in backend.forward_headers),
        cancel_on_timeout=entry.on_timeout == "cancel",
        decode=entry.decode,
        failure_patterns=entry.failure_patterns,
        config_ids=frozenset(entry.config_ids),
    )
