"""Hundreds and thousands of callers wait at once for calls that a tool server has only acknowledged."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.calls.site import KEY, callback_settings, replica
from tests.support.calling import connect, encoded_call
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, yard

CROWDS = [700, pytest.param(9000, marks=[pytest.mark.soak, pytest.mark.alone])]
SPARE_FILES = 1000  # of the tests and of the gateway, besides a connection for each call
MAX_BYTES_EACH = 40 * 1024
AT_ONCE = 500  # callers who connect at a time: fewer than a listener holds ready
LONG_S = 300.0  # nine thousand take 15 s alone


@pytest.fixture(params=CROWDS)
def many(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many callers there can be; the limit of open files is raised for them, and put back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(request.param, (hard - SPARE_FILES) // 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.anyio
async def test_each_of_many_waiting_callers_gets_its_result_and_none_costs_much(many: int, tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        state = {"url": redis.url, "keys": [KEY], "max_pending_per_caller": many}
        async with yard() as tools:
            config = callback_settings(tools.url, {"timeout": f"{LONG_S:g}s"}, state=state, logging={"level": "info"})
            async with replica(config) as only, asyncio.timeout(LONG_S), asyncio.TaskGroup() as callers:
                before = only.running.memory_bytes()
                waiting = []
                for start in range(0, many, AT_ONCE):
                    group = range(start, min(start + AT_ONCE, many))
                    waiting += [callers.create_task(ask(only.running.url, number)) for number in group]
                    await until(lambda: len(tools.taken) == len(waiting), "the tool server has them", LONG_S)  # noqa: B023
                each = (only.running.memory_bytes() - before) / many
                assert set(await tools.call_back(range(many))) == {200}
                answers = [await answer for answer in waiting]
        assert answers == [{"number": number} for number in range(many)]
        assert tools.ran_once
        assert each < MAX_BYTES_EACH


async def ask(url: str, number: int) -> Any:
    """The value that comes back; a caller this plain costs the tests little, even by the thousand."""
    reader, writer = await connect(url)
    try:
        writer.write(encoded_call(WORK, {"number": number}, "Connection: close", call_id=f"call-{number}"))
        answer = await reader.read()
    finally:
        writer.close()
    return json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["value"]
