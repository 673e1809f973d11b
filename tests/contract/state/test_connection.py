"""RedisConnection: one connection for all commands, a new one after a failure, never the reply to another command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.connections import RedisConnection, connect, pack
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

ID = pack(b"CLIENT", b"ID")


@pytest.fixture
async def connection(redis_server: RedisServer) -> AsyncIterator[RedisConnection]:
    redis = connect(RedisAddress.parse(redis_server.url))
    connection = RedisConnection(redis, (3, [pack(b"APPEND", b"greetings", b"hello ")]))
    yield connection
    await connection.aclose()
    await redis.aclose()


async def test_one_connection_serves_all_commands_even_after_an_error(connection: RedisConnection) -> None:
    first = await connection.execute(2, [ID])
    assert await connection.execute(3, [pack(b"SET"), pack(b"key", b"two\r\nlines")]) == b"OK"
    with pytest.raises(ResponseError):
        await connection.execute(1, [pack(b"NONSENSE")])
    assert await connection.execute(2, [pack(b"GET", b"key")]) == b"two\r\nlines"
    assert await connection.execute(2, [ID]) == first


async def test_a_connection_that_the_server_has_closed_is_replaced_by_one_that_begins_with_the_greeting(
    connection: RedisConnection, redis_server: RedisServer
) -> None:
    greetings = pack(b"GET", b"greetings")
    first = await connection.execute(2, [ID])
    assert await connection.execute(2, [greetings]) == b"hello "
    async with connect(RedisAddress.parse(redis_server.url)) as other:
        await other.client_kill_filter(_id=str(first))
        for _ in range(2):  # what the server says after it has closed the first arrives after its end
            await other.ping()
    assert await connection.execute(2, [ID]) != first
    assert await connection.execute(2, [greetings]) == b"hello hello "


async def test_a_late_reply_is_not_taken_for_the_next(connection: RedisConnection) -> None:
    await connection.execute(2, [ID])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connection.execute(3, [pack(b"BLPOP", b"nothing", b"0.2")])
    assert await connection.execute(2, [pack(b"ECHO", b"mine")]) == b"mine"
