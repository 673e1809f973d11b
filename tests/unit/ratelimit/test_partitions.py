"""Buckets of one request in several partitions, one of which cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.core.errors import StateUnavailable
from gateway.core.sealing import Digester
from gateway.ratelimit.redis import RedisBuckets
from gateway.ratelimit.rules import LimitPlan
from gateway.redisclient.store import Reply, partition_of
from tests.unit.ratelimit.model import calendar_rule, parts, rule

pytestmark = pytest.mark.anyio

TAKEN = [1, 1, 86_000_000_000]


class Answering:
    """A partition that answers as it is told to."""

    def __init__(self, answer: Reply | StateUnavailable) -> None:
        self.is_up = True
        self.asked: list[tuple[Any, ...]] = []
        self._answer = answer

    def ask(self, *operation: Any, keys: Sequence[bytes] = (), probing: bool = False) -> asyncio.Future[Reply]:
        self.asked.append(operation)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if isinstance(self._answer, StateUnavailable):
            reply.set_exception(self._answer)
        else:
            reply.set_result(self._answer)
        return reply

    async def aclose(self) -> None:
        pass


class TwoPartitions:
    """A store of which only the scripts are asked for."""

    prefixes = ("toolgate:{0}:", "toolgate:{1}:")

    def __init__(self, *answers: Reply | StateUnavailable) -> None:
        self.opened = [Answering(answer) for answer in answers]

    def scripts(self, partition: int, *_: Any, **__: Any) -> Answering:
        return self.opened[partition]


IP = next(ip for ip in map("10.0.0.{}".format, range(9)) if partition_of(ip, 2) == 1)
CALLER = next(caller for caller in map("key:{}".format, range(9)) if partition_of(caller, 2) == 0)
QUOTA = calendar_rule("day", 5)
PLAN = LimitPlan((QUOTA, rule("tools-of-address", parts=("ip", "tool"))))


@pytest.mark.parametrize("is_known", [False, True])
async def test_if_a_partition_is_away_nothing_stays_taken_from_another(is_known: bool) -> None:
    store: Any = TwoPartitions(TAKEN, StateUnavailable("away"))
    buckets = RedisBuckets(store, Digester([], "rate limits"))
    here, there = store.opened
    there.is_up = not is_known
    with pytest.raises(StateUnavailable):
        await buckets.take(PLAN, parts(CALLER, IP))
    assert [operation[1:] for operation in here.asked] == ([] if is_known else [(), ([TAKEN[2]],)])
    assert len(there.asked) == (not is_known)


async def test_a_limit_that_refuses_shows_the_others_untouched() -> None:
    refusing_us = 1_200_000  # all three of them are gone
    store: Any = TwoPartitions(TAKEN, [0, refusing_us, 0])
    outcome = await RedisBuckets(store, Digester([], "rate limits")).take(PLAN, parts(CALLER, IP))
    assert outcome.refused is PLAN.rules[1]
    assert outcome.debts == (0, refusing_us * 2 * 1000)
