"""Tool servers that post a result and are gone before it is taken: with Redis, or a large one, that takes a while."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.calls.site import pair
from tests.support.calling import call, result, value
from tests.support.processes import until
from tests.support.redis_server import running_redis
from tests.support.yard import WORK, yard

SIZES = {"small": 0, "large": 100_000}  # of what is beside the result, in pairs of brackets


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_a_result_whose_bringer_does_not_wait_for_the_answer_is_taken(tmp_path: Path, size: int) -> None:
    with running_redis(tmp_path) as redis:
        async with yard() as tools, pair(redis, tools.url) as (a, _):
            for number in range(3):
                asked = asyncio.create_task(call(a.http, WORK, {"number": number}, call_id=f"k{number}"))
                await until(lambda: number in tools.taken, "it is taken")  # noqa: B023 - called at once
                await post_and_go(tools.taken[number], size)
                await asked

                async def is_over() -> bool:
                    answer = await call(a.http, WORK, {"number": number}, call_id=f"k{number}")  # noqa: B023
                    return result(answer)["success"] is True and value(answer) == "done"

                await until(is_over, "the result is there")


async def post_and_go(call: dict[str, Any], size: int) -> None:
    document = {"type": "tool_result", "group_id": call["group_id"], "id": call["id"], "text": "done"}
    body = json.dumps(document | {"more": [[]] * size}).encode()
    address = urlsplit(call["callback_url"])
    head = f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    assert address.hostname is not None
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()
