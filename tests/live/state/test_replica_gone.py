"""A replica that is killed or frozen while it holds calls: another one goes on by the rules."""

from __future__ import annotations

import asyncio
import signal

import pytest

from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, REGISTERED, UNKNOWN
from tests.live.state.conftest import Replicas
from tests.live.state.replica import ReplicaProcess, replica_process
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import orphans, outcome_of

pytestmark = pytest.mark.anyio

LONG_S = 10.0
CALLS: dict[str, tuple[bool, int]] = {  # key -> idempotent, how far it came
    "registered": (False, REGISTERED),
    "dispatching": (False, DISPATCHING),
    "idempotent": (True, DISPATCHING),
    "accepted": (False, ACCEPTED),
    "awaiting": (False, AWAITING_USER),
}


async def holds_calls(replica: ReplicaProcess) -> None:
    for key, (idempotent, state) in CALLS.items():
        assert await replica.ask("begin", key, idempotent)
        for step in range(REGISTERED, state):
            assert await replica.ask("advance", key, step, step + 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_calls_of_a_killed_or_frozen_replica_are_taken_over(
    number: signal.Signals, redis_server: RedisServer, replicas: Replicas
) -> None:
    successor = await replicas.open()
    async with replica_process(redis_server.url) as gone:
        await holds_calls(gone)
        assert await gone.ask("begin", "done", False)
        assert await gone.ask("settle", "done", "before its death")
        doubtful, waiting = (asyncio.create_task(successor.wait(key, LONG_S)) for key in ("dispatching", "accepted"))
        assert not await successor.claim_orphans(100)  # it lives
        gone.process.send_signal(number)
        claimed = await orphans(successor, len(CALLS))
    assert {key: record.state for key, record in claimed.items()} == {
        "registered": REGISTERED,
        "dispatching": UNKNOWN,
        "idempotent": REGISTERED,
        "accepted": ACCEPTED,
        "awaiting": AWAITING_USER,
    }
    assert {record.replica for record in claimed.values() if not record.state.is_over} == {successor.replica}
    woken = await doubtful
    assert woken is not None
    assert woken.state is UNKNOWN
    assert not waiting.done()
    assert not await successor.claim_orphans(100)
    assert await successor.settle("accepted", b"posted after the death")
    assert outcome_of(await waiting) == b"posted after the death"
