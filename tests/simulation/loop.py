"""An event loop whose time is a number: thousands of seconds pass in a moment, in an order that a seed decides.

All machines of a simulation share it. Each has a queue of its own, as each process has a loop of its own: the machine
of a task is in its context. A frozen machine (SIGSTOP) does nothing until it is thawed, and then everything at once; a
dead one does nothing more.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, cast

from gateway.state.owned_calls import RecentEndings

START_S = 1_700_000_000.0  # the right time when a simulation begins


class Machine:
    """What runs on one computer. Its wall clock is `skew_s` ahead of the right time; durations are right everywhere."""

    def __init__(self, name: str, skew_s: float = 0.0) -> None:
        self.name = name
        self.skew_s = skew_s
        self.is_frozen = False
        self.is_dead = False
        self.ready: deque[Handle] = deque()
        self.absences: list[
            tuple[float, float]
        ] = []  # from when to when it did nothing, or could not reach the servers

    def __repr__(self) -> str:
        return self.name


NETWORK = Machine("network")  # and everything else that nobody stops
HERE: ContextVar[Machine] = ContextVar("HERE", default=NETWORK)


class StuckError(Exception):
    """Something takes more turns than anything should."""


class VirtualLoop:
    """As much of an event loop as asyncio's tasks, futures and timeouts need."""

    def __init__(self, chance: random.Random) -> None:
        self.now = 0.0
        self.turns = 0
        self.errors: list[dict[str, Any]] = []  # what asyncio reports instead of raising it
        self._chance = chance
        self._timers: list[tuple[float, int, Machine, TimerHandle]] = []
        self._numbers = count()
        self._busy: list[Machine] = []  # those with something to do
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    # What asyncio asks for.

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_over:
            self.errors.append(context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.as_loop)

    def create_task(self, coroutine: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self.as_loop, name="task", context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Handle:
        context = context or copy_context()
        handle = Handle(callback, args, self.as_loop, context)
        self._add(context.get(HERE, NETWORK), handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> TimerHandle:
        context = context or copy_context()
        handle = TimerHandle(when, callback, args, self.as_loop, context)
        heapq.heappush(self._timers, (max(when, self.now), next(self._numbers), context.get(HERE, NETWORK), handle))
        return handle

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None: ...

    # How it runs.

    def _add(self, machine: Machine, handle: Handle) -> None:
        if machine.is_dead or self._is_over:
            return
        if not machine.ready and not machine.is_frozen:
            self._busy.append(machine)
        machine.ready.append(handle)

    def run(self, until_s: float) -> None:
        """Runs until that time, or until nothing is left to happen."""
        while True:
            while self._busy:
                self._turn(self._busy.pop(int(self._chance.random() * len(self._busy))))
            while self._timers and self._timers[0][3].cancelled():
                heapq.heappop(self._timers)
            if not self._timers or self._timers[0][0] > until_s:
                break
            self.now = self._timers[0][0]
            while self._timers and self._timers[0][0] <= self.now:
                _, _, machine, handle = heapq.heappop(self._timers)
                if not handle.cancelled():
                    self._add(machine, handle)
        self.now = max(self.now, until_s)

    def _turn(self, machine: Machine) -> None:
        """What a loop does in one turn: everything that was ready when it began."""
        self.turns += 1
        if self.turns > MAX_TURNS:
            raise StuckError(f"{self.turns} turns by {self.now:.3f} s")
        for _ in range(len(machine.ready)):
            if machine.is_frozen or not machine.ready:
                return
            handle = machine.ready.popleft()
            if not handle.cancelled():
                handle._run()
        if machine.ready and machine not in self._busy:
            self._busy.append(machine)

    def freeze(self, machine: Machine) -> None:
        machine.is_frozen = True
        if machine in self._busy:
            self._busy.remove(machine)

    def thaw(self, machine: Machine) -> None:
        machine.is_frozen = False
        if machine.ready and machine not in self._busy:
            self._busy.append(machine)

    def kill(self, machine: Machine) -> None:
        machine.is_dead = True
        machine.ready.clear()
        if machine in self._busy:
            self._busy.remove(machine)

    def end(self) -> None:
        """Ends what still waits, as if it had never been."""
        self._is_over = True
        for task in list(self._tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                cast("Coroutine[Any, Any, Any]", task.get_coro()).close()
        self._tasks.clear()
        self._timers.clear()


MAX_TURNS = 50_000


def on(machine: Machine, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begins a task on a machine."""
    context = copy_context()
    context.run(HERE.set, machine)
    return asyncio.get_running_loop().create_task(coroutine, context=context)


@contextmanager
def virtual_time(chance: random.Random) -> Iterator[VirtualLoop]:
    """Has everything in this process see the time of a loop, and machines the wall clocks that they have."""
    loop, state = VirtualLoop(chance), random.getstate()
    real: tuple[Callable[[], float], Callable[[], float]] = time.time, time.monotonic
    defaults = RecentEndings.__init__.__defaults__
    time.time = lambda: START_S + loop.now + HERE.get().skew_s
    time.monotonic = lambda: loop.now
    RecentEndings.__init__.__defaults__ = (time.monotonic,)  # a default is bound when a class is made
    random.seed(chance.random())
    asyncio._set_running_loop(loop.as_loop)
    try:
        yield loop
    finally:
        loop.end()
        asyncio._set_running_loop(None)
        time.time, time.monotonic = real
        RecentEndings.__init__.__defaults__ = defaults
        random.setstate(state)
