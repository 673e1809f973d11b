"""The way into a backend: so many calls at once, so many more in a queue, and a replica for each.

Plain integers and no awaiting where there is room, which is nearly always; only a call that has to wait gets a future.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Generic, TypeVar

from msgspec import Struct

from gateway.admission.breaker import CLOSED, OPEN, Breaker, BreakerRules
from gateway.admission.dispatch import DispatchGate
from gateway.admission.lease import Lease, Replica
from gateway.admission.status import AdmissionStatus, ReplicaStatus
from gateway.errors import RETRY_AFTER_S, GatewayError, unavailable

T = TypeVar("T")
Check = Callable[[T], Awaitable[bool]]


class AdmissionLimits(Struct, frozen=True, kw_only=True):
    """What one process asks of one backend, all replicas together.

    A call waits in the queue for `queue_timeout_s` at the most: sent when its time is nearly up, it would run in vain.
    """

    concurrency: int = 256
    queue: int = 1024
    queue_timeout_s: float = 10.0
    breaker: BreakerRules = BreakerRules()


class Admission(Generic[T]):
    """One backend's. Whoever gets a lease gives it back with `leave`, however the call ended.

    `check(target)` asks a replica something that runs no tool, and tells whether it answered. Where it is set, no call
    has to find out whether a replica is back, as long as there are other replicas to send it to.
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
        self._last = 0  # which replica was chosen last
        self._limits = limits
        self._concurrency = limits.concurrency
        self._clock = clock
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._checks: set[asyncio.Task[None]] = set()

    def snapshot(self) -> AdmissionStatus:
        """How it stands now."""
        now = self._clock()
        return AdmissionStatus(
            in_flight=self.in_flight,
            queued=len(self._waiting),
            replicas=tuple(
                ReplicaStatus(
                    name=replica.name,
                    breaker=replica.breaker.state,
                    failures=replica.breaker.failures,
                    in_flight=replica.in_flight,
                    tools_shut=replica.tools_shut(now),
                )
                for replica in self.replicas
            ),
        )

    # Coming and going.

    def enter(self, tool: str) -> Lease[T] | None:
        """Takes a call of a tool on; None if it has to `wait`.

        Raises BACKEND_UNAVAILABLE while no replica is worth asking for that tool.
        """
        if self.in_flight >= self._concurrency:
            return None
        only = self._only
        if only is not None and only.breaker.state is CLOSED and not only.tools:  # as nearly always
            only.in_flight += 1
            self.in_flight += 1
            return Lease(only, only.breaker.generation, tool)
        replica = self._choose(tool, ())
        if replica is None:
            raise self._shut(tool)
        self.in_flight += 1
        return _lease(replica, tool)

    async def wait(self, tool: str, timeout_s: float, turn: DispatchGate | None = None) -> Lease[T]:
        """Takes a call of a tool on when it is its turn, within `timeout_s` and the queue's own limit.

        Raises BACKEND_UNAVAILABLE, and what its `turn` raises.
        """
        if not any(replica.admits(tool, self._clock()) for replica in self.replicas):
            raise self._shut(tool)
        if len(self._waiting) >= self._limits.queue:
            raise unavailable("as many calls run and wait as are allowed")
        deadline = self._clock() + timeout_s
        await self._wait_for_place(min(timeout_s, self._limits.queue_timeout_s), turn)
        with ExitStack() as unless_taken:
            unless_taken.callback(self._pass_on)
            if self._clock() >= deadline:
                raise unavailable("its turn came when its time was up")
            if turn is not None:
                await turn.goes()
            replica = self._choose(tool, ())
            if replica is None:
                raise self._shut(tool)
            unless_taken.pop_all()
        return _lease(replica, tool)

    def leave(self, lease: Lease[T]) -> None:
        """Ends a call, tells the breakers, and lets the next one in."""
        replica, breaker = lease.replica, lease.replica.breaker
        replica.in_flight -= 1
        if lease.answered is not True or breaker.failures or breaker.state is not CLOSED or replica.tools:
            self._settle(lease)
        if self._waiting:
            self._pass_on()
        else:
            self.in_flight -= 1

    def move(self, lease: Lease[T], *, reason: str, counts: bool, may_return: bool = False) -> bool:
        """Gives a call that may be sent again to another replica; False if no other is worth asking.

        `counts`: it was the replica's fault. `may_return`: it may come back to this one, should the others be gone.
        """
        left = lease.replica
        tried = (*lease.tried, left)
        replica = self._choose(lease.tool, tried)
        if replica is None:
            return False
        if counts:
            lease.failed(reason)
        self._settle(lease)
        left.in_flight -= 1
        taken = _lease(replica, lease.tool)
        lease.replica, lease.since, lease.tool_since = replica, taken.since, taken.tool_since
        lease.answered = None
        if not may_return:
            lease.tried = tried
        return True

    async def aclose(self) -> None:
        """Refuses the calls that wait, and stops looking whether replicas are back."""
        self._send_away(lambda: unavailable("the gateway closes its connections"))
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    # Places, and the queue for them.

    async def _wait_for_place(self, timeout_s: float, turn: DispatchGate | None) -> None:
        """Waits until a place is free, which is this call's then. Raises as `wait`."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[waiter] = None
        timer = loop.call_later(timeout_s, _give_up, waiter)
        with ExitStack() as unless_taken:
            unless_taken.callback(self._give_back, waiter)
            try:
                if turn is not None:
                    await turn.waits()  # in the queue, or nobody would call it when a place is free meanwhile
                await waiter
            finally:
                timer.cancel()
                self._waiting.pop(waiter, None)
            unless_taken.pop_all()

    def _give_back(self, waiter: asyncio.Future[None]) -> None:
        """Passes the place on if the call was given one and cancelled before it could go."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Gives a place to the call that has waited longest, or leaves it free."""
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return
        self.in_flight -= 1

    def _send_away(self, refusal: Callable[[], GatewayError]) -> None:
        """Refuses every call in the queue: there is nothing to wait for."""
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(refusal())

    # Replicas.

    def by_worth(self) -> list[Replica[T]]:
        """All replicas, those that take calls first; among equals each is the first in turn."""
        self._last = (self._last + 1) % len(self.replicas)
        in_turn = self.replicas[self._last :] + self.replicas[: self._last]
        return sorted(in_turn, key=lambda replica: (replica.breaker.state is not CLOSED, replica.in_flight))

    def vouch_for(self, replica: Replica[T]) -> None:
        """The replica has answered something that ran no tool."""
        replica.breaker.vouched_for()

    def _choose(self, tool: str, tried: tuple[Replica[T], ...]) -> Replica[T] | None:
        """The replica for a call: one that is due for its probe, else the one with the fewest calls, each in turn."""
        best = probed = None
        count, first = len(self.replicas), self._last + 1
        for index in range(first, first + count):
            replica = self.replicas[index % count]
            if replica in tried:
                continue
            if replica.breaker.state is not CLOSED or (replica.tools and replica.obstacles(tool)):
                if probed is None and replica.admits(tool, self._clock()):
                    probed = replica
            elif best is None or replica.in_flight < best.in_flight:
                best = replica
                self._last = index % count
        if probed is None:
            return best
        obstacles = probed.obstacles(tool)
        if best is not None and self.check is not None and not all(breaker.checked for breaker in obstacles):
            self._begin_check(probed, obstacles, self.check)
            return best
        for breaker in obstacles:
            breaker.probe()
        return probed

    def _shut(self, tool: str) -> GatewayError:
        """The refusal while no replica takes calls of a tool, until the next may be tried."""
        now = self._clock()
        waits_s = (
            max(breaker.probe_at - now if breaker.state is OPEN else 0.0 for breaker in replica.obstacles(tool))
            for replica in self.replicas
        )
        is_tools = any(replica.breaker.state is CLOSED for replica in self.replicas)
        detail = f"{'the tool' if is_tools else 'its tool server'} failed too often lately"
        return unavailable(detail, max(math.ceil(min(waits_s)), RETRY_AFTER_S))

    def _settle(self, lease: Lease[T]) -> None:
        """Tells the breakers how an attempt went; with the last replica given up, so are the calls in the queue."""
        if lease.replica.settle(lease) and not any(each.breaker.state is CLOSED for each in self.replicas):
            self._send_away(lambda: self._shut(""))

    def _begin_check(self, replica: Replica[T], breakers: Sequence[Breaker], check: Check[T]) -> None:
        """Finds out, off everybody's path, whether a replica is back."""
        probes = [(breaker, breaker.probe()) for breaker in breakers]
        task = asyncio.get_running_loop().create_task(self._run_check(replica, probes, check))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _run_check(self, replica: Replica[T], probes: Sequence[tuple[Breaker, int]], check: Check[T]) -> None:
        answers: bool | None = None  # stays None if the check is cancelled, or has a bug
        try:
            answers = await check(replica.target)
        finally:
            for breaker, since in probes:
                if answers is False:
                    breaker.failed(since)
                else:
                    breaker.came_to_nothing(since)
        if answers:
            for breaker, _ in probes:
                breaker.vouched_for()


def _lease(replica: Replica[T], tool: str) -> Lease[T]:
    """A place for a call at a replica, which has one call more from here on."""
    replica.in_flight += 1
    own = replica.tools.get(tool)
    return Lease(replica, replica.breaker.generation, tool, 0 if own is None else own.generation)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(unavailable("no running call ended in time"))
