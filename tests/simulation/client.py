"""What the gateway uses of redis-py, over simulated servers: the real code above it does not know the difference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from redis.exceptions import AskError, ClusterDownError, MovedError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.simulation.loop import HERE
from tests.simulation.servers import Connection, Server

CONNECT_S = 0.5  # as redis-py is told by `gateway.redisclient.connections`
KINDS: dict[str, type[ResponseError]] = {
    "NOSCRIPT": NoScriptError,
    "READONLY": ReadOnlyError,
    "MOVED": MovedError,
    "ASK": AskError,
    "CLUSTERDOWN": ClusterDownError,
}


def _raised(reply: hiredis.ReplyError) -> ResponseError:
    """An error as redis-py raises it: without its kind, if that has a class."""
    kind, _, text = str(reply).partition(" ")
    return KINDS[kind](text) if kind in KINDS else ResponseError(str(reply))


class SimulatedConnection:
    """A connection as `RedisConnection` uses it."""

    def __init__(self, below: Connection) -> None:
        self.below = below
        self.socket_timeout: float | None = CONNECT_S

    async def send_packed_command(self, command: Sequence[bytes], check_health: bool = True) -> None:
        if not self.below.is_open:
            raise RedisConnectionError("closed")
        reader = hiredis.Reader()
        reader.feed(b"".join(command))
        while asked := reader.gets():
            self.below.send(asked)

    async def read_response(self) -> Any:
        try:
            reply = await self.below.next_reply()
        except ConnectionResetError as exc:
            raise RedisConnectionError("Connection closed by server.") from exc
        except asyncio.CancelledError:
            self.below.close()  # so that no late reply is taken for that to another command
            raise
        if isinstance(reply, hiredis.ReplyError):
            raise _raised(reply)
        return reply

    async def can_read(self) -> bool:
        return self.below.has_reply or not self.below.is_open

    async def disconnect(self, nowait: bool = False) -> None:
        self.below.close()


class SimulatedPool:
    """Connects to the server that `find` names; None: nobody knows one."""

    def __init__(self, find: Callable[[], Server | None]) -> None:
        self._find = find

    async def get_connection(self) -> SimulatedConnection:
        here, server = HERE.get(), self._find()
        if server is None:
            await asyncio.sleep(0.001)
            raise RedisConnectionError("no sentinel that answers knows a primary that is up")
        if server.machine.is_dead:
            await asyncio.sleep(0.001)
            raise RedisConnectionError("Connection refused.")
        await asyncio.sleep(server.network.delay_s(here.name, server.name))
        while server.machine.is_frozen or server.network.is_cut(here.name, server.name):
            await asyncio.sleep(CONNECT_S)
            raise RedisTimeoutError("Timeout connecting to server")
        return SimulatedConnection(Connection(server, here))

    async def release(self, connection: SimulatedConnection) -> None: ...

    async def disconnect(self, inuse_connections: bool = True) -> None: ...


class SimulatedSubscription:
    """A connection that hears messages; connects again once it has failed."""

    def __init__(self, pool: SimulatedPool) -> None:
        self._pool = pool
        self._connection: SimulatedConnection | None = None

    async def __aenter__(self) -> SimulatedSubscription:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._connection is not None:
            self._connection.below.close()

    async def subscribe(self, *channels: str) -> None:
        await self._ask(b"SUBSCRIBE", [channel.encode() for channel in channels])

    async def ssubscribe(self, *channels: bytes) -> None:
        await self._ask(b"SSUBSCRIBE", channels)

    async def _ask(self, command: bytes, channels: Sequence[bytes]) -> None:
        if self._connection is None or not self._connection.below.is_open:
            self._connection = await self._pool.get_connection()
        for channel in channels:
            self._connection.below.send([command, channel])

    async def get_message(self, timeout: float) -> dict[str, Any] | None:
        assert self._connection is not None
        below = self._connection.below
        try:
            async with asyncio.timeout(timeout):
                reply = await below.next_reply()
        except TimeoutError:
            if below.server.network.is_cut(below.machine.name, below.server.name) or below.server.machine.is_frozen:
                below.close()  # redis-py has asked for a sign of life
                raise RedisTimeoutError("Timeout reading from server") from None
            return None
        except ConnectionResetError as exc:
            raise RedisConnectionError("Connection closed by server.") from exc
        if isinstance(reply, hiredis.ReplyError):
            raise _raised(reply)
        kind, channel, data = reply
        return {"type": kind.decode(), "channel": channel, "data": data}


class SimulatedRedis:
    """A client, as far as the gateway uses it."""

    place = "redis://simulated:6379/0"

    def __init__(self, find: Callable[[], Server | None]) -> None:
        self.connection_pool = SimulatedPool(find)

    def pubsub(self) -> SimulatedSubscription:
        return SimulatedSubscription(self.connection_pool)

    async def publish(self, channel: bytes | str, message: bytes | str) -> None: ...

    async def spublish(self, channel: bytes | str, message: bytes | str) -> None: ...

    async def info(self, *_sections: str) -> dict[str, Any]:
        raise ResponseError("not told")

    async def aclose(self) -> None: ...
