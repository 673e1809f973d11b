"""Connections to the Redis that an address names: one server, or the one that its sentinels call the primary.

Only this file relies on parts of redis-py that its documentation does not promise: the packed commands and replies of
a connection, the TLS context it keeps, and the methods of `Sentinel` that a pool calls. `check_library` looks for them
when this file is imported.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import redis
from msgspec import Struct
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig

from gateway.redisclient.address import RedisAddress

BATCH_TIMEOUT_S = 1.0  # for one batch of script operations, connecting included; connecting and each read may take half
SENTINEL_TIMEOUT_S = 0.4 * BATCH_TIMEOUT_S  # for all sentinels, asked at once; the rest is for the primary they name
RETRIES_S = 0.05, 1.0  # the shortest and the longest pause between two attempts to reach a server
LISTEN_S = 5.0  # how long one read of a subscription waits before it checks its connection
CANCEL_AGAIN_S = 0.1
IDLE_S = 10  # after which a connection is tried with a PING before it is used

_OPTIONS: dict[str, Any] = {  # clients give up early and never retry by themselves: ScriptClient and ReplicaSync do
    "retry": Retry(NoBackoff(), 0),  # by default one command against a dead server takes 4 s
    "socket_timeout": BATCH_TIMEOUT_S / 2,
    "socket_connect_timeout": BATCH_TIMEOUT_S / 2,
    "health_check_interval": IDLE_S,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),  # saves a round trip for each connection
}
_REQUIRED: Sequence[tuple[type, str, Sequence[str]]] = (  # class, method, parameters
    (AbstractConnection, "__init__", ("maint_notifications_config",)),
    (AbstractConnection, "send_packed_command", ("command", "check_health")),
    (AbstractConnection, "read_response", ()),
    (AbstractConnection, "can_read", ()),
    (AbstractConnection, "disconnect", ("nowait",)),
    (ConnectionPool, "get_connection", ()),
    (ConnectionPool, "release", ("connection",)),
    (ConnectionPool, "disconnect", ("inuse_connections",)),
    (Sentinel, "discover_master", ("service_name",)),
    (Sentinel, "check_master_state", ("state", "service_name")),
)


def check_library(required: Sequence[tuple[type, str, Sequence[str]]] = _REQUIRED) -> None:
    """Raises ImportError, naming what is missing, unless redis-py has the methods and parameters used here."""
    for owner, method, parameters in required:
        function = getattr(owner, method, None)
        if function is None or not set(parameters) <= inspect.signature(function).parameters.keys():
            signature = f"{owner.__name__}.{method}({', '.join(parameters)})"
            raise ImportError(
                f"redis {redis.__version__} cannot be used, {signature} is missing: install redis>=8.1,<9"
            )


check_library()


class Tls(Struct, frozen=True, kw_only=True):
    """Paths of files in PEM."""

    ca: str | None = None  # the authority to trust; None: those that the system trusts
    cert: str | None = None  # of the client
    key: str | None = None


class RedisClient(Redis):
    """A client that knows where it connects to: `place` is the URL without user and password."""

    place = "Redis"


def place_of(redis: Redis) -> str:
    """Where a client connects to, for logs."""
    return redis.place if isinstance(redis, RedisClient) else RedisClient.place


def connect(address: RedisAddress, *, tls: Tls | None = None, sentinel_password: str | None = None) -> RedisClient:
    """A client, which connects with its first command. Certificates are checked against the host's name.

    Raises OSError (SSLError is one) when the files of `tls` cannot be used.
    """
    context = _context(tls or Tls()) if address.is_tls else None
    common = _OPTIONS | ({"context": context} if context else {})
    options = common | {"db": address.database, "username": address.user, "password": address.password}
    if address.service is None:
        return _at(repr(address), _pool(*address.hosts[0], **options))
    sentinels = _Sentinels(
        [Redis.from_pool(_pool(*host, password=sentinel_password, **common)) for host in address.hosts]
    )
    kind = _SentinelTlsConnection if context else _SentinelConnection
    pool = _SentinelPool(address.service, sentinels, connection_class=kind, **options)  # type: ignore[no-untyped-call]
    return _at(repr(address), pool)


def _at(place: str, pool: ConnectionPool) -> RedisClient:
    client = RedisClient.from_pool(pool)
    assert isinstance(client, RedisClient)
    client.place = place
    return client


def node_options(address: RedisAddress, tls: Tls | None = None) -> dict[str, Any]:
    """How to connect to any node of a cluster. Raises OSError when the files of `tls` cannot be used."""
    login = {"username": address.user, "password": address.password}
    if not address.is_tls:
        return _OPTIONS | login | {"connection_class": _PlainConnection}
    return _OPTIONS | login | {"context": _context(tls or Tls()), "connection_class": _TlsConnection}


def connect_to_node(place: str, host: str, port: int, options: Mapping[str, Any]) -> RedisClient:
    """A client of one node; `options` are those of `node_options`."""
    return _at(place, ConnectionPool(host=host, port=port, **options))


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)  # with a `ca` it trusts no other authority
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


def _pool(host: str, port: int, **options: Any) -> ConnectionPool:
    kind = _TlsConnection if "context" in options else _PlainConnection
    return ConnectionPool(connection_class=kind, host=host, port=port, **options)


class _Writing(AbstractConnection):
    """Names what is raised when the connection that is written to has just been closed.

    uvloop raises an error of its own where the other end closed it, and redis-py has no writer any more where it did.
    """

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except RuntimeError as exc:
            if "closed" not in str(exc):
                raise
            raise RedisConnectionError("Connection closed by server.") from exc
        except AttributeError as exc:
            if self._writer is not None:
                raise
            raise RedisConnectionError("Connection closed.") from exc


class _PlainConnection(_Writing, Connection): ...


class _TlsConnection(_Writing, SSLConnection):
    def __init__(self, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = context  # its own would trust the system's authorities beside those of `ca`


class _SentinelConnection(_Writing, SentinelManagedConnection): ...


class _SentinelTlsConnection(SentinelManagedConnection, _TlsConnection): ...


class _Sentinels(Sentinel):
    """Asks all sentinels at once, so that a silent one takes no time from the others, and believes the newest answer.

    A sentinel that was cut off during a failover names the old primary for a while; its answer has an older epoch.
    """

    def __init__(self, clients: Sequence[Redis]) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]
        self.sentinels = list(clients)

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        questions = (self._ask(sentinel, service_name) for sentinel in self.sentinels)
        answers = await asyncio.gather(*questions, return_exceptions=True)
        primaries = [answer for answer in answers if isinstance(answer, tuple)]
        if primaries:
            _, host, port = max(primaries)
            return host, port
        if None in answers:
            raise MasterNotFoundError(f"no sentinel that answers knows a primary of {service_name!r} that is up")
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        refusals = [error for error in errors if isinstance(error, AuthenticationError)]
        raise MasterNotFoundError("no sentinel answers") from (refusals or errors)[0]

    async def _ask(self, sentinel: Redis, service_name: str) -> tuple[int, str, int] | None:
        """The epoch and the address of the primary; None if the sentinel knows none that is up.

        Raises RedisError, OSError, TimeoutError if the sentinel does not answer.
        """
        async with asyncio.timeout(SENTINEL_TIMEOUT_S):
            masters = cast("Mapping[str, dict[str, Any]]", await sentinel.sentinel_masters())
        state = masters.get(service_name)
        if state is None or not self.check_master_state(state, service_name):
            return None
        return state["config-epoch"], state["ip"], state["port"]


class _SentinelPool(SentinelConnectionPool):
    async def aclose(self) -> None:
        """Closes the connections to the sentinels too, which redis-py leaves open."""
        await super().aclose()
        await self.sentinel_manager.aclose()


async def cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancels tasks that listen, and waits for their ends.

    It cancels more than once: redis-py 8.1 may lose a cancellation that meets a subscription while it reconnects.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)


def pack(*words: bytes) -> bytes:
    """Encodes words of a command (RESP, bulk strings)."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class RedisConnection:
    """Sends commands over a connection that it keeps; connects on demand, and anew after a failure.

    For each command a client takes a connection from its pool, counts that, has a task of its own do the write, sets
    two timers, and gives the connection back: 210,000 instructions, more than everything else about a batch together.
    The caller limits the time of everything here, which raises RedisError, OSError.
    """

    def __init__(self, redis: Redis, greeting: tuple[int, Sequence[bytes]] | None = None) -> None:
        """`greeting` is the first command over each connection: the number of its words, and the words, packed."""
        self._pool = redis.connection_pool
        self._greeting = greeting
        self._connection: AbstractConnection | None = None

    async def execute(self, count: int, words: Sequence[bytes]) -> Any:
        """Returns the reply to a command of `count` words, which are packed, in any number of pieces."""
        if await self.renew() and self._greeting is not None:
            await self._send(*self._greeting)
            await self.read()
        await self._send(count, words)
        return await self.read()

    async def renew(self) -> bool:
        """Connects, unless it is connected; says whether the connection is new."""
        connection = self._connection
        if connection is not None and not await _is_unfit(connection):
            return False
        await self.aclose()
        connection = self._connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        connection.socket_timeout = None  # with one, each write is a task, and each read sets a timer
        return True

    # Both close the connection when they fail, so that no late reply is taken for that to another command.

    async def send(self, commands: list[bytes]) -> None:
        """Writes commands, which are whole and packed, in any number of pieces. It is connected."""
        assert self._connection is not None
        await self._connection.send_packed_command(commands, check_health=False)

    async def read(self) -> Any:
        """The reply to the first command that has none yet. Raises ResponseError if it is one."""
        assert self._connection is not None
        return await self._connection.read_response()

    async def _send(self, count: int, words: Sequence[bytes]) -> None:
        await self.send([b"*%d\r\n" % count, *words])

    async def aclose(self) -> None:
        """Closes the connection and gives it back to its pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)


async def _is_unfit(connection: AbstractConnection) -> bool:
    """Whether it was closed, or has received something that was not asked for."""
    try:
        return await connection.can_read()
    except (RedisError, OSError):
        return True
