"""The way to Redis when it breaks: what has certainly not been done is told from what may have been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.state.address import Address
from gateway.state.link import Link, NotDone
from gateway.state.port import StateUnavailable
from gateway.state.servers import connect
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

SETTINGS = {"replica": "r", "pending_ms": 1000, "lease_ms": 1000, "settle_in_ms": 1000}


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[Link]:
    redis = connect(Address.parse(redis_server.url))
    link = Link(redis, SETTINGS, lambda reason: None)
    link.is_up = True
    yield link
    await link.aclose()
    await redis.aclose()


async def test_what_was_sent_may_have_been_done_and_what_waited_behind_it_was_not(
    redis_server: RedisServer, link: Link
) -> None:
    assert await link.ask("get", "k") == [b"absent"]
    redis_server.freeze()
    sent = link.ask("get", "k")
    await asyncio.sleep(0)  # it has been asked for
    await asyncio.sleep(0)  # and is on its way
    behind = link.ask("get", "k")
    first, second = await asyncio.gather(sent, behind, return_exceptions=True)
    redis_server.thaw()
    assert isinstance(first, StateUnavailable)
    assert not isinstance(first, NotDone)
    assert isinstance(second, NotDone)
    with pytest.raises(NotDone):
        await link.ask("get", "k")
