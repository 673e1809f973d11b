"""When the connection to Redis breaks, what has certainly not been done is distinguished from what may have been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from gateway.state.address import Address
from gateway.state.connections import connect
from gateway.state.port import StateLimits, StateUnavailable
from gateway.state.redis import SCRIPT
from gateway.state.replica_sync import Timing
from gateway.state.script_client import NotDone, ScriptClient
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

SETTINGS = {"replica": "r"} | structs.asdict(StateLimits()) | structs.asdict(Timing())


@pytest.fixture
async def scripts(redis_server: RedisServer) -> AsyncIterator[ScriptClient]:
    redis = connect(Address.parse(redis_server.url))
    scripts = ScriptClient(redis, SCRIPT, lambda reason: None, max_batch=100, settings=SETTINGS, greeting=[("greet",)])
    scripts.is_up = True
    yield scripts
    await scripts.aclose()
    await redis.aclose()


async def test_what_was_sent_may_have_been_done_and_what_waited_behind_it_was_not(
    redis_server: RedisServer, scripts: ScriptClient
) -> None:
    assert await scripts.ask("get", "k") == [b"absent"]
    redis_server.freeze()
    sent = scripts.ask("get", "k")
    await asyncio.sleep(0)  # it has been asked for
    await asyncio.sleep(0)  # and is on its way
    behind = scripts.ask("get", "k")
    first, second = await asyncio.gather(sent, behind, return_exceptions=True)
    redis_server.thaw()
    assert isinstance(first, StateUnavailable)
    assert not isinstance(first, NotDone)
    assert isinstance(second, NotDone)
    with pytest.raises(NotDone):
        await scripts.ask("get", "k")
