"""Where calls are remembered and requests are counted: in this process, or in the Redis that replicas share."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from gateway.model import JsonObject
from gateway.ratelimit import Limits as RateLimits
from gateway.ratelimit import MemoryBuckets, Rule
from gateway.settings import Config, RateLimitSettings, StateSettings
from gateway.state.fallback import FallbackState
from gateway.state.known import Known
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits


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
    address = settings.address
    if address is None:
        return MemoryState(limits, time.monotonic)
    from gateway.assembly import shared  # the library for Redis takes a tenth of the time of a start

    if settings.on_failure == "refuse":
        return shared.state(settings, address, limits)
    fallback = _fallback(shared.state(settings, address, limits, on_restored=lambda: fallback.back()), limits)
    return fallback


def _fallback(shared: State, limits: StateLimits) -> FallbackState:
    """Redis with this process's memory behind it; a quarter of that remembers which calls Redis knows."""
    met_bytes = limits.max_bytes // 4
    local = MemoryState(replace(limits, max_bytes=limits.max_bytes - met_bytes), time.monotonic, shared.replica)
    remembered_s = limits.pending_ttl_s + limits.result_ttl_s + limits.seen_ttl_s
    return FallbackState(shared, local, Known(remembered_s, met_bytes, time.monotonic))


def state_details(state: State) -> JsonObject:
    """Where new calls are remembered at the moment, for operators."""
    if isinstance(state, MemoryState):
        return {"kept_in": "memory", "up": True}
    if isinstance(state, FallbackState):
        kept_in = "redis" if state.is_up else "memory"
        return {"kept_in": kept_in, "up": state.is_up, "unfinished_here": state.unfinished_here}
    return {"kept_in": "redis", "up": state.is_up}


def unfinished_here(state: State) -> int:
    """How many calls that are not over only this process knows of: they end with it."""
    if isinstance(state, FallbackState):
        return state.unfinished_here
    return 0 if is_shared(state) else state.pending().total()


def is_shared(state: State) -> bool:
    """Whether others can see what is remembered."""
    return not isinstance(state, MemoryState)


def rate_limits(config: Config) -> RateLimits:
    """How often callers may ask, counted where calls are remembered."""
    rules = rate_limit_rules(config)
    here = MemoryBuckets(time.monotonic_ns)
    settings = config.state or StateSettings()
    if settings.address is None:
        return RateLimits(rules, here)
    from gateway.assembly import shared  # the library for Redis takes a tenth of the time of a start

    local = here if settings.on_failure == "local" else None
    return RateLimits(rules, here, shared.buckets(settings, settings.address, local))


def rate_limit_rules(config: Config) -> Sequence[Rule]:
    return [_rule(entry) for entry in config.rate_limits]


def _rule(entry: RateLimitSettings) -> Rule:
    return Rule(
        name=entry.name,
        parts=entry.key,
        count=entry.rate.count,
        per_s=entry.rate.per_s,
        burst=entry.at_once,
        operations=frozenset(entry.operations),
        tools=entry.tools,
        backends=frozenset(entry.backends),
    )
