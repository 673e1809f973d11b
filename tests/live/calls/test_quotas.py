"""A caller uses its quota of calls up, on whatever replica; what others have and what they begin is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.live.calls.site import Replica, pair
from tests.support.calling import call, caller, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.tokens import SECRET, token
from tests.support.yard import WORK, Yard, yard

PENDING, RECORDS = 20, 60
FLOOD = 100
AGAIN_S = 0.1
AUTH = {"jwt": [{"secret": SECRET}]}
PATIENT = {"timeout": "1m", "queue_timeout": "1m"}  # no call is lost to a busy machine
ACCEPTED, REFUSED = httpx.codes.ACCEPTED, httpx.codes.TOO_MANY_REQUESTS


@dataclass(frozen=True)
class Tenant:
    """A caller that uses all replicas. Its call ids are those of everybody; its numbers begin at `first`."""

    at: Sequence[httpx.AsyncClient]
    first: int
    tools: Yard

    async def ask(self, number: int) -> httpx.Response:
        """Asks as callers do: again, where it is told so because a busy machine kept Redis from answering in time."""
        http = self.at[number % len(self.at)]
        while True:
            answer = await call(http, WORK, {"number": self.first + number}, call_id=f"call-{number}")
            if answer.status_code != httpx.codes.BAD_REQUEST or "retry-after" not in answer.headers:
                return answer
            await asyncio.sleep(AGAIN_S)

    async def begin(self, numbers: Iterable[int]) -> list[int]:
        """Asks all at once; returns those that were begun. The others must have been refused for the quota."""
        asked = list(numbers)
        answers = await asyncio.gather(*(self.ask(number) for number in asked))
        assert {answer.status_code for answer in answers} <= {ACCEPTED, REFUSED}
        assert all("retry-after" in answer.headers for answer in answers if answer.status_code == REFUSED)
        return [number for number, answer in zip(asked, answers, strict=True) if answer.status_code == ACCEPTED]

    async def finish(self, numbers: Collection[int]) -> None:
        own = [self.first + number for number in numbers]
        await until(lambda: self.tools.taken.keys() >= set(own), "the tool server has them")
        assert set(await self.tools.call_back(own)) <= {200}
        for number in numbers:  # a result that is taken may have to wait for Redis
            await until(partial(self.is_over, number), "it is over")

    async def is_over(self, number: int) -> bool:
        return (await self.ask(number)).status_code == httpx.codes.OK


@asynccontextmanager
async def tenant(name: str, replicas: Sequence[Replica], first: int, tools: Yard) -> AsyncIterator[Tenant]:
    headers = {"Authorization": f"Bearer {token(name)}", "Prefer": "respond-async"}
    one, two = (replica.running.url for replica in replicas)
    async with caller(one, headers=headers) as here, caller(two, headers=headers) as there:
        yield Tenant((here, there), first, tools)


@pytest.mark.anyio
@pytest.mark.soak
async def test_a_flood_of_call_ids_ends_at_the_quota_of_who_sends_it(tmp_path: Path) -> None:
    quotas = {"max_pending_per_caller": PENDING, "max_records_per_caller": RECORDS}
    with running_redis(tmp_path) as redis:
        async with (
            yard() as tools,
            pair(redis, tools.url, quotas, backend=PATIENT, auth=AUTH) as replicas,
            tenant("ada", replicas, 0, tools) as ada,
            tenant("eve", replicas, 1000, tools) as eve,
        ):
            assert await ada.begin(range(5)) == list(range(5))
            await ada.finish(range(5))

            begun = await eve.begin(range(FLOOD))
            assert len(begun) == PENDING
            await eve.finish(begun)
            for more in (range(FLOOD, FLOOD + PENDING), range(2 * FLOOD, 3 * FLOOD), range(3 * FLOOD, 4 * FLOOD)):
                now = await eve.begin(more)
                await eve.finish(now)
                begun += now
            assert len(begun) == RECORDS
            assert value(await eve.ask(begun[0])) == {"number": 1000 + begun[0]}

            for number in range(5):
                assert value(await ada.ask(number)) == {"number": number}
            assert await ada.begin(range(5, 5 + PENDING)) == list(range(5, 5 + PENDING))
            await ada.finish(range(5, 5 + PENDING))
            assert value(await ada.ask(5)) == {"number": 5}
            assert tools.ran_once
