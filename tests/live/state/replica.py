"""A replica as a process of its own, to be killed and frozen: `python -m tests.live.state.replica URL`.

It reads one command a line, `[method, argument...]`, and answers each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from gateway.core.sealing import Sealer
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.connections import RedisClient, connect
from gateway.redisclient.server_store import ServerStore
from gateway.state.port import CallState, StateLimits
from gateway.state.redis import RedisState
from gateway.state.replica_sync import Timing
from tests.support.stored_calls import KEYS, begins, call

LEASE_S = 0.6
LIMITS = StateLimits(max_pending=10_000)
ANSWERS_S = 20.0  # starting an interpreter included, on a busy machine


def replica_at(where: RedisClient | str) -> RedisState:
    """A replica that is not started yet, on a client or at a URL."""
    timing = Timing(lease_s=LEASE_S, beat_s=0.1, settle_in_s=1.2, poll_s=0.3)
    redis = connect(RedisAddress.parse(where)) if isinstance(where, str) else where
    return RedisState(ServerStore(redis), LIMITS, Sealer(KEYS, "state"), timing=timing)


class ReplicaProcess:
    """One that runs."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def ask(self, *command: Any) -> Any:
        """What it answers to a command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        async with asyncio.timeout(ANSWERS_S):
            return json.loads(await self.process.stdout.readline())

    async def is_up(self) -> bool:
        """Whether it has its Redis."""
        up: bool = await self.ask("is_up")
        return up


@asynccontextmanager
async def replica_process(url: str) -> AsyncIterator[ReplicaProcess]:
    """Starts one; ends it however it is by then."""
    checkout = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.live.state.replica", url), cwd=checkout, stdin=PIPE, stdout=PIPE
    )
    try:
        running = ReplicaProcess(process)
        assert await running.ask("hello") == "hello"
        yield running
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def _answer(state: RedisState, command: list[Any]) -> Any:
    match command:
        case ["begin", key, idempotent]:
            return await begins(state, call(key=key, idempotent=idempotent))
        case ["advance", key, before, after]:
            return await state.advance(key, [CallState(before)], CallState(after))
        case ["settle", key, outcome]:
            return await state.settle(key, outcome.encode())
        case ["is_up"]:
            return state.is_up
        case _:
            return "hello"


async def _serve(url: str) -> None:
    state = replica_at(url)
    await state.start()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await _answer(state, json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
