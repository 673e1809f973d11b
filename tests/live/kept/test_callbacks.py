"""Callbacks that come early, twice, late, for another call or as nonsense (RAP, Transport: Callback Response)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.faults.calling import call, failure, value
from tests.live.faults.processes import DemoServer, demo_server, until
from tests.live.kept.site import Replica, callback_settings, order, ran, replica, statuses

BUILD = {"seconds": 0}


@asynccontextmanager
async def place(**more: Any) -> AsyncIterator[tuple[DemoServer, Replica]]:
    async with demo_server("rap") as builds, replica(callback_settings(builds.url, **more)) as only:
        yield builds, only


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "answers"), [("callback_before_ack", [200]), ("reset_before_ack", [200]), ("duplicate", [200, 200])]
)
async def test_a_result_counts_whenever_and_however_often_it_comes(fault: str, answers: list[int]) -> None:
    async with place() as (builds, only):
        await order(builds, "build", fault)
        assert value(await call(only.http, "Builds.build", BUILD, call_id="one"))["status"] == "built"
        await until(lambda: _answered(builds, answers), "every callback is answered")
        assert await ran(builds) == [1]


@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "answer"), [("wrong_token", 404), ("wrong_id", 404), ("unknown_type", 400)])
async def test_what_is_not_the_result_of_the_call_leaves_it_pending(fault: str, answer: int) -> None:
    async with place() as (builds, only):
        await order(builds, "build", fault)
        response = await call(only.http, "Builds.build", BUILD, call_id="one")
        error = response.json()["result"]["error"]
        assert (error["message"], error["can_retry"]) == ("The tool is still running.", True)
        assert await statuses(builds) == [answer]


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["invalid_json", "neither_text_nor_content"])
async def test_a_broken_result_ends_the_call(fault: str) -> None:
    async with place() as (builds, only):
        await order(builds, "build", fault)
        error = failure(await call(only.http, "Builds.build", BUILD, call_id="one"))
        assert error["message"] == "The tool server gave a broken answer."
        await until(lambda: _answered(builds, [400]), "the callback is answered")
        assert await ran(builds) == [1]


async def _answered(builds: DemoServer, answers: list[int]) -> bool:
    return await statuses(builds) == answers
