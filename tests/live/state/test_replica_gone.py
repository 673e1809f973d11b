"""A replica that is killed or frozen while it holds calls: another one goes on by the rules."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from gateway.errors import StateUnavailable
from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, REGISTERED, UNKNOWN, Record
from gateway.state.redis import RedisState
from tests.live.state.conftest import Replicas
from tests.live.state.replica import LONG_LEASE_S, ReplicaProcess, replica_process
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import judges, orphans, outcome_of, state_of, until

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


def claims(state: RedisState) -> asyncio.Task[Sequence[Record]]:
    """Has a replica claim as if its last heartbeat had found that another one is dead."""
    state._all[0].sync.has_dead = True
    return asyncio.create_task(state.claim_orphans(100))


async def test_a_replica_that_thaws_dispatches_no_call_that_was_taken_over(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    successor = await replicas.open()
    async with replica_process(redis_server.url) as frozen:
        await holds_calls(frozen)
        frozen.process.send_signal(signal.SIGSTOP)
        await orphans(successor, len(CALLS))
        frozen.process.send_signal(signal.SIGCONT)
        moves: list[Any] = [await frozen.ask("advance", key, 1, 2) for key in ("registered", "idempotent")]
    assert moves == [False, False]
    assert await successor.advance("registered", [REGISTERED], DISPATCHING)


async def test_a_replica_is_not_dead_because_redis_was_frozen(redis_server: RedisServer, replicas: Replicas) -> None:
    """A lease can run out because it could not be renewed: then no replica is dead."""
    successor = await replicas.open(LONG_LEASE_S)
    async with replica_process(redis_server.url, LONG_LEASE_S) as living:
        await holds_calls(living)
        redis_server.freeze()
        await asyncio.sleep(1.5 * LONG_LEASE_S)
        redis_server.thaw()
        await until(lambda: successor.is_up, "the successor has Redis again")
        loop = asyncio.get_running_loop()
        end = loop.time() + 1.5 * LONG_LEASE_S
        while loop.time() < end:
            with suppress(StateUnavailable):
                assert not await successor.claim_orphans(100)
            await asyncio.sleep(0.05)
        await until(living.is_up, "the living one has Redis again")
        assert await living.ask("advance", "registered", 1, 2)
        assert await state_of(successor, "dispatching") is DISPATCHING


async def test_a_claim_whose_answer_was_lost_is_repeated(redis_server: RedisServer, replicas: Replicas) -> None:
    successor = await replicas.open()
    await judges(successor, await replicas.open())
    async with replica_process(redis_server.url) as gone:
        for key in CALLS:
            assert await gone.ask("begin", key, False)
        await gone.ask("advance", "accepted", REGISTERED, DISPATCHING)
        await gone.ask("advance", "accepted", DISPATCHING, ACCEPTED)
        gone.process.kill()
        with redis_server.connect() as redis:
            while redis.zcount("toolgate:replicas", "-inf", int(redis.time()[0] * 1000)) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        claiming = claims(successor)
        await asyncio.sleep(0)
        claiming.cancel()  # Redis hands the calls over all the same
        claimed = await orphans(successor, len(CALLS))
    assert claimed.keys() == CALLS.keys()
    assert claimed["accepted"].state is ACCEPTED


async def test_a_claim_that_a_frozen_redis_carries_out_late_takes_nothing_from_the_living(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    successor = await replicas.open()
    await judges(successor, await replicas.open())
    async with replica_process(redis_server.url) as living:
        await holds_calls(living)
        redis_server.freeze()
        claiming = claims(successor)
        await asyncio.sleep(1.0)  # longer than a lease, and than any caller waits for the answer
        redis_server.thaw()
        assert not await claiming
        await until(lambda: successor.is_up, "the successor has Redis again")
        assert await state_of(successor, "dispatching") is DISPATCHING
        await until(living.is_up, "the living one has Redis again")
        assert await living.ask("advance", "registered", 1, 2)
