"""A connection to Redis that is not given back between two commands, for a user that asks all the time.

For each command a client takes a connection from its pool, counts that, has a task of its own do the write, sets two
timers, and gives the connection back: 210,000 instructions, more than everything else about a batch together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError


def packed(*words: bytes) -> bytes:
    """Words of a command as they are sent (RESP, bulk strings)."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class Dedicated:
    """Sends one command after the other. It connects when that is first needed, and anew after the connection broke.

    The first command over each connection is the `greeting`: the number of its words, and the words.
    """

    def __init__(self, redis: Redis, greeting: tuple[int, Sequence[bytes]]) -> None:
        self._pool = redis.connection_pool
        self._greeting = greeting
        self._connection: AbstractConnection | None = None

    async def ask(self, count: int, words: Sequence[bytes]) -> Any:
        """The reply to a command of `count` words, which are `packed`, in any number of pieces.

        The time is for the caller to limit. Raises RedisError, OSError.
        """
        connection = self._connection
        if connection is None or await _is_unfit(connection):
            connection = await self._connect()
            await self._send(connection, *self._greeting)
        return await self._send(connection, count, words)

    async def _send(self, connection: AbstractConnection, count: int, words: Sequence[bytes]) -> Any:
        # Both close the connection when something goes wrong, so no late reply is taken for that to another command.
        await connection.send_packed_command([b"*%d\r\n" % count, *words], check_health=False)
        return await connection.read_response(timeout=math.inf)

    async def _connect(self) -> AbstractConnection:
        connection = self._connection
        if connection is None:
            connection = self._connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
            connection.socket_timeout = None  # with one, each write is a task, and each read sets a timer
        else:
            await self._pool.ensure_connection(connection)
        return connection

    async def aclose(self) -> None:
        """Gives the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)


async def _is_unfit(connection: AbstractConnection) -> bool:
    """Whether it was closed, or has received something that nobody asked for."""
    try:
        return await connection.can_read()
    except (RedisError, OSError):
        return True
