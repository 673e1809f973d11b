"""Callbacks that come when their call is over or forgotten, and callers who repeat it then (RAP, Transport)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.live.calls.site import KEY, Replica, callback_settings, replica
from tests.support.calling import call, failure, result, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, yard

LIFETIMES = {"result_ttl": "1s", "pending_ttl": "2s"}


@pytest.mark.anyio
async def test_a_result_counts_once_as_long_as_its_call_is_known_and_starts_nothing_afterwards(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        state = LIFETIMES | {"url": redis.url, "keys": [KEY]}
        async with yard() as tools, replica(callback_settings(tools.url, {"timeout": "300ms"}, state=state)) as only:
            done, cancelled, numbers = 1, 2, (1, 2, 3)
            for number in numbers:
                assert result(await ask(only, number))["error"]["message"] == "The tool is still running."
            await cancel(only, cancelled)
            assert await tools.call_back([done]) == [200]
            assert await tools.call_back([done, cancelled], text="another result") == [410, 410]
            assert await tools.call_back([done]) == [200]
            assert value(await ask(only, done)) == {"number": done}
            assert failure(await ask(only, cancelled))["message"] == "The call was cancelled; the tool may have run."

            await until(lambda: all_forgotten(only, numbers), "no result is left, and no call is pending")
            assert await tools.call_back(numbers) == [404, 404, 404]
            assert await all_forgotten(only, numbers)
            assert tools.ran_once


async def ask(at: Replica, number: int) -> httpx.Response:
    return await call(at.http, WORK, {"number": number}, call_id=f"call-{number}")


async def cancel(at: Replica, number: int) -> None:
    assert (await at.http.delete(f"/calls/call-{number}")).status_code == httpx.codes.ACCEPTED


async def all_forgotten(at: Replica, numbers: tuple[int, ...]) -> bool:
    """Whether every call is one that has been, and can neither be read nor begun again."""
    answers = await asyncio.gather(*(ask(at, number) for number in numbers))
    refused = [answer for answer in answers if answer.status_code == httpx.codes.BAD_REQUEST]
    assert {answer.json()["message"] for answer in refused} <= {"The call with this call_id has expired."}
    return len(refused) == len(numbers)
