"""Handshakes under way are bounded for each network and in all, and the oldest gives way."""

from __future__ import annotations

import asyncio

import pytest

from gateway.net.server.acceptor import LEAST, MOST, SHARE, Handshakes
from gateway.net.server.options import SPARE_CONNECTIONS

pytestmark = pytest.mark.anyio


def begin(handshakes: Handshakes, network: str, many: int) -> list[asyncio.Task[None]]:
    """Handshakes that hang."""
    tasks = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(many)]
    for task in tasks:
        handshakes.begin(network, task)
    return tasks


def cancelled(tasks: list[asyncio.Task[None]]) -> list[bool]:
    return [bool(task.cancelling()) for task in tasks]


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)


async def test_the_oldest_of_a_network_gives_way_when_it_has_its_share() -> None:
    handshakes = Handshakes(lambda: 100_000)
    others, crowd = begin(handshakes, "b", 1), begin(handshakes, "a", MOST // SHARE + 2)
    assert cancelled(crowd) == [True, True] + [False] * (MOST // SHARE)
    assert cancelled(others) == [False]
    await end(*crowd, *others)
    assert len(handshakes) == 0


async def test_the_network_that_has_most_gives_way_when_there_are_too_many_in_all() -> None:
    most = LEAST - 10 + SPARE_CONNECTIONS
    handshakes = Handshakes(lambda: LEAST - 10)
    crowd = begin(handshakes, "a", LEAST)
    others = [task for number in range(most) for task in begin(handshakes, str(number), 1)]
    assert len(handshakes) == most
    assert all(cancelled(crowd))
    assert not any(cancelled(others))
    await end(*crowd, *others)


async def test_those_that_are_over_count_no_more() -> None:
    handshakes = Handshakes(lambda: 1)
    for _ in range(2 * (SPARE_CONNECTIONS + 1)):
        (task,) = begin(handshakes, "a", 1)
        assert len(handshakes) == 1
        await end(task)
    assert len(handshakes) == 0
