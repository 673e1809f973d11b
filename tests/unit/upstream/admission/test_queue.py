"""How many calls run, how many wait, and that no place is lost, whenever a caller leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import ErrorCode, GatewayError, unavailable
from gateway.core.ports import NotDispatchedError
from gateway.upstream.admission import Admission
from tests.unit.dispatch_gate import RecordingGate
from tests.unit.upstream.admission.clock import TOOL, Clock, admission, enter

CONCURRENCY, QUEUE = 2, 3
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


class Calls:
    """Calls that run until `finish`; the outcome of each, by number."""

    def __init__(self, entrance: Admission[str]) -> None:
        self.entrance = entrance
        self.tasks: list[asyncio.Task[None]] = []
        self.entered: list[int] = []
        self.waited: list[int] = []  # of those that entered
        self.running: set[int] = set()
        self.refused: dict[int, GatewayError] = {}
        self._ends: list[asyncio.Event] = []

    def start(self, timeout_s: float = 60.0) -> asyncio.Task[None]:
        self._ends.append(asyncio.Event())
        task = asyncio.get_running_loop().create_task(self._call(len(self.tasks), timeout_s))
        self.tasks.append(task)
        return task

    def finish(self, number: int) -> None:
        self._ends[number].set()

    async def _call(self, number: int, timeout_s: float) -> None:
        try:
            lease = self.entrance.enter(TOOL)
            if lease is None:
                lease = await self.entrance.wait(TOOL, timeout_s)
                self.waited.append(number)
        except GatewayError as error:
            self.refused[number] = error
            return
        self.entered.append(number)
        self.running.add(number)
        try:
            await self._ends[number].wait()
            lease.answered = True
        finally:
            self.running.discard(number)
            self.entrance.leave(lease)


async def turns() -> None:
    """Lets everything happen that nothing has to be waited for."""
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_calls_beyond_those_that_run_wait_in_turn_and_those_beyond_are_refused(clock: Clock) -> None:
    calls = Calls(admission(clock=clock, concurrency=CONCURRENCY, queue=QUEUE))
    for _ in range(7):
        calls.start()
    await turns()
    assert (calls.running, calls.entrance.in_flight, calls.entrance.queued) == ({0, 1}, CONCURRENCY, QUEUE)
    assert list(calls.refused) == [5, 6]
    refusal = calls.refused[5]
    assert (refusal.code, refusal.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 1.0)
    for number in range(7):
        calls.finish(number)
        await turns()
    assert calls.entered == [0, 1, 2, 3, 4]
    assert calls.entrance.in_flight == 0


@pytest.mark.anyio
@pytest.mark.parametrize(("timeout_s", "queue_timeout_s"), [(0.05, 60.0), (60.0, 0.05)], ids=["its own", "the queue's"])
async def test_a_call_waits_no_longer_than_it_may(clock: Clock, timeout_s: float, queue_timeout_s: float) -> None:
    calls = Calls(admission(clock=clock, concurrency=1, queue=1, queue_timeout_s=queue_timeout_s))
    calls.start()
    late = calls.start(timeout_s)
    async with asyncio.timeout(5.0):
        await late
    assert (list(calls.refused), calls.entrance.queued) == ([1], 0)
    calls.finish(0)
    await turns()
    assert calls.entrance.in_flight == 0


@pytest.mark.anyio
async def test_a_call_whose_turn_comes_when_its_time_is_up_is_refused_and_the_next_gets_its_place(clock: Clock) -> None:
    calls = Calls(admission(clock=clock, concurrency=1, queue=2))
    for timeout_s in (60.0, 60.0, 120.0):
        calls.start(timeout_s)
    await turns()
    clock.now += 60.0  # as on a machine too busy for its timers
    calls.finish(0)
    await turns()
    assert (list(calls.refused), calls.running) == ([1], {2})
    calls.finish(2)
    await turns()
    assert calls.entrance.in_flight == 0


@pytest.mark.anyio
async def test_when_the_last_replica_fails_the_whole_queue_is_refused_at_once(clock: Clock) -> None:
    entrance = admission(clock=clock, failures=1, concurrency=1, queue=QUEUE)
    lease = enter(entrance)
    calls = Calls(entrance)
    for _ in range(QUEUE):
        calls.start()
    await turns()
    lease.failed("timeout")
    entrance.leave(lease)
    await turns()
    assert [error.retry_after_s for error in calls.refused.values()] == [10.0] * QUEUE
    assert (entrance.in_flight, entrance.queued) == (0, 0)


@pytest.mark.anyio
async def test_closing_the_backend_refuses_the_queue(clock: Clock) -> None:
    calls = Calls(admission(clock=clock, concurrency=1, queue=QUEUE))
    for _ in range(3):
        calls.start()
    await turns()
    await calls.entrance.aclose()
    await turns()
    assert sorted(calls.refused) == [1, 2]
    calls.finish(0)
    await turns()
    assert calls.entrance.in_flight == 0


@pytest.mark.anyio
@pytest.mark.parametrize("failure", [NotDispatchedError(), unavailable("unknown")])
async def test_a_call_not_to_be_sent_leaves_its_place_to_the_next(clock: Clock, failure: Exception) -> None:
    entrance = admission(clock=clock, concurrency=1, queue=2)
    lease = enter(entrance)
    gate, wanted = RecordingGate(failure), RecordingGate()
    waiting = [asyncio.create_task(entrance.wait(TOOL, 60.0, each)) for each in (gate, wanted)]
    await turns()
    assert (gate.events, wanted.events) == (["queued"], ["queued"])
    entrance.leave(lease)
    assert (await asyncio.gather(*waiting, return_exceptions=True))[0] is failure
    assert (gate.events, wanted.events) == (["queued", "sent"], ["queued", "sent"])
    entrance.leave(await waiting[1])
    assert (entrance.in_flight, entrance.queued) == (0, 0)


@pytest.mark.anyio
async def test_a_call_gets_a_place_that_is_freed_while_its_gate_is_called(clock: Clock) -> None:
    entrance = admission(clock=clock, concurrency=1, queue=2)
    lease = enter(entrance)
    asked, answered = asyncio.Event(), asyncio.Event()

    class Slow(RecordingGate):
        async def on_queued(self) -> None:
            asked.set()
            await answered.wait()

    left, waits = [asyncio.create_task(entrance.wait(TOOL, 60.0, Slow())) for _ in range(2)]
    await asked.wait()
    entrance.leave(lease)
    left.cancel()  # the place is its own by now
    answered.set()
    entrance.leave(await waits)
    assert (entrance.in_flight, entrance.queued) == (0, 0)


STEP = st.one_of(
    st.just(("start", 0)),
    st.just(("gate", 0)),
    st.tuples(st.sampled_from(["finish", "cancel"]), st.integers(0, 30)),
)


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@settings(max_examples=75)
@given(steps=st.lists(STEP, max_size=60))
def test_no_place_is_lost_or_given_twice_in_any_order_of_events(
    new_loop: Callable[[], asyncio.AbstractEventLoop], steps: list[tuple[str, int]]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play(steps))


async def play(steps: list[tuple[str, int]]) -> None:
    """Starts, ends and cancels calls, several between two turns of the loop."""
    calls = Calls(admission(clock=Clock(), concurrency=CONCURRENCY, queue=QUEUE))
    for what, number in steps:
        match what:
            case "start":
                calls.start()
            case "gate":
                await asyncio.sleep(0)
            case "finish" if number < len(calls.tasks):
                calls.finish(number)
            case "cancel" if number < len(calls.tasks):
                calls.tasks[number].cancel()
        assert len(calls.running) <= CONCURRENCY
        assert calls.entrance.queued <= QUEUE
    await turns()
    assert calls.entrance.in_flight == len(calls.running) == calls.entrance.replicas[0].in_flight
    assert calls.entrance.queued == 0 or calls.entrance.in_flight == CONCURRENCY  # no call waits beside a free place
    assert calls.waited == sorted(calls.waited)  # with two places free, a new call may go before one that wakes up
    await empty(calls)


async def empty(calls: Calls) -> None:
    """Ends everything; each call must have come to exactly one end, and every place be free."""
    for number in range(len(calls.tasks)):
        calls.finish(number)
    await asyncio.gather(*calls.tasks, return_exceptions=True)
    assert (calls.entrance.in_flight, calls.entrance.queued, calls.entrance.replicas[0].in_flight) == (0, 0, 0)
    for number, task in enumerate(calls.tasks):
        assert (number in calls.entered) + (number in calls.refused) <= 1
        assert task.cancelled() or number in calls.entered or number in calls.refused
    assert all(calls.entrance.enter(TOOL) for _ in range(CONCURRENCY))
