"""Redis killed and restarted with a snapshot: later beginnings and outcomes are restored before any call is new."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.state.port import Created, Exists
from gateway.state.redis import RedisState
from tests.live.state.conftest import Replicas
from tests.live.state.replica import replica_at, replica_process
from tests.live.state.test_redis_gone import once_reached
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import DISPATCHING, began, begins, call, state_of, until

pytestmark = pytest.mark.anyio


def snapshot(server: RedisServer) -> None:
    """Has the server write down what it has now; whatever comes later goes when it is killed."""
    with server.connect() as redis:
        redis.save()


@contextmanager
def frozen(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Within this, a process hears of nothing."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


async def has_its_lease(server: RedisServer, state: RedisState) -> None:
    """Waits until a replica has found the server again."""

    async def is_there() -> bool:
        with server.connect() as redis:
            seconds, _ = redis.time()
            ends_ms = redis.zscore("toolgate:replicas", state.replica)
        return float(ends_ms or 0) > 1000 * float(seconds)

    await until(is_there, "the replica has its lease")


async def test_a_call_begun_after_the_snapshot_waits_until_its_replica_restores_it(
    redis_server: RedisServer, replicas: Replicas
) -> None:
    hasty = await replicas.open()
    async with replica_process(redis_server.url) as slow:
        snapshot(redis_server)
        assert await slow.ask("begin", "k", False)
        assert await slow.ask("advance", "k", 1, 2)
        with frozen(slow.process):
            redis_server.restart()
            asking = asyncio.create_task(once_reached(hasty.begin, call(key="k")))
            await has_its_lease(redis_server, hasty)
        begun = await asking
    assert isinstance(begun, Exists)
    assert begun.record.state is DISPATCHING


async def test_after_a_restart_without_loss_new_calls_wait_only_for_a_moment(
    redis_server: RedisServer, replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    state = await replicas.open()
    kept = await began(state)
    snapshot(redis_server)
    redis_server.restart()
    assert isinstance(await once_reached(state.begin, call()), Created)
    assert await state_of(state, kept.key) is kept.state
    assert "lost" not in caplog.text


async def test_a_server_that_hides_the_id_of_its_run_can_be_used(redis_server: RedisServer) -> None:
    """As at some providers."""
    with redis_server.connect() as redis:
        redis.execute_command("ACL", "SETUSER", "toolgate", "on", ">secret", "~*", "&*", "+@all", "-info")
    url = redis_server.url.replace("redis://", "redis://toolgate:secret@")
    state = replica_at(url)
    await state.start()
    assert await begins(state)
    await state.aclose()
