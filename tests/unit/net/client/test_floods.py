"""Streams of events without an end or a pause: how much of one is read in a turn of the loop, and where it ends."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from math import inf

import pytest

from gateway.core.sse import IDLE_BYTES_PER_TURN, LINES_PER_TURN, EventParser
from gateway.net.body_memory import BodyMemory
from gateway.net.client import EventBudget, EventReader, Kind, Pool, TransportError
from gateway.net.client.events import EVENT_LOAD, MAX_LOAD
from tests.streams import kinds_of_floods
from tests.unit.net.client.scripted import Peer, Script, failure, serving, until
from tests.unit.net.client.test_streams import EVENTS, chunk, sending, stream

pytestmark = pytest.mark.anyio

MIB = 2**20
FLOODS = kinds_of_floods()
MOST_LINES = 3_000
MOST_BYTES = 16 * MIB
LIMIT = 64 * 1024  # of one event
# Lines of one turn of the loop: what may still come when the load is passed by one.
LINES_OF_A_TURN = MAX_LOAD + max(LINES_PER_TURN, IDLE_BYTES_PER_TURN)


def flooding(piece: bytes) -> Script:
    block = chunk(piece * (100_000 // len(piece) + 1))

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        while True:
            await peer.send(block)

    return script


class Turns:
    """Counts the turns of the loop, and what happens in each."""

    def __init__(self) -> None:
        self.now = 0
        self.lines: Counter[int] = Counter()
        self.events: Counter[int] = Counter()
        self._next = asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self.now += 1
        self._next = asyncio.get_running_loop().call_soon(self._count)

    def stop(self) -> None:
        self._next.cancel()


class Watched(EventBudget):
    """A budget that notes the turn of the loop in which lines were read."""

    def __init__(self, turns: Turns, most_lines: float = MOST_LINES) -> None:
        super().__init__(most_bytes=MOST_BYTES, bytes_per_s=0.0, most_lines=most_lines, lines_per_s=100.0)
        self._turns = turns

    def spend(self, size: int, lines: int, now: float) -> None:
        self._turns.lines[self._turns.now] += lines
        super().spend(size, lines, now)


@asynccontextmanager
async def counting() -> AsyncIterator[Turns]:
    turns = Turns()
    try:
        yield turns
    finally:
        turns.stop()


async def read_all(pool: Pool, turns: Turns, most_lines: float = MOST_LINES) -> None:
    async with stream(pool) as reply:
        with closing(EventReader(reply, LIMIT, Watched(turns, most_lines), pool.parse_queue, lambda: None)) as events:
            async for _ in events:
                turns.events[turns.now] += 1


@pytest.mark.parametrize("piece", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_at_its_budget_and_leaves_the_loop_its_turns_until_then(piece: bytes) -> None:
    async with serving(flooding(piece)) as server, counting() as turns:
        pool = Pool(server.origin)
        error = await failure(read_all(pool, turns))
        await pool.aclose()
    assert (error.kind, error.sent) == (Kind.TOO_LARGE, True)
    assert "The stream of events passes" in str(error)
    assert max(turns.lines.values()) <= LINES_OF_A_TURN
    assert max(turns.events.values(), default=0) <= MAX_LOAD // EVENT_LOAD + 1


async def test_many_floods_of_one_server_take_turns() -> None:
    """The first pieces of all are read at once, and the others one after the other."""
    count = 32
    async with serving(flooding(b":\n")) as server, counting() as turns:
        pool = Pool(server.origin)
        reading = [asyncio.create_task(failure(read_all(pool, turns))) for _ in range(count)]
        ended = await asyncio.gather(*reading)
        await pool.aclose()
    assert {error.kind for error in ended} == {Kind.TOO_LARGE}
    crowded = sorted(turns.lines.values(), reverse=True)[count:]
    assert max(crowded) <= LINES_OF_A_TURN


async def test_a_stream_that_lasts_is_not_ended_by_what_it_brings_in_time() -> None:
    budget = EventBudget(most_bytes=1000, bytes_per_s=100, most_lines=10, lines_per_s=1)
    for second in range(100):
        budget.spend(100, 1, float(second))
    budget.spend(800, 8, 100.0)
    with pytest.raises(Exception, match=r"passes 10 lines and 1 more per second"):
        budget.spend(0, 9, 100.0)


async def test_the_deadline_ends_a_stream_of_which_much_can_still_be_read() -> None:
    async with serving(flooding(b"\n")) as server, counting() as turns:
        pool = Pool(server.origin)
        async with stream(pool, timeout_s=0.3) as reply:
            with closing(EventReader(reply, LIMIT, Watched(turns, inf), pool.parse_queue)) as events:
                error = await failure(anext(events))
        await pool.aclose()
    assert error.kind is Kind.TIMEOUT


# Memory.


@pytest.mark.parametrize("start", [b"data: ", b"data: x\ndata: ", b"event: "], ids=repr)
async def test_what_is_held_of_an_event_counts_until_the_stream_is_closed(start: bytes) -> None:
    memory = BodyMemory(2**30)
    half = b"x" * (4 * MIB)
    async with serving(sending(EVENTS + chunk(start + half))) as server, counting() as turns:
        pool = Pool(server.origin, memory=memory)
        async with stream(pool) as reply:
            with closing(EventReader(reply, 8 * MIB, Watched(turns), pool.parse_queue)) as events:
                reading = asyncio.create_task(failure(anext(events)))
                await until(lambda: memory.held > len(half) - 256 * 1024)
                assert memory.held < len(half) + 256 * 1024
                reading.cancel()
                await asyncio.wait([reading])
        assert memory.held == 0
        await pool.aclose()


class Peak(BodyMemory):
    """Notes the most that was held."""

    peak = 0

    def take(self, holder: str, size: int) -> None:
        super().take(holder, size)
        self.peak = max(self.peak, self.held)


async def test_events_without_an_end_share_the_memory_with_whole_answers() -> None:
    memory = Peak(8 * MIB)
    count = 8
    async with serving(sending(EVENTS + chunk(b"data: " + b"x" * (4 * MIB)))) as server, counting() as turns:
        pool = Pool(server.origin, memory=memory)

        async def read() -> None:
            async with stream(pool, timeout_s=1.0) as reply:
                with closing(EventReader(reply, 8 * MIB, Watched(turns), pool.parse_queue)) as events:
                    await anext(events)

        ended = await asyncio.gather(*(failure(read()) for _ in range(count)))
        assert {error.kind for error in ended} == {Kind.TIMEOUT}
        # Each of them may have taken one piece more, and one of them goes on.
        assert 4 * MIB < memory.peak < 8 * MIB + count * 640 * 1024 + 4 * MIB
        assert memory.held == 0
        await pool.aclose()


async def test_nothing_of_a_broken_stream_waits_for_the_collector() -> None:
    async with serving(sending(EVENTS + chunk(b"data: x"), stays=False)) as server, counting() as turns:
        pool = Pool(server.origin)
        gc.collect()
        gc.disable()
        try:
            before = parsers()
            with suppress(TransportError):
                await read_all(pool, turns)
            await asyncio.sleep(0)
            assert parsers() == before
        finally:
            gc.enable()
        await pool.aclose()


def parsers() -> int:
    return sum(isinstance(each, EventParser) for each in gc.get_objects())
