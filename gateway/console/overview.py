"""The first page: how the gateway stands as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gateway import __version__
from gateway.assembly.factories import is_shared
from gateway.assembly.generation import Generation
from gateway.auth import IssuerStatus
from gateway.console.history import History
from gateway.core.errors import StateUnavailable
from gateway.core.model import JsonObject
from gateway.metrics import Metrics
from gateway.state.port import State


def about_process(status: str, metrics: Metrics, history: History, now: Callable[[], float] = time.time) -> JsonObject:
    """What the process knows that counts the calls: the gateway itself, or the supervisor of several."""
    return {
        "status": status,
        "version": __version__,
        "started_at": history.began_at,
        "now": now(),
        "reload": {
            "read_at": metrics.read_at,
            "is_current": metrics.is_current,
            **metrics.reloads,
            "problems": list(metrics.reload_problems),
        },
        "history": history.as_json(),
        "workers": [],
    }


async def about_gateway(generation: Generation, state: State, issuers: Mapping[str, IssuerStatus]) -> JsonObject:
    """What each gateway knows: the state, the issuers, the authorization service, the replicas."""
    return {
        "state": _state(state),
        "issuers": [
            {"name": name, "up": it.up, "keys": it.keys, "age_s": it.age_s, "reason": it.last_error}
            for name, it in issuers.items()
        ],
        "authorization": None if generation.authorizer is None else generation.authorizer.details(),
        "replicas": await _replicas(state),
    }


def _state(state: State) -> JsonObject:
    kind = "memory" if not is_shared(state) else "redis" if state.partitions == 1 else "redis cluster"
    capacity, trouble = state.capacity, state.trouble
    about: JsonObject = {"kept_in": kind, "up": trouble is None}
    if trouble is not None:
        about["reason"] = trouble
    if capacity is not None:
        about |= {"used_bytes": capacity.used_bytes, "max_bytes": capacity.max_bytes}
    return about


async def _replicas(state: State) -> list[JsonObject]:
    """The replicas by name, this one first; it alone while the state is away."""
    try:
        ages = dict(await state.replicas())
    except StateUnavailable:
        ages = {}
    ages.setdefault(state.replica, 0.0)
    ordered = sorted(ages, key=lambda name: (name != state.replica, name))
    return [{"name": name, "is_this": name == state.replica, "seen_s": round(ages[name], 1)} for name in ordered]
