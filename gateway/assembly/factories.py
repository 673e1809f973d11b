"""From settings to running parts: what each section of the configuration is made into.

The library for Redis takes a tenth of the time of a start, so only functions that need it import it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gateway.catalogue.evaluation import ToolSource
from gateway.catalogue.published import InputCheck, OutputCheck, Route
from gateway.core.encoders import Encoder
from gateway.core.ports import Backend, Receiver
from gateway.core.sealing import Digester, Sealer, TimedSealer
from gateway.core.surfaces import Surface
from gateway.http.origins import PageOrigins
from gateway.protocols import PROTOCOLS
from gateway.protocols.mcp.callers import surface as mcp
from gateway.protocols.mcp.callers.auth import Protection
from gateway.protocols.mcp.callers.surface import McpSurface
from gateway.protocols.mcp.settings import McpBackendSettings
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.otc.surface import REST
from gateway.ratelimit import MemoryBuckets, RateLimits, Rule
from gateway.ratelimit.rules import CALENDAR_STEP_S, DAY_S
from gateway.redisclient.address import RedisAddress
from gateway.settings import BackendSettings, Config, RateLimitSettings, RouteSettings, StateSettings, TlsSettings
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import BackendContext, Server
from gateway.usage import Ledger, UsageRecorder

if TYPE_CHECKING:
    from gateway.redisclient.connections import RedisClient, Tls
    from gateway.redisclient.inspection import Findings
    from gateway.redisclient.store import PartitionStore


class Adapter(Protocol):
    """Makes a backend from its settings: a class whose instances are backends.

    `max_exchange_s` is how long one exchange of a call may take, whatever the timeout of the call.
    """

    @property
    def max_exchange_s(self) -> float: ...

    def __call__(self, name: str, settings: Any, context: BackendContext, /) -> Backend: ...


def adapter(settings: BackendSettings) -> Adapter:
    """What makes the backend of such settings."""
    made_by: Adapter = PROTOCOLS[settings.protocol].backend_class()
    return made_by


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


def surfaces(config: Config, sealer: Sealer, consents: TimedSealer, public_url: Callable[[], str]) -> Sequence[Surface]:
    """The protocols that callers speak; the first answers for paths that belong to no surface.

    `sealer` is for MCP's sessions, `consents` for what its callers bring back from their users.
    """
    mcp_settings = config.mcp
    if not mcp_settings.enabled:
        return (REST,)
    needed = [set(route.scopes) for route in config.routes if not route.deny]
    mcp_surface = McpSurface(
        mcp_settings.path,
        sealer,
        consents,
        instructions=mcp_settings.instructions,
        stream_after_s=mcp_settings.stream_after_s,
        task_after_s=None if config.state is None else mcp_settings.task_after_s,
        listens=mcp_settings.listen.max > 0,
        lists_exact=mcp_settings.schemas == "exact",
        versions=mcp_settings.versions,
        protection=Protection(
            path=mcp_settings.path,
            public_url=public_url,
            issuers=() if config.auth is None else config.auth.authorization_servers,
            scopes=sorted(set.intersection(*needed)) if needed else (),
        ),
        allows_page=PageOrigins(config.server, public_url).allows,
    )
    return REST, mcp_surface


def patience_s(config: Config) -> Mapping[str, float]:
    """The shortest time the configuration gives any exchange of a call, by backend."""
    timeouts: dict[str, list[float]] = {name: [] for name in config.backends}
    for route in config.routes:
        if not route.deny:
            timeouts[route.backend].append(route.timeout_s or config.backends[route.backend].timeout_s)
    return {
        name: min(min(timeouts[name], default=settings.timeout_s), adapter(settings).max_exchange_s)
        for name, settings in config.backends.items()
    }


def receivers(backends: Mapping[str, Backend]) -> Mapping[str, Receiver]:
    """What takes the callbacks of those tool servers that call back."""
    return {
        name: backend.receiver
        for name, backend in backends.items()
        if backend.deferred and backend.receiver is not None
    }


def update_timeouts(admissions: Mapping[str, Admission[Server]], config: Config) -> None:
    """Sets the patience of backends by the current routes."""
    patience = patience_s(config)
    for name, admission in admissions.items():
        for replica in admission.replicas:
            replica.target.patience_s = patience[name]


def routes(config: Config, backends: Mapping[str, Backend]) -> Sequence[Route]:
    """All routes in their order."""
    return [_route(entry, backends, config.backends[entry.backend]) for entry in config.routes]


def sources(config: Config, backends: Mapping[str, Backend], called: Mapping[str, Backend]) -> Sequence[ToolSource]:
    """All backends as the catalogue asks them for their tools, and as their tools are `called`."""
    of_backend: dict[str, dict[int, Route]] = {name: {} for name in config.backends}
    for position, route in enumerate(routes(config, called)):
        of_backend[route.backend_name][position] = route
    return [
        ToolSource(
            name=name,
            backend=backends[name],
            refresh_s=settings.discovery.refresh_s,
            max_tools=settings.discovery.max_tools,
            max_schema_bytes=settings.discovery.max_schema_bytes,
            routes=of_backend[name],
            toolkit=settings.toolkit or name,
            terms=_terms(settings),
            trusts_hints=_trusts_hints(settings),
            longest_name=config.mcp.max_name,
        )
        for name, settings in config.backends.items()
    ]


def _terms(settings: BackendSettings) -> Mapping[str, object]:
    """The settings that decide what a tool server lists, and what that means."""
    names = type(settings).model_fields.keys() - OF_CALLS
    return {"kind": type(settings)} | {name: getattr(settings, name) for name in names}


def _trusts_hints(settings: BackendSettings) -> bool:
    """Whether the hints of a tool decide what may be sent twice; those of operations are what HTTP promises."""
    if isinstance(settings, McpBackendSettings):
        return settings.trust_annotations
    return isinstance(settings, OpenApiBackendSettings)


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
        validate_input=InputCheck(entry.validate_input),
        validate_output=OutputCheck(entry.validate_output),
        forward_headers=tuple(name.encode("ascii") for name in backend.forward_headers),
        cancel_on_timeout=entry.on_timeout == "cancel",
        decode=entry.decode,
        failure_patterns=entry.failure_patterns,
        config_ids=frozenset(entry.config_ids),
    )


def state(settings: StateSettings) -> State:
    """The state that a configuration asks for, in Redis or in this process."""
    limits = StateLimits(
        pending_ttl_s=settings.pending_ttl_s,
        result_ttl_s=settings.result_ttl_s,
        seen_ttl_s=settings.seen_ttl_s,
        max_pending=settings.max_pending_per_caller,
        max_records=settings.max_records_per_caller,
        max_result_bytes=settings.max_result_bytes,
        max_bytes=settings.max_bytes,
        max_bytes_per_caller=settings.quota_bytes,
    )
    address = settings.address
    if address is None:
        return MemoryState(limits, time.monotonic)
    from gateway.state.redis import RedisState

    sealer = Sealer([key.get_secret_value() for key in settings.keys], "state")
    return RedisState(shared_store(settings, address), limits, sealer)


def shared_store(settings: StateSettings, address: RedisAddress) -> PartitionStore:
    """The data at an address, over connections of its own."""
    if address.is_cluster:
        from gateway.redisclient.cluster import ClusterStore

        return ClusterStore(address, _tls(settings))
    from gateway.redisclient.server_store import ServerStore

    return ServerStore(redis_client(settings, address))


def redis_client(settings: StateSettings, address: RedisAddress) -> RedisClient:
    """A client for the servers at an address."""
    from gateway.redisclient.connections import connect

    password = settings.sentinel_password
    return connect(
        address,
        tls=_tls(settings),
        sentinel_password=None if password is None else password.get_secret_value(),
    )


async def look_at_redis(settings: StateSettings, address: RedisAddress) -> Findings:
    """Finds out what an operator should know of the servers at an address."""
    if address.is_cluster:
        from gateway.redisclient.cluster_inspection import inspect_cluster

        return await inspect_cluster(address, _tls(settings))
    from gateway.redisclient.inspection import inspect

    async with redis_client(settings, address) as redis:
        return await inspect(redis)


def _tls(settings: StateSettings) -> Tls:
    from gateway.redisclient.connections import Tls

    files = settings.tls or TlsSettings()
    return Tls(ca=files.ca, cert=files.cert, key=files.key)


def unfinished_here(state: State) -> int:
    """How many open calls are known to this process only, and end with it."""
    return 0 if is_shared(state) else state.pending().total()


def is_shared(state: State) -> bool:
    """Whether other processes see the same state."""
    return not isinstance(state, MemoryState)


def rate_limits(config: Config, measure: Callable[[str, float], None]) -> RateLimits:
    """The rate limits of a configuration, counted where its state is."""
    rules = rate_limit_rules(config)
    here = MemoryBuckets(time.monotonic_ns)
    settings = config.state or StateSettings()
    if settings.address is None:
        return RateLimits(rules, here, measure=measure)
    from gateway.ratelimit.redis import RedisBuckets

    digester = Digester([key.get_secret_value() for key in settings.keys], "rate limits")
    buckets = RedisBuckets(shared_store(settings, settings.address), digester)
    return RateLimits(rules, here, buckets, on_failure=config.limits_on_failure, measure=measure)


def usage_ledger(config: Config) -> Ledger | None:
    """Where the calls of each key and issuer are counted; None where they are not."""
    if config.usage is None or config.state is None or config.state.address is None:
        return None
    store = shared_store(config.state, config.state.address)
    return Ledger(store, keep_days=int(config.usage.keep_s // DAY_S), max_rows=config.usage.max_rows)


def usage(config: Config) -> UsageRecorder | None:
    """Counts the calls of each key and issuer; None where they are not counted."""
    ledger = usage_ledger(config)
    if ledger is None or config.usage is None:
        return None
    return UsageRecorder(ledger, flush_s=config.usage.flush_s, clock=time.time)


def rate_limit_rules(config: Config) -> Sequence[Rule]:
    return [_rule(entry) for entry in config.rate_limits]


def _rule(entry: RateLimitSettings) -> Rule:
    window = entry.rate.window
    return Rule(
        name=entry.name,
        parts=entry.key,
        count=1 if window else entry.rate.count,
        per_s=CALENDAR_STEP_S if window else entry.rate.per_s,
        burst=entry.at_once,
        window=window,
        operations=frozenset(entry.operations),
        tools=entry.tools,
        backends=frozenset(entry.backends),
    )
