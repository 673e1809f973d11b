"""A connection that stays taken: one for everything, another when it has broken, and never a stranger's reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from gateway.state.address import Address
from gateway.state.dedicated import Dedicated, packed
from gateway.state.servers import connect
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

ID = packed(b"CLIENT", b"ID")


@pytest.fixture
async def dedicated(redis_server: RedisServer) -> AsyncIterator[Dedicated]:
    redis = connect(Address.parse(redis_server.url))
    dedicated = Dedicated(redis, (1, [packed(b"PING")]))
    yield dedicated
    await dedicated.aclose()
    await redis.aclose()


async def test_all_is_asked_over_one_connection_refusals_too(dedicated: Dedicated) -> None:
    first = await dedicated.ask(2, [ID])
    assert await dedicated.ask(3, [packed(b"SET"), packed(b"key", b"two\r\nlines")]) == b"OK"
    with pytest.raises(ResponseError):
        await dedicated.ask(1, [packed(b"NONSENSE")])
    assert await dedicated.ask(2, [packed(b"GET", b"key")]) == b"two\r\nlines"
    assert await dedicated.ask(2, [ID]) == first


async def test_a_connection_that_the_server_has_closed_is_replaced_before_it_is_used(
    dedicated: Dedicated, redis_server: RedisServer
) -> None:
    first = await dedicated.ask(2, [ID])
    async with connect(Address.parse(redis_server.url)) as other:
        await other.client_kill_filter(_id=str(first))
        for _ in range(2):  # what the server says after it has closed the first arrives after its end
            await other.ping()
    assert await dedicated.ask(2, [ID]) != first


async def test_a_reply_nobody_waited_for_is_not_taken_for_the_next(dedicated: Dedicated) -> None:
    await dedicated.ask(2, [ID])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await dedicated.ask(3, [packed(b"BLPOP", b"nothing", b"0.2")])
    assert await dedicated.ask(2, [packed(b"ECHO", b"mine")]) == b"mine"


async def test_once_given_back_it_is_taken_again_when_needed(dedicated: Dedicated) -> None:
    first = await dedicated.ask(2, [ID])
    await dedicated.aclose()
    assert await dedicated.ask(2, [ID]) != first


async def test_the_greeting_is_the_first_thing_asked_over_each_connection(redis_server: RedisServer) -> None:
    async with connect(Address.parse(redis_server.url)) as redis:
        dedicated = Dedicated(redis, (3, [packed(b"APPEND", b"greetings", b"hello ")]))
        first = await dedicated.ask(2, [ID])
        async with connect(Address.parse(redis_server.url)) as other:
            await other.client_kill_filter(_id=str(first))
            for _ in range(2):
                await other.ping()
        said = packed(b"GET", b"greetings")
        assert [await dedicated.ask(2, [said]) for _ in range(2)] == [b"hello hello "] * 2
        await dedicated.aclose()
        assert await dedicated.ask(2, [said]) == b"hello " * 3
        await dedicated.aclose()
