"""Two processes that share a Redis: together they let through what one would."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.live.ratelimit.taker import BURST, CALLERS, PER_S
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

CHECKOUT = Path(__file__).parents[3]
SECONDS = 1.5
ANSWERS_S = 30.0  # starting an interpreter included, on a busy machine


async def taker(url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.live.ratelimit.taker", url, str(SECONDS)]
    process = await asyncio.create_subprocess_exec(*command, cwd=CHECKOUT, stdout=PIPE)
    try:
        async with asyncio.timeout(ANSWERS_S):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    found: dict[str, Any] = json.loads(printed)
    return found


async def test_replicas_together_let_through_the_burst_and_the_rate_and_no_more(redis_server: RedisServer) -> None:
    found = await asyncio.gather(taker(redis_server.url), taker(redis_server.url))
    elapsed_s = max(one["ended"] for one in found) - min(one["began"] for one in found)
    for caller in range(CALLERS):
        passed = sum(one["passed"][caller] for one in found)
        assert passed <= BURST + PER_S * elapsed_s
        assert passed > BURST  # it did fill up meanwhile
