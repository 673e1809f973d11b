"""Callers of tools that answer later who hang up: without an id their calls end with them, and take no place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.calls.site import KEY, Replica, callback_settings, replica
from tests.support.calling import WAYS, call, connect, encoded_call, leave, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, Yard, yard

pytestmark = pytest.mark.anyio

PENDING = 3  # calls that a caller may have that are not over


@contextmanager
def state_of(kind: str, directory: Path) -> Iterator[dict[str, Any]]:
    """Settings of a state in memory, or in a Redis that runs meanwhile."""
    if kind == "memory":
        yield {}
        return
    with running_redis(directory) as redis:
        yield {"url": redis.url, "keys": [KEY]}


async def hang_up(gateway: Replica, tools: Yard, number: int, way: str, **members: Any) -> None:
    """Makes a call and leaves once its tool server has it."""
    _, writer = await connect(gateway.running.url)
    writer.write(encoded_call(WORK, {"number": number}, **members))
    await until(lambda: number in tools.taken, "the tool server has the call")
    leave(writer, way)
    writer.close()


@pytest.mark.parametrize("kind", ["memory", "redis"])
async def test_a_call_without_an_id_ends_with_its_caller_and_one_with_an_id_does_not(kind: str, tmp_path: Path) -> None:
    with state_of(kind, tmp_path) as state:
        quota = {"max_pending_per_caller": PENDING}
        async with (
            yard() as tools,
            replica(callback_settings(tools.url, {"timeout": "60s"}, state=state | quota)) as it,
        ):
            await hang_up(it, tools, 0, "closes", call_id="kept")
            for number in range(1, 3 * PENDING):
                await hang_up(it, tools, number, WAYS[number % len(WAYS)])
                await until(lambda: len(tools.cancelled) == number, "the tool server is notified")  # noqa: B023
            expected = [tools.taken[number]["id"] for number in range(1, 3 * PENDING)]
            assert tools.cancelled == expected

            assert await tools.call_back([0]) == [200]
            assert value(await call(it.http, WORK, {"number": 0}, call_id="kept")) == {"number": 0}
            asking = asyncio.create_task(call(it.http, WORK, {"number": 100}))
            await until(lambda: 100 in tools.taken, "there is a place for the next one")
            assert await tools.call_back([100]) == [200]
            assert value(await asking) == {"number": 100}
            assert tools.cancelled == expected
            assert tools.ran_once
