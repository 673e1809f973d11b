"""From settings to running parts: what each section of the configuration is made into."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gateway.admission import Admission, AdmissionLimits, BreakerRules
from gateway.backends.callback import ACK_TIMEOUT_S, CallbackBackend
from gateway.backends.credentials import Credentials, Fixed, Minted
from gateway.backends.http import HttpBackend
from gateway.backends.http_listing import Terms
from gateway.backends.rcrt import RcrtBackend
from gateway.backends.rcrt_client import FixedTokens, IssuedTokens, Tokens
from gateway.backends.rcrt_timings import Timings
from gateway.backends.server import Server
from gateway.catalogue.offer import Source
from gateway.dialects import recognise
from gateway.memory import BodyMemory
from gateway.offload import Checker, Offload
from gateway.ports import Backend, Outcomes, Receiver, ServerDialect
from gateway.routing import OutputCheck, Route
from gateway.settings import (
    ApiKeyAuthSettings,
    BackendSettings,
    BearerAuthSettings,
    BreakerSettings,
    CallbackBackendSettings,
    Config,
    HttpBackendSettings,
    JwtAuthSettings,
    RcrtBackendSettings,
    RouteSettings,
    TlsSettings,
)
from gateway.transport import Limits, Origin, Pool

SPARE_CONNECTIONS = 16  # beside calls: an event stream, lists, challenges, notices, tokens, results that are looked for

ASKS_IN: dict[str, ServerDialect] = {
    "otc": recognise.OTC,
    "oxp": recognise.OXP,
}  # how a tool server of unknown dialect is asked for its tools


def admission(
    name: str, settings: BackendSettings, routes: Sequence[RouteSettings], memory: BodyMemory
) -> Admission[Server]:
    """The way into a backend, with connections to all replicas of its tool server, whose answers `memory` counts."""
    given_s = patience_s(name, settings, routes)
    targets = [(url, Server(url, _pool(settings, url, memory), given_s)) for url in settings.addresses]
    limits = AdmissionLimits(
        concurrency=settings.max_concurrency,
        queue=settings.max_queue,
        queue_timeout_s=settings.queue_timeout_s,
        breaker=BreakerRules(failures=settings.breaker.failures, open_for_s=settings.breaker.open_for_s),
    )
    return Admission(name, targets, limits)


def patience_s(name: str, settings: BackendSettings, routes: Sequence[RouteSettings]) -> float:
    """The shortest time the configuration gives any exchange of a call to this backend."""
    timeouts = [route.timeout_s or settings.timeout_s for route in routes if route.backend == name and not route.deny]
    shortest_s = min(timeouts, default=settings.timeout_s)
    match settings:
        case CallbackBackendSettings():
            return min(shortest_s, ACK_TIMEOUT_S)
        case RcrtBackendSettings():
            return min(shortest_s, Timings().create_s)
    return shortest_s


def backend(
    name: str,
    settings: BackendSettings,
    admission: Admission[Server],
    outcomes: Outcomes,
    refresh: Callable[[str], None],
    checker: Checker,
    lists: Offload,
    *,
    pending_s: float,
) -> Backend:
    """The adapter to one tool server; `refresh` is called with its name when its tools have changed.

    A call is waited for `pending_s` at the most. `lists` reads long lists of tools.
    """
    bounds = settings.discovery
    terms = Terms(bounds.max_tools, bounds.max_schema_bytes, lists)
    match settings:
        case HttpBackendSettings():
            return _http_backend(name, settings, admission, checker, terms)
        case CallbackBackendSettings():
            return _callback_backend(name, settings, admission, outcomes, refresh, checker, terms)
        case RcrtBackendSettings():
            return _rcrt_backend(name, settings, admission, outcomes, refresh, checker, pending_s, terms)
        case _:
            raise TypeError(f"no adapter for {type(settings).__name__}")


def _http_backend(
    name: str, settings: HttpBackendSettings, admission: Admission[Server], checker: Checker, lists: Terms
) -> Backend:
    dialect = None if settings.dialect == "auto" else recognise.SERVER_DIALECTS[settings.dialect]
    return HttpBackend(
        name,
        admission,
        dialect=dialect,
        asks_in=dialect or ASKS_IN[settings.protocol],
        credentials=_credentials(settings),
        toolkit=settings.toolkit or name,
        max_response_bytes=settings.max_response_bytes,
        checker=checker,
        lists=lists,
    )


def _callback_backend(
    name: str,
    settings: CallbackBackendSettings,
    admission: Admission[Server],
    outcomes: Outcomes,
    refresh: Callable[[str], None],
    checker: Checker,
    lists: Terms,
) -> Backend:
    pool = admission.replicas[0].target.pool
    pools = {Origin.parse(url): _pool(settings, url) for url in settings.allowed_origins} | {pool.origin: pool}
    return CallbackBackend(
        name,
        admission,
        pools,
        credentials=_credentials(settings),
        outcomes=outcomes,
        checker=checker,
        on_change=lambda: refresh(name),
        max_response_bytes=settings.max_response_bytes,
        lists=lists,
    )


def _rcrt_backend(
    name: str,
    settings: RcrtBackendSettings,
    admission: Admission[Server],
    outcomes: Outcomes,
    refresh: Callable[[str], None],
    checker: Checker,
    pending_s: float,
    lists: Terms,
) -> Backend:
    server = admission.replicas[0].target
    return RcrtBackend(
        name,
        admission,
        tokens=_rcrt_tokens(settings, server),
        outcomes=outcomes,
        checker=checker,
        workspace=settings.workspace,
        toolkit=settings.toolkit or name,
        max_response_bytes=settings.max_response_bytes,
        on_change=lambda: refresh(name),
        wall_clock=time.time,
        request_schema=settings.request_schema,
        return_to_llm=settings.return_to_llm,
        cleanup=settings.cleanup,
        timings=Timings(watch_s=pending_s),
        lists=lists,
    )


def _rcrt_tokens(settings: RcrtBackendSettings, server: Server) -> Tokens:
    if settings.auth is not None:
        return FixedTokens(Fixed.bearer(settings.auth.bearer.reveal()).headers("anonymous"))
    return IssuedTokens(
        server,
        owner_id=settings.owner_id,
        agent_id=settings.agent_id,
        clock=time.monotonic,
        wall_clock=time.time,
    )


def _pool(settings: BackendSettings, url: str, memory: BodyMemory | None = None) -> Pool:
    """Connections to one server. It is the backend's admission that limits calls; this pool is there should it fail."""
    origin = Origin.parse(url)
    limits = Limits(
        connections=settings.max_concurrency + SPARE_CONNECTIONS,
        connect_timeout_s=settings.connect_timeout_s,
    )
    return Pool(origin, limits, _trust(settings, (url,)), memory)


def _trust(settings: BackendSettings, urls: Iterable[str]) -> ssl.SSLContext | None:
    """Whose certificates count for a backend, and the one of ours; None where no URL begins with https."""
    if not any(Origin.parse(url).is_tls for url in urls):
        return None  # it reads hundreds of certificates
    files = settings.tls or TlsSettings()
    context = ssl.create_default_context(cafile=files.ca)  # with a `ca` it trusts nobody else
    context.set_alpn_protocols(["http/1.1"])
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key)
    return context


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


def receivers(backends: Mapping[str, Backend]) -> Mapping[str, Receiver]:
    """What takes the callbacks of those tool servers that call back."""
    return {
        name: backend.receiver
        for name, backend in backends.items()
        if backend.deferred and backend.receiver is not None
    }


def give_patience(admissions: Mapping[str, Admission[Server]], config: Config) -> None:
    """Tells backends that stay how long calls have by the routes there are now."""
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
            terms=_terms(settings),
        )
        for name, settings in config.backends.items()
    ]


def _terms(settings: BackendSettings) -> BackendSettings:
    """The settings that decide which tools a tool server lists and what they mean: all but those of calls alone."""
    return replace(
        settings,
        connect_timeout_s=0.0,
        timeout_s=0.0,
        max_concurrency=0,
        max_queue=0,
        queue_timeout_s=0.0,
        breaker=BreakerSettings(),
        max_response_bytes=0,
        forward_headers=(),
    )


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
        config_ids=frozenset(entry.config_ids),
    )
