"""Callbacks that come early, twice, late, for another call or as nonsense (RAP, Transport: Callback Response)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from tests.live.calls.site import Replica, callback_settings, order, ran, replica, statuses
from tests.support.calling import call, value
from tests.support.processes import DemoServer, demo_server, until

BUILD = {"seconds": 0}

Place = tuple[DemoServer, Replica]


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    async with demo_server("rap") as builds, replica(callback_settings(builds.url)) as only:
        yield builds, only


async def build(place: Place, fault: str) -> httpx.Response:
    """A call whose callbacks go wrong; it is named after how, and so runs once for each test."""
    builds, only = place
    await order(builds, "build", fault)
    return await call(only.http, "Builds.build", BUILD, call_id=fault)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "answers"), [("callback_before_ack", [200]), ("reset_before_ack", [200]), ("duplicate", [200, 200])]
)
async def test_a_result_counts_whenever_and_however_often_it_comes(
    place: Place, fault: str, answers: list[int]
) -> None:
    before = await statuses(place[0])
    assert value(await build(place, fault))["status"] == "built"
    await until(lambda: _answered(place[0], [*before, *answers]), "every callback is answered")
    assert set(await ran(place[0])) == {1}


NO_RESULTS = [
    *(("wrong_token", 404), ("wrong_id", 404), ("unknown_type", 400)),
    *(("invalid_json", 400), ("neither_text_nor_content", 400)),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "answer"), NO_RESULTS)
async def test_what_is_not_the_result_of_the_call_leaves_it_pending(place: Place, fault: str, answer: int) -> None:
    before = await statuses(place[0])
    error = (await build(place, fault)).json()["result"]["error"]
    assert (error["message"], error["can_retry"]) == ("The tool is still running.", True)
    assert await statuses(place[0]) == [*before, answer]
    assert set(await ran(place[0])) == {1}


async def _answered(builds: DemoServer, answers: Sequence[int | None]) -> bool:
    return await statuses(builds) == answers
