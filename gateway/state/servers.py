"""Clients for the Redis that an address names: one server, or whichever its sentinels call the primary.

They give up early and never try again by themselves: `link` and `tending` decide when that makes sense.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig

from gateway.state.address import Address
from gateway.state.link import FLIGHT_S

SENTINEL_S = 0.4 * FLIGHT_S  # for all sentinels, asked at once; the rest is for the primary they name
IDLE_S = 10  # after which a connection is tried with a PING before it is trusted


_OPTIONS: dict[str, Any] = {
    "retry": Retry(NoBackoff(), 0),  # by default one command against a dead server takes 4 s
    "socket_timeout": FLIGHT_S / 2,
    "socket_connect_timeout": FLIGHT_S / 2,
    "health_check_interval": IDLE_S,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),  # a question more for each connection
}


class Tls(Struct, frozen=True, kw_only=True):
    """Files in PEM: the authority that is trusted (None: those that the system trusts), and our own certificate."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def connect(address: Address, *, tls: Tls | None = None, sentinel_password: str | None = None) -> Redis:
    """A client, which connects with its first command. Certificates are checked against the host's name.

    Raises OSError (SSLError is one) when the files of `tls` cannot be used.
    """
    context = _context(tls or Tls()) if address.is_tls else None
    common = _OPTIONS | ({"context": context} if context else {})
    options = common | {"db": address.database, "username": address.user, "password": address.password}
    if address.service is None:
        return _client(*address.hosts[0], **options)
    sentinels = _Sentinels([_client(*host, password=sentinel_password, **common) for host in address.hosts])
    kind = _WatchedTlsConnection if context else SentinelManagedConnection
    pool = _Pool(address.service, sentinels, connection_class=kind, **options)  # type: ignore[no-untyped-call]
    return Redis.from_pool(pool)


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)  # with a `ca` it trusts nobody else
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


def _client(host: str, port: int, **options: Any) -> Redis:
    kind = _TlsConnection if "context" in options else Connection
    return Redis.from_pool(ConnectionPool(connection_class=kind, host=host, port=port, **options))


class _TlsConnection(SSLConnection):
    def __init__(self, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = context  # its own would trust the system's authorities beside those of `ca`


class _WatchedTlsConnection(SentinelManagedConnection, _TlsConnection): ...


class _Sentinels(Sentinel):
    """Asks all sentinels at once, so that a silent one takes no time from the others, and believes the newest answer.

    A sentinel that was cut off during a failover names the old primary for a while; its answer has an older epoch.
    """

    def __init__(self, clients: Sequence[Redis]) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]
        self.sentinels = list(clients)

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        answers = await asyncio.gather(*(self._ask(sentinel, service_name) for sentinel in self.sentinels))
        known = [answer for answer in answers if answer is not None]
        if not known:
            raise MasterNotFoundError(f"no sentinel that answers knows a primary of {service_name!r} that is up")
        _, host, port = max(known)
        return host, port

    async def _ask(self, sentinel: Redis, service_name: str) -> tuple[int, str, int] | None:
        try:
            async with asyncio.timeout(SENTINEL_S):
                masters = cast("Mapping[str, dict[str, Any]]", await sentinel.sentinel_masters())
        except (RedisError, OSError, TimeoutError):
            return None
        state = masters.get(service_name)
        if state is None or not self.check_master_state(state, service_name):
            return None
        return state["config-epoch"], state["ip"], state["port"]


class _Pool(SentinelConnectionPool):
    async def aclose(self) -> None:
        """Closes the connections to the sentinels too, which nobody else does."""
        await super().aclose()
        await self.sentinel_manager.aclose()
