"""What replicas share through Redis; imported only where a configuration names one."""

from __future__ import annotations

from redis.asyncio import Redis

from gateway.ratelimit.redis import RedisBuckets
from gateway.settings import StateSettings, TlsSettings
from gateway.state.address import Address
from gateway.state.connections import Tls, connect
from gateway.state.port import StateLimits
from gateway.state.redis import RedisState
from gateway.state.sealing import Digester, Sealer


def client(settings: StateSettings, address: Address) -> Redis:
    """A client for the servers at an address."""
    files = settings.tls or TlsSettings()
    password = settings.sentinel_password
    return connect(
        address,
        tls=Tls(ca=files.ca, cert=files.cert, key=files.key),
        sentinel_password=None if password is None else password.get_secret_value(),
    )


def state(settings: StateSettings, address: Address, limits: StateLimits) -> RedisState:
    """Calls that every replica can see."""
    sealer = Sealer([key.get_secret_value() for key in settings.keys], "state")
    return RedisState(client(settings, address), limits, sealer)


def buckets(settings: StateSettings, address: Address) -> RedisBuckets:
    """Limits that hold for all replicas together."""
    digester = Digester([key.get_secret_value() for key in settings.keys], "rate limits")
    return RedisBuckets(client(settings, address), digester)
