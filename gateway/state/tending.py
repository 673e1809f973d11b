"""What a replica does in the background, so that others can rely on it and it hears what becomes of calls elsewhere.

One heartbeat extends the lease of all its calls. A Redis that went away is tried again with growing pauses, and gets
back the calls it lost. One subscription brings the wake-ups; a slow poll makes up for wake-ups that got lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.state.holding import Holding
from gateway.state.link import Link
from gateway.state.port import CallState, Record, Room, StateUnavailable
from gateway.state.waiting import Waiters

log = logging.getLogger("gateway.state")

FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0  # shorter than `settle_in_s`: a restarted Redis gets our calls back before anybody asks for them
LISTEN_S = 5.0  # how long one read of the subscription waits before it looks after its connection
CANCEL_AGAIN_S = 0.1
LOOKED_AT_ONCE = 500  # calls fetched or polled in one go


class Timing(Struct, frozen=True, kw_only=True):
    """Who is dead after how long.

    A replica without a heartbeat for `lease_s` counts as dead. Once Redis came up empty, replicas have `settle_in_s` to
    put back what they hold, and no call is begun in that time. It exceeds `beat_s`, because they may notice that late.
    """

    lease_s: float = 10.0
    beat_s: float = 2.0
    settle_in_s: float = 3.0
    poll_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < min(self.settle_in_s, self.lease_s / 2):
            raise ValueError("several heartbeats fit into a lease, and one into the settling in")


class Tending:
    """Four loops, each with pauses: the heartbeat, the subscription, fetching calls that have changed, the poll."""

    def __init__(
        self,
        holding: Holding,
        replica: str,
        redis: Redis,
        link: Link,
        waiters: Waiters,
        timing: Timing,
        *,
        watch: Callable[[str], Awaitable[Record | None]],
    ) -> None:
        """`watch` fetches a call and has this process woken when something becomes of it."""
        self.is_settled = False  # Redis is there, and so is everything that replicas hold
        self._holding = holding
        self._replica = replica
        self._redis = redis
        self._link = link
        self._waiters = waiters
        self._timing = timing
        self._watch = watch
        self.on_touched: Callable[[str], None] = lambda key: None  # another replica has changed the call of that key
        self.epoch = 0  # when the data that we know began, by the clock of Redis; 0: we know none yet
        # The next claim has to look for calls that are ours in Redis only: handed over by a claim whose reply was lost,
        # or of long ago, in old data that Redis has started with.
        self.claims_in_doubt = False
        self.room: Room | None = None  # as the last heartbeat found it
        self.reason = "it was not reached yet"  # why it is not settled
        self._up_since = 0.0
        self._hurry = asyncio.Event()
        self._settled = asyncio.Event()
        self._stale: set[str] = set()
        self._some_stale = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def may_judge(self) -> bool:
        """Whether a lease that ran out means a death: only if its owner could have renewed it for a whole lease."""
        return self.is_settled and asyncio.get_running_loop().time() - self._up_since >= self._timing.lease_s

    async def start(self) -> None:
        """Starts the loops; returns when the state is settled, or when that has taken too long."""
        self._tasks = [_running(loop) for loop in (self._keep(), self._listen(), self._refresh(), self._poll())]
        try:
            async with asyncio.timeout(self._timing.settle_in_s + LAST_RETRY_S):
                await self._settled.wait()
        except TimeoutError:
            log.warning("the state cannot be reached yet", extra={"detail": self.reason})

    async def aclose(self) -> None:
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            # More than once: redis-py 8.1 may lose a cancellation that meets a subscription while it reconnects.
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)
        self.is_settled = False

    def lost(self, reason: str) -> None:
        """Redis has just stopped answering: it is tried again without waiting for the next heartbeat."""
        log.warning("the state cannot be reached", extra={"detail": reason})
        self.is_settled, self.reason = False, reason
        self._hurry.set()

    @property
    def free_bytes(self) -> int | None:
        """What Redis may still take; None if it has no limit."""
        room = self.room
        return None if room is None or room.max_bytes is None else max(0, room.max_bytes - room.used_bytes)

    def look_at(self, key: str) -> None:
        """Has a call fetched, if anybody waits for it."""
        if key in self._waiters:
            self._fetch(key)

    def _fetch(self, key: str) -> None:
        self._stale.add(key)
        self._some_stale.set()

    def _look_at_all(self) -> None:
        for key in self._waiters:
            self.look_at(key)

    async def _keep(self) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            if await self._beat():
                pause_s = self._timing.beat_s if self.is_settled else self._timing.settle_in_s / 8
                retry_s = FIRST_RETRY_S
            else:
                pause_s = retry_s * random.uniform(0.75, 1.0)  # noqa: S311 - so that replicas do not come in step
                retry_s = min(retry_s * 2, LAST_RETRY_S)
            self._hurry.clear()
            try:
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def _beat(self) -> bool:
        """One heartbeat, and whatever Redis needs to get back; False if Redis is away."""
        outlived = self._holding.outlived()
        try:
            _, epoch, restoring, now_ms = await self._link.ask("beat", outlived, self.epoch, probing=True)
            self._holding.set_clock(now_ms / 1000)
            for key, record in self._holding.all().items() if outlived else ():
                if key in outlived:
                    self._holding.let_go(key, record)
            if not self._link.is_up or epoch != self.epoch:
                self._link.is_up = True
                self._up_since = asyncio.get_running_loop().time()
                await self._holding.restore()
                _, _, restoring, _ = await self._link.ask("restored")
                self.epoch = epoch
            await self._holding.retell()
            if self.may_judge:
                await self._holding.lose()
            await self._holding.release_doubtful()
            _, used_bytes, max_bytes = await self._link.ask("room")
            self.room = Room(used_bytes, max_bytes or None) if used_bytes else None
        except StateUnavailable as exc:
            self.reason = str(exc)
            return False
        if not restoring and not self.is_settled:
            self._settle()
        elif restoring:
            self.is_settled, self.reason = False, "replicas put back what it has lost"
        return True

    def _settle(self) -> None:
        log.info("the state is reached")
        self.is_settled = True
        self._settled.set()
        self._look_at_all()

    async def _listen(self) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                async with self._redis.pubsub() as subscription:
                    await subscription.subscribe(f"toolgate:wake:{self._replica}")
                    while True:
                        message = await subscription.get_message(timeout=LISTEN_S)
                        if message is not None and message["type"] == "message":
                            key = message["data"].decode()
                            self._holding.touch(key)
                            self.on_touched(key)
                            self.look_at(key)
                        elif message is not None:  # subscribed, perhaps again: what was said meanwhile is lost
                            retry_s = FIRST_RETRY_S
                            self._look_at_all()
                            self.claims_in_doubt = True
                            self._hurry.set()  # perhaps to another server, or to one that has lost its data
            except (RedisError, OSError):
                self._hurry.set()  # a subscription breaks at once, and a heartbeat may take a while to fail
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, LAST_RETRY_S)

    async def _refresh(self) -> None:
        while True:
            await self._some_stale.wait()
            self._some_stale.clear()
            keys, self._stale = list(self._stale), set()
            for start in range(0, len(keys), LOOKED_AT_ONCE):
                await asyncio.gather(*(self._refresh_one(key) for key in keys[start : start + LOOKED_AT_ONCE]))

    async def _refresh_one(self, key: str) -> None:
        try:
            record = await self._watch(key)
        except StateUnavailable:
            return  # once Redis is back, every call that somebody waits for is fetched
        if record is not None:
            self._holding.catch_up(record)
        self._waiters.tell(key, record)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._timing.poll_s)
            held = self._holding.all()
            keys = list({**dict.fromkeys(self._waiters), **held})
            try:
                for start in range(0, len(keys), LOOKED_AT_ONCE):
                    await self._poll_some(keys[start : start + LOOKED_AT_ONCE], held)
            except StateUnavailable:
                continue

    async def _poll_some(self, keys: list[str], held: dict[str, Record]) -> None:
        reply = await self._link.ask("states", keys)
        if reply[0] == b"restoring" or reply[2] != self.epoch:
            self._hurry.set()  # Redis came up empty behind an unbroken connection
            return
        for key, state in zip(keys, reply[1], strict=True):
            if not state or state > self._waiters.threshold(key):
                self.look_at(key)
            if key in held and (not state or state >= CallState.UNKNOWN):
                self._holding.let_go(key, held[key])
                self.on_touched(key)
            elif self._holding.is_behind(key, state):
                self._fetch(key)


def _running(loop: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(loop)
    task.add_done_callback(_tell_of_death)
    return task


def _tell_of_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.error("a task of the state died", exc_info=exc)
