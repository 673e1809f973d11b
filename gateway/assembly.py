"""From settings to running parts: what each section of the configuration is made into."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence

import httpx

from gateway.auth import JwtAuthenticator, JwtIssuer, NoAuthentication
from gateway.backends.callback import CallbackBackend
from gateway.backends.credentials import Credentials, Fixed, Minted
from gateway.backends.http import HttpBackend
from gateway.backends.rcrt import RcrtBackend
from gateway.backends.rcrt_client import FixedTokens, IssuedTokens, Tokens
from gateway.catalogue import Source
from gateway.dialects import recognise
from gateway.ports import Authenticator, Backend, Outcomes, ServerDialect
from gateway.routing import OutputCheck, Route
from gateway.settings import (
    ApiKeyAuthSettings,
    AuthSettings,
    BackendSettings,
    BearerAuthSettings,
    CallbackBackendSettings,
    Config,
    HttpBackendSettings,
    JwtAuthSettings,
    RcrtBackendSettings,
    RouteSettings,
    StateSettings,
)
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits
from gateway.state.redis import RedisState, connect
from gateway.state.sealing import Sealer
from gateway.transport import HttpTransport, Limits, Origin, Pool

ASKS_IN: dict[str, ServerDialect] = {
    "otc": recognise.OTC,
    "oxp": recognise.OXP,
}  # how a tool server of unknown dialect is asked for its tools


def state(settings: StateSettings) -> State:
    """Where calls are remembered: in Redis, or in this process."""
    limits = StateLimits(
        pending_ttl_s=settings.pending_ttl_s,
        result_ttl_s=settings.result_ttl_s,
        seen_ttl_s=settings.seen_ttl_s,
        max_pending=settings.max_pending_per_caller,
        max_records=settings.max_records_per_caller,
        max_result_bytes=settings.max_result_bytes,
        max_bytes=settings.max_bytes,
    )
    if settings.url is None:
        return MemoryState(limits, time.monotonic)
    keys = [key.reveal() for key in settings.keys]
    return RedisState(connect(settings.url.reveal()), limits, Sealer(keys, "state"))


def authenticator(auth: AuthSettings | None) -> Authenticator:
    if auth is None:
        return NoAuthentication()
    issuers = [
        JwtIssuer(
            secret=entry.secret.reveal(),
            issuer=entry.issuer,
            audience=frozenset(entry.audience),
            require=entry.require,
            scope_claim=entry.scope_claim,
            leeway_s=entry.leeway_s,
            max_lifetime_s=entry.max_lifetime_s,
        )
        for entry in auth.jwt
    ]
    return JwtAuthenticator(issuers, clock=time.time)


def backend(name: str, settings: BackendSettings, outcomes: Outcomes, refresh: Callable[[str], None]) -> Backend:
    """The adapter to one tool server; `refresh` is called with its name when its tools have changed."""
    match settings:
        case HttpBackendSettings():
            return _http_backend(name, settings)
        case CallbackBackendSettings():
            return _callback_backend(name, settings, outcomes, refresh)
        case RcrtBackendSettings():
            return _rcrt_backend(name, settings, outcomes, refresh)
        case _:
            raise TypeError(f"no adapter for {type(settings).__name__}")


def _http_backend(name: str, settings: HttpBackendSettings) -> Backend:
    dialect = None if settings.dialect == "auto" else recognise.SERVER_DIALECTS[settings.dialect]
    return HttpBackend(
        name,
        _pool(settings, settings.url),
        settings.url,
        dialect=dialect,
        asks_in=dialect or ASKS_IN[settings.protocol],
        credentials=_credentials(settings),
        toolkit=settings.toolkit or name,
        max_response_bytes=settings.max_response_bytes,
    )


def _callback_backend(
    name: str, settings: CallbackBackendSettings, outcomes: Outcomes, refresh: Callable[[str], None]
) -> Backend:
    pools = {Origin.parse(url): _pool(settings, url) for url in (settings.url, *settings.allowed_origins)}
    return CallbackBackend(
        name,
        settings.url,
        pools,
        credentials=_credentials(settings),
        outcomes=outcomes,
        on_change=lambda: refresh(name),
        max_response_bytes=settings.max_response_bytes,
    )


def _rcrt_backend(
    name: str, settings: RcrtBackendSettings, outcomes: Outcomes, refresh: Callable[[str], None]
) -> Backend:
    pool = _pool(settings, settings.url)
    return RcrtBackend(
        name,
        pool,
        httpx.AsyncClient(transport=HttpTransport(pool.limits), trust_env=False),
        settings.url,
        tokens=_rcrt_tokens(settings, pool),
        outcomes=outcomes,
        workspace=settings.workspace,
        toolkit=settings.toolkit or name,
        max_response_bytes=settings.max_response_bytes,
        on_change=lambda: refresh(name),
        wall_clock=time.time,
        request_schema=settings.request_schema,
        return_to_llm=settings.return_to_llm,
        config_ids=settings.config_ids,
        cleanup=settings.cleanup,
    )


def _rcrt_tokens(settings: RcrtBackendSettings, pool: Pool) -> Tokens:
    if settings.auth is not None:
        return FixedTokens(Fixed.bearer(settings.auth.bearer.reveal()).headers("anonymous"))
    return IssuedTokens(
        pool,
        settings.url,
        owner_id=settings.owner_id,
        agent_id=settings.agent_id,
        clock=time.monotonic,
        wall_clock=time.time,
    )


def _pool(settings: BackendSettings, url: str) -> Pool:
    origin = Origin.parse(url)
    limits = Limits(
        connections=settings.max_concurrency,
        waiters=settings.max_queue,
        connect_timeout_s=settings.connect_timeout_s,
    )
    return Pool(origin, limits, ssl.create_default_context() if origin.is_tls else None)


def _credentials(settings: BackendSettings) -> Credentials:
    match settings.auth:
        case None:
            return Fixed()
        case BearerAuthSettings(bearer=token):
            return Fixed.bearer(token.reveal())
        case ApiKeyAuthSettings(api_key=key):
            return Fixed.api_key(settings.protocol, key.reveal())
        case JwtAuthSettings(jwt=token):
            return Minted(
                token.secret.reveal(),
                issuer=token.issuer,
                audience=token.audience,
                subject=token.subject,
                ttl_s=token.ttl_s,
                clock=time.time,
            )


def sources(config: Config, backends: Mapping[str, Backend]) -> Sequence[Source]:
    routes = [_route(entry, backends, config.backends[entry.backend]) for entry in config.routes]
    return [
        Source(
            name=name,
            backend=backends[name],
            refresh_s=settings.discovery.refresh_s,
            max_tools=settings.discovery.max_tools,
            max_schema_bytes=settings.discovery.max_schema_bytes,
            routes=routes,
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
        secrets={key: secret.reveal() for key, secret in entry.secrets.items()},
        context=frozenset(entry.context),
        authorization_urls=entry.authorization_urls,
        idempotent=entry.idempotent,
        validate_output=OutputCheck(entry.validate_output),
        forward_headers=tuple(name.encode("ascii") for name in backend.forward_headers),
        cancel_on_timeout=entry.on_timeout == "cancel",
        decode=entry.decode,
        failure_patterns=entry.failure_patterns,
    )
