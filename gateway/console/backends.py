"""The backends: what is up, what waits, what is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from gateway.assembly.generation import Generation
from gateway.console.view import RefusedQuestionError, text_of
from gateway.core.model import JsonObject
from gateway.state.port import State
from gateway.upstream.admission import Replica
from gateway.upstream.replica_url import Server

MAX_LEFT_OUT = 200  # tools that are named with their reasons, for each backend
WORST = ("closed", "half_open", "open")
ADDED = ("in_flight", "max_in_flight", "queued", "max_queued", "pending")


def backends(generation: Generation, state: State, now: Callable[[], float] = time.time) -> JsonObject:
    """All backends, in the order of the configuration."""
    pending = state.pending()
    return {"backends": [_backend(generation, name, pending[name], now()) for name in generation.backends]}


def _backend(generation: Generation, name: str, pending: int, now: float) -> JsonObject:
    backend, status, admitted = (
        generation.backends[name],
        generation.catalogue.status(name),
        generation.admissions[name],
    )
    left_out = [{"tool": one.id, "reason": one.reason} for one in status.rejected]
    left_out += [{"tool": text, "reason": "not passed on: it was not asked for at first"} for text in status.withheld]
    replicas = [_replica(each, now) for each in admitted.replicas]
    if status.failing_s is not None:  # all of them were asked
        silent = {"up": False, "reason": status.last_error, "since_at": round(now - status.failing_s)}
        replicas = [each | silent if each["up"] else each for each in replicas]
    down = next((each["reason"] for each in replicas if each["reason"]), None)
    is_up = status.up and admitted.breaker != "open"
    return {
        "name": name,
        "protocol": generation.config.backends[name].protocol,
        "up": is_up,
        "reason": None if is_up else status.last_error or down or "it was not asked for its tools yet",
        "since_at": None if status.failing_s is None else round(now - status.failing_s),
        "breaker": admitted.breaker,
        "in_flight": admitted.in_flight,
        "max_in_flight": admitted.limits.concurrency,
        "queued": admitted.queued,
        "max_queued": admitted.limits.queue,
        "tools": status.tools,
        "age_s": None if status.age_s is None else round(status.age_s, 1),
        "tools_shut": admitted.tools_shut,
        "pending": pending if backend.deferred else None,
        "stream_up": backend.stream_up if backend.deferred else None,
        "replicas": replicas,
        "left_out": left_out[:MAX_LEFT_OUT],
        "left_out_more": max(0, len(left_out) - MAX_LEFT_OUT),
    }


def _replica(replica: Replica[Server], now: float) -> JsonObject:
    is_up = replica.breaker.state == "closed"
    return {
        "name": replica.name,
        "up": is_up,
        "reason": None if is_up else replica.reason or None,
        "since_at": round(now - replica.breaker.changed_ago_s),
        "in_flight": replica.in_flight,
    }


def refresh(generation: Generation, about: JsonObject) -> JsonObject:
    """Asks a backend for its tools again, soon. Raises RefusedQuestionError."""
    name = text_of(about, "name")
    if name not in generation.catalogue:
        raise RefusedQuestionError(404, "There is no such backend.")
    generation.catalogue.refresh(name)
    return {}


def merged(answers: Sequence[JsonObject]) -> JsonObject:
    """One answer of those of several processes: loads are added up, and the worst state is shown."""
    found: dict[str, list[JsonObject]] = {}
    for answer in answers:
        for each in answer["backends"]:
            found.setdefault(each["name"], []).append(each)
    return {"backends": [_merged(same) for same in found.values()]}


def _merged(same: Sequence[JsonObject]) -> JsonObject:
    one = dict(same[0])
    for name in ADDED:
        one[name] = _total(each[name] for each in same)
    one["up"] = all(each["up"] for each in same)
    one["reason"] = next((each["reason"] for each in same if each["reason"]), None)
    one["breaker"] = max((each["breaker"] for each in same), key=WORST.index)
    one["stream_up"] = None if one["stream_up"] is None else all(each["stream_up"] for each in same)
    one["tools"], one["tools_shut"] = min(each["tools"] for each in same), max(each["tools_shut"] for each in same)
    one["age_s"] = max((each["age_s"] for each in same if each["age_s"] is not None), default=None)
    by_name: dict[str, list[JsonObject]] = {}
    for each in same:
        for replica in each["replicas"]:
            by_name.setdefault(replica["name"], []).append(replica)
    one["replicas"] = [_merged_replica(each) for each in by_name.values()]
    return one


def _merged_replica(same: Sequence[JsonObject]) -> JsonObject:
    """The one that is down, if there is one, with the calls of all."""
    worst = min(same, key=lambda each: bool(each["up"]))
    return worst | {"in_flight": _total(each["in_flight"] for each in same)}


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
