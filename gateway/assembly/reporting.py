"""What operators see of a gateway: the labels of its metrics, its gauges, and its detailed health."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass

from gateway import __version__
from gateway.assembly.authenticators import Issuers, accounts
from gateway.assembly.factories import DIALECTS, is_shared
from gateway.assembly.generation import Current, Generation
from gateway.auth import Reason
from gateway.core.model import JsonObject
from gateway.core.surfaces import Surface
from gateway.metrics import GaugeSample, LabelValues, Metrics, families
from gateway.net.body_memory import BodyMemory
from gateway.offload import ChildTasks, Offload
from gateway.settings import Config
from gateway.settings.limits import ALWAYS_THERE, BUILT_IN
from gateway.state.port import State
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server

BREAKERS = {"closed": 0.0, "half_open": 1.0, "open": 2.0}


def label_values(config: Config, more: Iterable[Surface] = ()) -> LabelValues:
    """The values that the labels of metrics may have."""
    return LabelValues(
        dialects=DIALECTS.union(*(surface.dialects for surface in more)),
        protocols={name: backend.protocol for name, backend in config.backends.items()},
        reasons=frozenset(str(reason) for reason in Reason),
        accounts=accounts(config.auth),
        rules=frozenset({BUILT_IN, *ALWAYS_THERE, *(rule.name for rule in config.rate_limits)}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Reads all gauges, in the event loop: some microseconds for each backend and for each hundred pending calls."""

    current: Current
    state: State
    issuers: Issuers
    memory: BodyMemory
    listeners: Sized
    use_of_connections: Callable[[], tuple[int, int]]  # how many callers are connected, and how many may be

    def __call__(self) -> Iterator[GaugeSample]:
        connections, max_connections = self.use_of_connections()
        yield GaugeSample(families.BUILD, (__version__,), 1.0)
        yield GaugeSample(families.BODY_MEMORY, (), float(self.memory.held))
        yield GaugeSample(families.BODY_MEMORY_LIMIT, (), float(self.memory.limit_bytes))
        yield GaugeSample(families.LISTENERS, (), float(len(self.listeners)))
        yield GaugeSample(families.CONNECTIONS, (), float(connections))
        yield GaugeSample(families.CONNECTIONS_LIMIT, (), float(max_connections))
        generation = self.current.generation()
        yield from generation.expiries
        yield from _state_samples(self.state)
        for name, issuer in self.issuers.status().items():
            yield GaugeSample(families.ISSUER_UP, (name,), float(issuer.up))
            if issuer.age_s is not None:
                yield GaugeSample(families.ISSUER_AGE, (name,), issuer.age_s)
            if issuer.keys_expire_at is not None:
                yield GaugeSample(families.ISSUER_EXPIRY, (name,), issuer.keys_expire_at)
        yield from _backend_samples(generation, self.state)


def _backend_samples(generation: Generation, state: State) -> Iterator[GaugeSample]:
    pending = state.pending()
    for name, backend in generation.backends.items():
        status = generation.catalogue.status(name)
        yield GaugeSample(families.BACKEND_UP, (name,), float(status.up))
        yield GaugeSample(families.CATALOGUE_TOOLS, (name,), float(status.tools))
        if status.age_s is not None:
            yield GaugeSample(families.CATALOGUE_AGE, (name,), status.age_s)
        if backend.deferred:
            yield GaugeSample(families.PENDING, (name,), float(pending[name]))
            if backend.stream_up is not None:
                yield GaugeSample(families.STREAM_UP, (name,), float(backend.stream_up))
        yield from _admission_samples(name, generation.admissions[name])


def _admission_samples(name: str, admitted: Admission[Server]) -> Iterator[GaugeSample]:
    """The gauges about the calls to a backend, its queue, its replicas and the connections to them."""
    limits, in_use, idle, opening, most = admitted.limits, 0, 0, 0, 0
    for replica in admitted.replicas:
        yield GaugeSample(families.REPLICA_UP, (name, replica.name), float(replica.breaker.state == "closed"))
        pool = replica.target.pool
        use = pool.use()
        in_use, idle, opening = in_use + use.in_use, idle + use.idle, opening + use.opening
        most += pool.limits.connections
    labels = (name,)
    yield GaugeSample(families.IN_FLIGHT, labels, float(admitted.in_flight))
    yield GaugeSample(families.IN_FLIGHT_LIMIT, labels, float(limits.concurrency))
    yield GaugeSample(families.WAITING, labels, float(admitted.queued))
    yield GaugeSample(families.WAITING_LIMIT, labels, float(limits.queue))
    yield GaugeSample(families.BREAKER, labels, BREAKERS[admitted.breaker])
    yield GaugeSample(families.TOOLS_SHUT, labels, float(admitted.tools_shut))
    yield GaugeSample(families.BACKEND_CONNECTIONS_LIMIT, labels, float(most))
    for state, count in (("in_use", in_use), ("idle", idle), ("opening", opening)):
        yield GaugeSample(families.BACKEND_CONNECTIONS, (name, state), float(count))


def _state_samples(state: State) -> Iterator[GaugeSample]:
    yield GaugeSample(families.STATE_UP, (), float(state.is_up))
    if state.partitions > 1:
        yield GaugeSample(families.STATE_AWAY, (), float(state.partitions_away))
    if (capacity := state.capacity) is not None:
        yield GaugeSample(families.STATE_BYTES, (), float(capacity.used_bytes))
        if capacity.max_bytes is not None:
            yield GaugeSample(families.STATE_MAX_BYTES, (), float(capacity.max_bytes))


@dataclass(slots=True, kw_only=True)
class GatewayHealth:
    """The health of a gateway (`http.apps.Health`)."""

    current: Current
    state: State
    issuers: Issuers
    metrics: Metrics
    is_draining: bool = False  # it is to stop

    @property
    def status(self) -> str:
        if self.is_draining:
            return "draining"
        return "ok" if self.current.generation().catalogue.ready else "starting"

    def details(self) -> JsonObject:
        """The state, issuers and backends, with ages and what is wrong."""
        generation = self.current.generation()
        authorizer = generation.authorizer
        return {
            "status": self.status,
            "version": __version__,
            **self.metrics.about_reloads(),
            "state": _state_details(self.state),
            "issuers": {name: issuer.as_json() for name, issuer in self.issuers.status().items()},
            **({} if authorizer is None else {"authorization": authorizer.details()}),
            "backends": _backend_details(generation, self.state),
        }


def _backend_details(generation: Generation, state: State) -> JsonObject:
    """Each backend, which is up if its tools could be listed and a replica of it takes calls."""
    details: JsonObject = {}
    pending = state.pending()
    for name, backend in generation.backends.items():
        status, admitted = generation.catalogue.status(name), generation.admissions[name]
        about: JsonObject = {"dialect": backend.dialect} | status.as_json() | admitted.as_json()
        about["up"] = status.up and admitted.breaker != "open"
        if backend.deferred:
            about["pending"] = pending[name]
            if backend.stream_up is not None:
                about["stream_up"] = backend.stream_up
        details[name] = about
    return details


def _state_details(state: State) -> JsonObject:
    capacity, trouble = state.capacity, state.trouble
    return {
        "kept_in": "redis" if is_shared(state) else "memory",
        "up": trouble is None,
        **({} if trouble is None else {"reason": trouble}),
        **({} if capacity is None else {"used_bytes": capacity.used_bytes, "max_bytes": capacity.max_bytes}),
    }


def children(checker: ChildTasks, lister: Offload) -> dict[str, int]:
    """The processes that work for this one, by name, while there are any."""
    processes = {"checker": checker.pid, "lister": lister.pid}
    return {name: pid for name, pid in processes.items() if pid is not None}


def processes(checker: ChildTasks, lister: Offload) -> dict[str, int]:
    """This process and its children, by name."""
    return {"gateway": os.getpid(), **children(checker, lister)}
