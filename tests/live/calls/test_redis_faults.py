"""Redis stopped, frozen, killed and emptied under load: callers notice a delay, and tool servers nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.live.calls.crowd import insist
from tests.live.calls.site import Replica, pair
from tests.support.processes import until
from tests.support.redis_server import RedisServer, running_redis
from tests.support.yard import WORK, Yard, yard

CALLERS = 16  # each makes one call after the other
WAITING = 40  # calls that outlast the fault
AWAY_S = 0.5  # a Redis that restarts; time enough for everybody to notice
FROZEN_S = 2.0  # several times what one question to it may take
OVER_S = 60.0  # for a call to be over, the fault included


@dataclass(frozen=True)
class Works:
    """Everything, running. `numbers` are those no call has had yet."""

    redis: RedisServer
    tools: Yard
    a: Replica
    b: Replica
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def ask(self, number: int) -> None:
        """Makes a call and repeats it, on either replica, until it has its result."""
        urls = [self.a.running.url, self.b.running.url]
        turned = urls if number % 2 else urls[::-1]
        end = await insist(turned, WORK, {"number": number}, f"call-{number}", OVER_S)
        assert end["success"] is True, end
        assert end["value"] == {"number": number}


@pytest.fixture(scope="module")
async def works(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Works]:
    with running_redis(tmp_path_factory.mktemp("redis"), lasting=True) as redis:
        async with yard() as tools, pair(redis, tools.url) as (a, b):
            yield Works(redis, tools, a, b)


async def stopped_and_started(redis: RedisServer) -> AsyncIterator[None]:
    redis.stop()
    yield
    await asyncio.sleep(AWAY_S)
    redis.start()


async def frozen(redis: RedisServer) -> AsyncIterator[None]:
    redis.freeze()
    yield
    await asyncio.sleep(FROZEN_S)
    redis.thaw()


async def killed(redis: RedisServer) -> AsyncIterator[None]:
    redis.kill()
    yield
    await asyncio.sleep(AWAY_S)
    redis.start()


async def killed_and_emptied(redis: RedisServer) -> AsyncIterator[None]:
    redis.kill()
    redis.lose_everything()
    yield
    await asyncio.sleep(AWAY_S)
    redis.start()


async def replaced_at_once(redis: RedisServer) -> AsyncIterator[None]:
    redis.kill()
    redis.lose_everything()
    redis.start()
    yield


@pytest.mark.anyio
@pytest.mark.parametrize(
    "fault",
    [
        frozen,
        killed,
        killed_and_emptied,
        pytest.param(stopped_and_started, marks=pytest.mark.soak),  # kinder than `killed`
        pytest.param(replaced_at_once, marks=pytest.mark.soak),  # without load: tests/live/state/test_redis_gone.py
    ],
)
async def test_every_call_has_its_result_and_none_runs_twice(
    fault: Callable[[RedisServer], AsyncIterator[None]], works: Works
) -> None:
    tools = works.tools
    numbers = [next(works.numbers) for _ in range(WAITING)]
    async with asyncio.TaskGroup() as waiting:
        for number in numbers:
            waiting.create_task(works.ask(number))
        await until(lambda: tools.taken.keys() >= set(numbers), "the calls wait")
        async with stream(works) as done:
            await until(lambda: len(done) > CALLERS, "the stream runs")
            async with asynccontextmanager(fault)(works.redis):
                during = await tools.call_back(numbers[::2])
            before = len(done)
            after = await tools.call_back(numbers[1::2])
            await until(lambda: len(done) > before + 2 * CALLERS, "the stream runs again", OVER_S)
    assert {*during, *after} == {200}
    assert tools.ran_once
    for replica in (works.a, works.b):
        assert '"level":"error"' not in replica.running.log_text()


@asynccontextmanager
async def stream(works: Works) -> AsyncIterator[list[int]]:
    """Calls that follow one another, and what calls back for them; the list grows with the calls that are over."""
    done: list[int] = []
    stopping = asyncio.Event()
    mine: set[int] = set()

    async def caller() -> None:
        while not stopping.is_set():
            number = next(works.numbers)
            mine.add(number)
            await works.ask(number)
            done.append(number)

    async with asyncio.TaskGroup() as callers:
        answering = callers.create_task(_answer(works.tools, mine))
        crowd = [callers.create_task(caller()) for _ in range(CALLERS)]
        yield done
        stopping.set()
        await asyncio.gather(*crowd)
        answering.cancel()


async def _answer(tools: Yard, mine: set[int]) -> None:
    """Calls back for whatever of these calls the tool server has taken."""
    answered: set[int] = set()
    while True:
        due = (mine & tools.taken.keys()) - answered
        answered |= due
        assert set(await tools.call_back(due)) <= {200}
        await asyncio.sleep(0.02)  # the tool works
