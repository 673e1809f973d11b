"""Admission to a backend: a limit of calls at once, a queue, and the choice of a replica for each call."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from gateway.core.errors import RETRY_AFTER_S, GatewayError, unavailable
from gateway.core.model import JsonObject
from gateway.core.ports import DispatchGate
from gateway.upstream.admission.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, BreakerRules, BreakerState
from gateway.upstream.admission.replica import Lease, Replica, replica_of

T = TypeVar("T")
Check = Callable[[T], Awaitable[str | None]]


class AdmissionLimits(Struct, frozen=True, kw_only=True):
    """What one process sends to one backend, all replicas together: calls at once, and calls in the queue.

    A call waits for at most `queue_timeout_s`: sent when its time is nearly up, it would run in vain.
    """

    concurrency: int = 256
    queue: int = 1024
    queue_timeout_s: float = 10.0
    breaker: BreakerRules = BreakerRules()


class Admission(Generic[T]):
    """The admission of one backend. Each lease must be given back with `leave`, however the call ended.

    `check(target)` sends a request to a replica that runs no tool, and returns why it was not answered; None: it was.
    If it is set, no call is used as a probe while other replicas can take it.
    """

    def __init__(
        self,
        backend: str,
        targets: Sequence[tuple[str, T]],
        limits: AdmissionLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.backend = backend
        self.replicas = [
            Replica(backend, name, target, lambda: Breaker(limits.breaker, clock, uniform)) for name, target in targets
        ]
        self.in_flight = 0
        self.check: Check[T] | None = None
        self._only = self.replicas[0] if len(self.replicas) == 1 else None
        self._last = 0  # index of the replica chosen last
        self.limits = limits
        self._concurrency = limits.concurrency
        self._clock = clock
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._checks: set[asyncio.Task[None]] = set()

    @property
    def queued(self) -> int:
        """How many calls wait for one under way to end."""
        return len(self._waiting)

    @property
    def breaker(self) -> BreakerState:
        """The best state of all replicas: while one is closed, the backend takes calls."""
        states = {replica.breaker.state for replica in self.replicas}
        return CLOSED if CLOSED in states else HALF_OPEN if HALF_OPEN in states else OPEN

    @property
    def tools_shut(self) -> int:
        """How many tools get no calls at any replica, although a replica is up."""
        shut = [set(replica.tools_shut) for replica in self.replicas if replica.breaker.state is CLOSED]
        return len(set.intersection(*shut)) if shut else 0

    def as_json(self) -> JsonObject:
        """The part of the detailed health that is about admission."""
        return {
            "in_flight": self.in_flight,
            "queued": self.queued,
            "breaker": self.breaker,
            "replicas": [replica.as_json() for replica in self.replicas],
        }

    def enter(self, tool: str, conversation: str = "") -> Lease[T] | None:
        """Admits a call of a tool, or returns None if it has to `wait`.

        Calls of one conversation go to the same replica as long as it takes them, whichever process sends them.
        Raises BACKEND_UNAVAILABLE while no replica takes calls of that tool.
        """
        if self.in_flight >= self._concurrency:
            return None
        only = self._only
        if only is not None and only.breaker.state is CLOSED and not only.tools:  # as nearly always
            only.in_flight += 1
            self.in_flight += 1
            return Lease(only, only.breaker.generation, tool)
        replica = self._find(tool, conversation)
        if replica is None:
            raise self._refusal(tool)
        self.in_flight += 1
        return _lease(replica, tool)

    async def wait(
        self, tool: str, timeout_s: float, gate: DispatchGate | None = None, conversation: str = ""
    ) -> Lease[T]:
        """Queues a call of a tool and admits it in its turn, within `timeout_s` and the queue's own limit.

        Raises BACKEND_UNAVAILABLE, and what `gate` raises.
        """
        if not any(replica.admits(tool) for replica in self.replicas):
            raise self._refusal(tool)
        if len(self._waiting) >= self.limits.queue:
            raise unavailable("too many calls are running and waiting")
        deadline = self._clock() + timeout_s
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[waiter] = None
        timer = loop.call_later(min(timeout_s, self.limits.queue_timeout_s), _give_up, waiter)
        try:
            if gate is not None:
                await gate.on_queued()  # after it joined the queue, so that it gets a place that is freed meanwhile
            await waiter
            if self._clock() >= deadline:
                raise unavailable("its time was up before its turn came")
            if gate is not None:
                await gate.before_send()
            replica = self._find(tool, conversation)
            if replica is None:
                raise self._refusal(tool)
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._free_place()
            raise
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)
        return _lease(replica, tool)

    def leave(self, lease: Lease[T]) -> None:
        """Ends a call: counts how it went, and admits the next one."""
        replica, breaker = lease.replica, lease.replica.breaker
        replica.in_flight -= 1
        if lease.answered is not True or breaker.failures or breaker.state is not CLOSED or replica.tools:
            self._record(lease)
        if self._waiting:
            self._free_place()
        else:
            self.in_flight -= 1

    def move(self, lease: Lease[T], *, reason: str, counts: bool, may_return: bool = False) -> bool:
        """Moves a call that may be sent again to another replica. Returns False if no other takes it.

        `counts`: the failure counts against the replica. `may_return`: a later move may choose this replica again.
        """
        left = lease.replica
        tried = (*lease.tried, left)
        replica = self._choose(lease.tool, tried)
        if replica is None:
            return False
        if counts:
            lease.failed(reason)
        self._record(lease)
        left.in_flight -= 1
        new = _lease(replica, lease.tool)
        lease.replica, lease.generation, lease.tool_generation = replica, new.generation, new.tool_generation
        lease.answered = None
        if not may_return:
            lease.tried = tried
        return True

    async def aclose(self) -> None:
        """Refuses the calls in the queue, and cancels the checks of replicas."""
        self._refuse_queued(lambda: unavailable("the gateway closes its connections"))
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    def _free_place(self) -> None:
        """Gives a place to the call that has waited longest, or leaves it free."""
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return
        self.in_flight -= 1

    def _refuse_queued(self, refusal: Callable[[], GatewayError]) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(refusal())

    def by_preference(self) -> list[Replica[T]]:
        """All replicas: those that take calls first, then by load; equals in rotation."""
        self._last = (self._last + 1) % len(self.replicas)
        in_turn = self.replicas[self._last :] + self.replicas[: self._last]
        return sorted(in_turn, key=lambda replica: (replica.breaker.state is not CLOSED, replica.in_flight))

    def _find(self, tool: str, conversation: str) -> Replica[T] | None:
        """The replica that has the conversation, if it takes calls of the tool; else as `_choose`."""
        if conversation:
            replica = replica_of(conversation, self.replicas)
            if not replica.open_breakers(tool):
                return replica
        return self._choose(tool, ())

    def _choose(self, tool: str, tried: tuple[Replica[T], ...]) -> Replica[T] | None:
        """The replica for a call: one due for a probe, else the one with the fewest calls; equals rotate."""
        best = probed = None
        count, first = len(self.replicas), self._last + 1
        for index in range(first, first + count):
            replica = self.replicas[index % count]
            if replica in tried:
                continue
            if replica.breaker.state is not CLOSED or (replica.tools and replica.open_breakers(tool)):
                if probed is None and replica.admits(tool):
                    probed = replica
            elif best is None or replica.in_flight < best.in_flight:
                best = replica
                self._last = index % count
        if probed is None:
            return best
        shut = probed.open_breakers(tool)
        if best is not None and self.check is not None and not all(breaker.checked for breaker in shut):
            self._begin_check(probed, shut, self.check)
            return best
        for breaker in shut:
            breaker.begin_probe()
        return probed

    def _refusal(self, tool: str) -> GatewayError:
        """The refusal while no replica takes calls of a tool, with the time until the next probe."""
        now = self._clock()
        waits_s = (
            max(breaker.probe_at - now if breaker.state is OPEN else 0.0 for breaker in replica.open_breakers(tool))
            for replica in self.replicas
        )
        detail = f"{'the tool' if self.breaker is CLOSED else 'its tool server'} failed too often lately"
        return unavailable(detail, max(math.ceil(min(waits_s)), RETRY_AFTER_S))

    def _record(self, lease: Lease[T]) -> None:
        """Counts how an attempt went; when the last replica stops taking calls, the queue is refused."""
        if lease.replica.record(lease) and self.breaker is not CLOSED:
            self._refuse_queued(lambda: self._refusal(""))

    def _begin_check(self, replica: Replica[T], breakers: Sequence[Breaker], check: Check[T]) -> None:
        """Checks in a task of its own, which no call waits for, whether a replica answers again."""
        probes = [(breaker, breaker.begin_probe()) for breaker in breakers]
        task = asyncio.get_running_loop().create_task(self._run_check(replica, probes, check))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _run_check(self, replica: Replica[T], probes: Sequence[tuple[Breaker, int]], check: Check[T]) -> None:
        answers: bool | None = None  # stays None if the check is cancelled, or has a bug
        try:
            answers = await check(replica.target) is None
        finally:
            for breaker, generation in probes:
                if answers is False:
                    breaker.record_failure(generation)
                else:
                    breaker.record_nothing(generation)
                if answers:
                    breaker.note_alive()


def _lease(replica: Replica[T], tool: str) -> Lease[T]:
    """Counts one call more at a replica, and returns its lease."""
    replica.in_flight += 1
    own = replica.tools.get(tool)
    return Lease(replica, replica.breaker.generation, tool, 0 if own is None else own.generation)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(unavailable("no running call ended in time"))
