"""`on_failure: local`: calls that begin while Redis is away, what becomes of them, and what never happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.state.address import Address
from gateway.state.fallback import FallbackState
from gateway.state.known import Known
from gateway.state.memory import MemoryState
from gateway.state.port import Conflict, Created, Exists, Full, Record, StateLimits, StateUnavailable
from gateway.state.redis import RedisState
from gateway.state.sealing import Sealer
from gateway.state.servers import connect
from tests.contract.state.calls import (
    ACCEPTED,
    AWAITING_USER,
    DISPATCHING,
    DONE,
    KEYS,
    REGISTERED,
    began,
    call,
    until,
)
from tests.contract.state.server import RedisServer, running_redis
from tests.live.state.replica import TIMING

pytestmark = pytest.mark.anyio

LONG_S = 10.0
LIMITS = StateLimits(max_pending=50)
WARNING = "while the state is away, new calls are kept in this process alone"


class Replica:
    """A fallback state with its two halves at hand."""

    def __init__(self, url: str) -> None:
        sealer = Sealer(KEYS, "state")
        self.shared = RedisState(
            connect(Address.parse(url)), LIMITS, sealer, timing=TIMING, on_restored=lambda: self.state.back()
        )
        self.local = MemoryState(LIMITS, time.monotonic, self.shared.replica)
        self.state = FallbackState(self.shared, self.local, Known(LONG_S * 100, 1 << 16, time.monotonic))

    async def is_up(self) -> bool:
        return self.state.is_up

    async def is_down(self) -> bool:
        return not self.state.is_up


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server whose data survive its deaths."""
    with running_redis(tmp_path, lasting=True) as server:
        yield server


@pytest.fixture
async def replica(redis_server: RedisServer) -> AsyncIterator[Replica]:
    replica = Replica(redis_server.url)
    await replica.state.start()
    yield replica
    await replica.state.aclose()


@pytest.fixture
async def other(redis_server: RedisServer) -> AsyncIterator[RedisState]:
    """Another process, which refuses while Redis is away."""
    state = RedisState(connect(Address.parse(redis_server.url)), LIMITS, Sealer(KEYS, "state"), timing=TIMING)
    await state.start()
    yield state
    await state.aclose()


async def goes_away(redis_server: RedisServer, replica: Replica) -> None:
    redis_server.kill()
    await until(replica.is_down, "the replica has noticed")


async def comes_back(redis_server: RedisServer, replica: Replica) -> None:
    redis_server.start()
    await until(replica.is_up, "the replica has Redis again")


async def once_reached(state: RedisState, key: str) -> Record | None:
    """What a process finds of a call once it has Redis again."""

    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await state.get(key)
            except StateUnavailable:
                await asyncio.sleep(0.02)


async def test_a_call_that_begins_without_redis_is_kept_and_run_once(
    redis_server: RedisServer, replica: Replica
) -> None:
    await goes_away(redis_server, replica)
    new = call(note=b"note")
    begun = await replica.state.begin(new)
    assert isinstance(begun, Created)
    assert begun.record.replica == replica.state.replica
    assert isinstance(await replica.state.begin(new), Exists)
    assert await replica.state.begin(call(key=new.key, fingerprint="other")) == Conflict()
    assert await replica.state.advance(new.key, [REGISTERED], DISPATCHING)
    waiting = asyncio.create_task(replica.state.wait(new.key, LONG_S))
    assert await replica.state.settle(new.key, b"outcome")
    record = await waiting
    assert record is not None
    assert record.outcome == b"outcome"
    again = await replica.state.begin(new)
    assert isinstance(again, Exists)
    assert again.record.outcome == b"outcome"


async def test_what_began_here_ends_here_and_is_found_here_when_redis_is_back(
    redis_server: RedisServer, replica: Replica, other: RedisState
) -> None:
    await goes_away(redis_server, replica)
    pending, finished = call(), call()
    await began(replica.state, pending, ACCEPTED)
    await began(replica.state, finished, DISPATCHING)
    await replica.state.settle(finished.key, b"from then")
    waiting = asyncio.create_task(replica.state.wait(pending.key, LONG_S))
    await comes_back(redis_server, replica)

    assert replica.state.unfinished_here == 1
    for new, state in ((pending, ACCEPTED), (finished, DONE)):
        again = await replica.state.begin(new)
        assert isinstance(again, Exists)
        assert again.record.state is state
    assert await replica.state.settle(pending.key, b"from now")
    record = await waiting
    assert record is not None
    assert record.outcome == b"from now"
    assert await once_reached(other, pending.key) is None  # what is given up: nobody else knows of it
    assert replica.state.unfinished_here == 0


async def test_new_calls_are_shared_again_when_redis_is_back(
    redis_server: RedisServer, replica: Replica, other: RedisState
) -> None:
    await goes_away(redis_server, replica)
    forgotten = (await began(replica.state)).key
    await replica.state.forget(forgotten)
    await comes_back(redis_server, replica)
    for key in (forgotten, call().key):
        await began(replica.state, call(key=key))
        assert await once_reached(other, key) is not None


@pytest.mark.parametrize("settled", [False, True])
async def test_a_call_that_redis_has_is_not_run_again_while_redis_is_away(
    redis_server: RedisServer, replica: Replica, *, settled: bool
) -> None:
    new = call()
    await began(replica.state, new, DISPATCHING)
    if settled:
        await replica.state.settle(new.key, b"outcome")
    await goes_away(redis_server, replica)
    with pytest.raises(StateUnavailable):
        await replica.state.begin(new)
    assert isinstance(await replica.state.begin(call()), Created)
    await comes_back(redis_server, replica)
    assert isinstance(await replica.state.begin(new), Exists)


async def test_a_call_of_another_process_that_was_met_is_not_run_either(
    redis_server: RedisServer, replica: Replica, other: RedisState
) -> None:
    theirs = call()
    await began(other, theirs, DISPATCHING)
    assert isinstance(await replica.state.begin(theirs), Exists)
    await goes_away(redis_server, replica)
    with pytest.raises(StateUnavailable):
        await replica.state.begin(theirs)


async def test_a_call_that_waits_for_its_user_is_joined_where_it_began(
    redis_server: RedisServer, replica: Replica
) -> None:
    await goes_away(redis_server, replica)
    here = call(question="asked-here")
    await began(replica.state, here, AWAITING_USER)
    await comes_back(redis_server, replica)
    again = await replica.state.begin(call(question="asked-here"))
    assert isinstance(again, Exists)
    assert again.record.key == here.key
    await replica.state.told(here.key)
    assert isinstance(await replica.state.begin(call(question="asked-here")), Created)


async def test_a_question_that_was_heard_of_in_redis_is_not_asked_again_while_redis_is_away(
    redis_server: RedisServer, replica: Replica, other: RedisState
) -> None:
    theirs = call(question="asked-there")
    await began(other, theirs, AWAITING_USER)
    assert await replica.state.wait(theirs.key, LONG_S) is not None
    await goes_away(redis_server, replica)
    with pytest.raises(StateUnavailable):
        await replica.state.begin(call(question="asked-there"))
    assert isinstance(await replica.state.begin(call(question="another")), Created)


async def test_a_call_that_redis_may_or_may_not_have_is_kept_here_and_let_go_there(
    redis_server: RedisServer, replica: Replica, other: RedisState
) -> None:
    redis_server.freeze()  # what it has been asked it will carry out when it thaws
    new = call()
    assert isinstance(await replica.state.begin(new), Created)
    redis_server.thaw()
    await until(replica.is_up, "the replica has Redis again")
    assert isinstance(await replica.state.begin(new), Exists)

    async def is_let_go() -> bool:
        return await once_reached(other, new.key) is None

    await until(is_let_go, "Redis does not have it")
    assert await replica.local.get(new.key) is not None


async def test_of_many_at_once_one_creates_while_redis_goes_away(redis_server: RedisServer, replica: Replica) -> None:
    new = call()
    beginning = [asyncio.create_task(replica.state.begin(new)) for _ in range(20)]
    await asyncio.sleep(0)
    redis_server.kill()
    while not await replica.is_down():
        beginning.append(asyncio.create_task(replica.state.begin(new)))
        await asyncio.sleep(0.001)
    beginning += [asyncio.create_task(replica.state.begin(new)) for _ in range(20)]
    begun = await asyncio.gather(*beginning, return_exceptions=True)
    assert sum(isinstance(one, Created) for one in begun) == 1
    assert all(isinstance(one, Created | Exists | StateUnavailable) for one in begun)


async def test_a_call_begun_in_both_places_at_once_stays_here(replica: Replica, other: RedisState) -> None:
    new = call()
    beginning = asyncio.create_task(replica.state.begin(new))
    await asyncio.sleep(0)
    assert isinstance(await replica.local.begin(new), Created)  # a repetition that found Redis away
    assert isinstance(await beginning, Exists)
    assert await other.get(new.key) is None


async def test_each_outage_is_told_once(
    redis_server: RedisServer, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    for outage in (1, 2):
        await goes_away(redis_server, replica)
        for _ in range(5):
            await began(replica.state)
        assert [record.message for record in caplog.records].count(WARNING) == outage
        await comes_back(redis_server, replica)
    told = [record for record in caplog.records if record.message == "new calls are shared again"]
    assert [record.__dict__["unfinished_here"] for record in told] == [5, 10]


async def test_nothing_is_told_of_an_outage_that_nobody_noticed(
    redis_server: RedisServer, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    await goes_away(redis_server, replica)
    await comes_back(redis_server, replica)
    assert "new calls are shared again" not in caplog.text
    assert WARNING not in caplog.text


async def test_quotas_hold_here_too(redis_server: RedisServer, replica: Replica) -> None:
    await goes_away(redis_server, replica)
    for _ in range(LIMITS.max_pending):
        await began(replica.state)
    assert isinstance(await replica.state.begin(call()), Full)
    assert isinstance(await replica.state.begin(call(principal="another")), Created)


async def test_what_cannot_be_looked_up_is_not_taken_for_absent(redis_server: RedisServer, replica: Replica) -> None:
    key = (await began(replica.state, to=ACCEPTED)).key
    await goes_away(redis_server, replica)
    for asked in (
        replica.state.get("nobody"),
        replica.state.told("nobody"),
        replica.state.settle(key, b"outcome"),
    ):
        with pytest.raises(StateUnavailable):
            await asked


async def test_a_process_that_ends_says_what_is_lost(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.kill()
    replica = Replica(redis_server.url)  # never started: Redis was never there
    await began(replica.state)
    await replica.state.settle((await began(replica.state)).key, b"")
    await replica.state.aclose()
    (lost,) = [record for record in caplog.records if record.message == "calls kept in this process are lost"]
    assert lost.__dict__["count"] == 1
