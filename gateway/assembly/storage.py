"""The state of calls and the counters of rate limits: in this process, or in the Redis that replicas share.

The library for Redis takes a tenth of the time of a start, so only functions that need it import it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.ratelimit import Limits as RateLimits
from gateway.ratelimit import MemoryBuckets, Rule
from gateway.settings import Config, RateLimitSettings, StateSettings, TlsSettings
from gateway.state.address import Address
from gateway.state.memory import MemoryState
from gateway.state.port import State, StateLimits
from gateway.state.sealing import Digester, Sealer

if TYPE_CHECKING:
    from redis.asyncio import Redis


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
    return RedisState(redis_client(settings, address), limits, sealer)


def redis_client(settings: StateSettings, address: Address) -> Redis:
    """A client for the servers at an address."""
    from gateway.state.connections import Tls, connect

    files = settings.tls or TlsSettings()
    password = settings.sentinel_password
    return connect(
        address,
        tls=Tls(ca=files.ca, cert=files.cert, key=files.key),
        sentinel_password=None if password is None else password.get_secret_value(),
    )


def unfinished_here(state: State) -> int:
    """How many open calls are known to this process only, and end with it."""
    return 0 if is_shared(state) else state.pending().total()


def is_shared(state: State) -> bool:
    """Whether other processes see the same state."""
    return not isinstance(state, MemoryState)


def rate_limits(config: Config) -> RateLimits:
    """The rate limits of a configuration, counted where its state is."""
    rules = rate_limit_rules(config)
    here = MemoryBuckets(time.monotonic_ns)
    settings = config.state or StateSettings()
    if settings.address is None:
        return RateLimits(rules, here)
    from gateway.ratelimit.redis import RedisBuckets

    digester = Digester([key.get_secret_value() for key in settings.keys], "rate limits")
    buckets = RedisBuckets(redis_client(settings, settings.address), digester)
    return RateLimits(rules, here, buckets, on_failure=config.limits_on_failure)


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
