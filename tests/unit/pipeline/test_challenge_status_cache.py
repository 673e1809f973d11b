"""Checks of challenges: one answer for all who look at the same one, and never many looks at once."""

from __future__ import annotations

import asyncio

import pytest

from gateway.pipeline.challenges import (
    MAX_CHECKS_PER_BACKEND,
    MAX_SHARED,
    SHARED_S,
    Challenge,
    ChallengeStatusCache,
    ServerChallenge,
)
from tests.unit.net.client.scripted import until
from tests.unit.upstream.admission.clock import Clock

pytestmark = pytest.mark.anyio


class Asked:
    """Answers while `held` is set; counts what was asked, and how many at once."""

    def __init__(self) -> None:
        self.status: str | Exception = "pending"
        self.challenges: list[Challenge] = []
        self.under_way = 0
        self.held = asyncio.Event()
        self.held.set()

    async def __call__(self, challenge: Challenge) -> str:
        self.challenges.append(challenge)
        self.under_way += 1
        try:
            await self.held.wait()
        finally:
            self.under_way -= 1
        if isinstance(self.status, Exception):
            raise self.status
        return self.status


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_looks_at_the_same_time_share_a_request_even_if_the_first_of_them_leaves(clock: Clock) -> None:
    asked = Asked()
    asked.held.clear()
    looks = ChallengeStatusCache(asked, clock)
    looking = [asyncio.create_task(looks.status(ServerChallenge("mail", "/1"))) for _ in range(50)]
    await until(lambda: asked.under_way == 1)
    looking[0].cancel()
    asked.held.set()
    assert await asyncio.gather(*looking[1:]) == ["pending"] * 49
    assert len(asked.challenges) == 1


async def test_few_looks_are_under_way_at_one_backend_and_others_are_pending_at_once(clock: Clock) -> None:
    asked = Asked()
    asked.status = "completed"
    looks = ChallengeStatusCache(asked, clock)
    assert await looks.status(ServerChallenge("mail", "/known")) == "completed"
    clock.now += SHARED_S
    asked.held.clear()
    looking = [
        asyncio.create_task(looks.status(ServerChallenge("mail", f"/{number}")))
        for number in range(MAX_CHECKS_PER_BACKEND)
    ]
    await until(lambda: asked.under_way == MAX_CHECKS_PER_BACKEND)
    assert await looks.status(ServerChallenge("mail", "/more")) == "pending"
    assert await looks.status(ServerChallenge("mail", "/known")) == "completed"  # as it was
    looking.append(asyncio.create_task(looks.status(ServerChallenge("calendar", "/1"))))
    await until(lambda: asked.under_way == MAX_CHECKS_PER_BACKEND + 1)
    asked.held.set()
    assert set(await asyncio.gather(*looking)) == {"completed"}
    assert await looks.status(ServerChallenge("mail", "/more")) == "completed"


async def test_a_failed_look_fails_all_who_share_it_and_is_repeated(clock: Clock) -> None:
    asked = Asked()
    asked.status = RuntimeError("a bug")
    looks = ChallengeStatusCache(asked, clock)
    answers = await asyncio.gather(
        *(looks.status(ServerChallenge("mail", "/1")) for _ in range(3)), return_exceptions=True
    )
    assert answers == [asked.status] * 3
    asked.status = "pending"
    assert await looks.status(ServerChallenge("mail", "/1")) == "pending"


async def test_no_more_answers_are_held_than_there_is_room_for(clock: Clock) -> None:
    asked = Asked()
    looks = ChallengeStatusCache(asked, clock)
    for number in range(MAX_SHARED + 1):
        await looks.status(ServerChallenge("mail", f"/{number}"))
    await looks.status(ServerChallenge("mail", f"/{MAX_SHARED}"))
    assert len(asked.challenges) == MAX_SHARED + 1
    await looks.status(ServerChallenge("mail", "/0"))  # forgotten
    assert len(asked.challenges) == MAX_SHARED + 2


async def test_looks_under_way_end_with_the_gateway(clock: Clock) -> None:
    asked = Asked()
    asked.held.clear()
    looks = ChallengeStatusCache(asked, clock)
    look = asyncio.create_task(looks.status(ServerChallenge("mail", "/1")))
    await until(lambda: asked.under_way == 1)
    await looks.aclose()
    assert asked.under_way == 0
    with pytest.raises(asyncio.CancelledError):
        await look
