"""The state in Redis, shared by every replica: any of them may take a callback, any may be asked for the result.

It is made of partitions, each of which has all that its operations need: one on a single server, with or without
Sentinel, and many in a Redis Cluster. There the first character of a call's key is the mark of its partition, which is
that of the call's principal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from gateway.core.errors import StateUnavailable
from gateway.core.model import CallKey
from gateway.core.sealing import Sealer
from gateway.redisclient.connections import cancel
from gateway.redisclient.store import MARKS, PartitionStore
from gateway.state.common import NO_DIGEST
from gateway.state.owned_calls import RecentEndings
from gateway.state.partition import Partition
from gateway.state.port import BeginResult, CallState, Capacity, NewCall, Quota, Record, StateLimits
from gateway.state.records import Records
from gateway.state.replica_sync import LAST_RETRY_S, Reports, Timing

log = logging.getLogger("gateway.state")

WAKE, NEWS = "wake", "news"  # channels: for one replica, the keys of changed calls; for all, whose tools have changed
NO_MEMORY = "Redis has no memory left (maxmemory)"


class RedisState:
    """Implements `port.State`, and `store.ChannelListener`. It closes the store."""

    def __init__(
        self, store: PartitionStore, limits: StateLimits, sealer: Sealer, *, timing: Timing | None = None
    ) -> None:
        timing = timing or Timing()
        self.replica = os.urandom(8).hex()
        self.partitions = len(store.prefixes)
        self._store = store
        self._timing = timing
        self._reports = Reports(store.place, self.partitions)
        self._reports.on_reached = lambda: self._in_background(self._warn())
        self._on_tools_changed: Callable[[str], None] = lambda backend: None
        phase_s = random.uniform(0, timing.beat_s)  # noqa: S311 - replicas are not in step
        shared = self.replica, limits, Records(sealer), timing, self._reports, RecentEndings(limits.result_ttl_s)
        self._all = [Partition(store, number, *shared, phase_s=phase_s) for number in range(self.partitions)]
        self._by_mark = dict(zip(MARKS, self._all, strict=False))
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._warned: set[str] = set()

    def _of(self, key: str) -> Partition:
        """The partition of a call. Raises ValueError."""
        if self.partitions == 1:
            return self._all[0]
        partition = self._by_mark.get(key[:1])
        if partition is None:
            raise ValueError(NO_DIGEST)  # all other digests begin with a mark
        return partition

    @property
    def is_up(self) -> bool:
        return all(partition.sync.is_settled for partition in self._all)

    @property
    def partitions_away(self) -> int:
        return sum(not partition.sync.is_settled for partition in self._all)

    def is_up_for(self, key: str) -> bool:
        return self._of(key).sync.is_settled

    @property
    def capacity(self) -> Capacity | None:
        capacities = [capacity for partition in self._all if (capacity := partition.sync.capacity) is not None]
        return min(capacities, key=lambda capacity: capacity.free_share, default=None)

    @property
    def trouble(self) -> str | None:
        away = [partition.sync.reason for partition in self._all if not partition.sync.is_settled]
        if away and self.partitions > 1:
            return f"{len(away)} of {self.partitions} partitions cannot be reached: {away[0]}"
        if away:
            return away[0]
        return NO_MEMORY if self.capacity is not None and self.capacity.is_full else None

    def pending(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for partition in self._all:
            counts.update(partition.owned.pending())
        return counts

    def unfinished(self) -> Sequence[Record]:
        return [record for partition in self._all for record in partition.owned.values()]

    async def replicas(self) -> Mapping[str, float]:
        return await self._all[self._reachable()].replicas()  # each replica sends its heartbeats to every partition

    def on_changed(self, callback: Callable[[CallKey], None]) -> None:
        self._reports.on_changed = callback

    def on_tools_changed(self, callback: Callable[[str], None]) -> None:
        self._on_tools_changed = callback

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._reports.on_lost = callback

    def on_quota(self, callback: Callable[[Quota, bool], None]) -> None:
        self._reports.on_quota = callback

    def announce_tools_changed(self, backend: str) -> None:
        self._in_background(self._announce(backend))

    async def start(self) -> None:
        for loop in (self._listen(), *(loop for partition in self._all for loop in partition.sync.loops())):
            self._tasks.append(asyncio.create_task(loop))
            self._tasks[-1].add_done_callback(_log_failure)
        try:
            async with asyncio.timeout(self._timing.settle_in_s + LAST_RETRY_S):
                for partition in self._all:
                    await partition.sync.settled.wait()
        except TimeoutError:
            log.warning("the state cannot be reached yet", extra={"detail": self.trouble})

    async def aclose(self) -> None:
        self._is_closing = True
        await cancel({*self._tasks, *self._background})
        await asyncio.gather(*(partition.aclose() for partition in self._all))
        await self._store.aclose()

    # Calls.

    def begin(self, call: NewCall) -> Coroutine[Any, Any, BeginResult]:
        return self._of(call.key).begin(call)

    def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> Coroutine[Any, Any, bool]:
        return self._of(key).advance(key, from_states, to, note=note)

    def settle(self, key: str, outcome: bytes) -> Coroutine[Any, Any, bool]:
        return self._of(key).settle(key, outcome)

    def get(self, key: str) -> Coroutine[Any, Any, Record | None]:
        return self._of(key).get(key)

    def has_expired(self, key: str, principals: Sequence[str]) -> Coroutine[Any, Any, bool]:
        return self._of(key).has_expired(key, principals)

    def local_record(self, key: str) -> Record | None:
        return self._of(key).local_record(key)

    def wait(self, key: str, timeout_s: float) -> Coroutine[Any, Any, Record | None]:
        return self._of(key).wait(key, timeout_s)

    def forget(self, key: str, outcome: bytes | None = None) -> Coroutine[Any, Any, None]:
        return self._of(key).forget(key, outcome)

    def reduce(self, key: str, outcome: bytes) -> None:
        self._of(key).reduce(key, outcome)

    def mark_delivered(self, key: str) -> Coroutine[Any, Any, None]:
        return self._of(key).mark_delivered(key)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        claimed: list[Record] = []
        for partition in self._all:
            if partition.sync.may_claim and len(claimed) < limit:
                with suppress(StateUnavailable):  # the calls of the other partitions do not wait for this one
                    claimed += await partition.claim(limit - len(claimed))
        return claimed

    # What other replicas say.

    async def _listen(self) -> None:
        await self._store.listen((f"{WAKE}:{self.replica}", NEWS), self)

    def on_message(self, partition: int, channel: str, message: bytes) -> None:
        if channel != NEWS:
            self._all[partition].sync.note_change(message.decode())
            return
        replica, _, backend = message.decode(errors="replace").partition(" ")
        if replica != self.replica:
            self._on_tools_changed(backend)

    def on_subscribed(self, partition: int) -> None:
        self._all[partition].sync.note_listening()

    def on_unsubscribed(self, partition: int) -> None:
        self._all[partition].sync.hurry()

    async def _announce(self, backend: str) -> None:
        with suppress(RedisError, OSError):
            await self._store.publish(self._reachable(), NEWS, f"{self.replica} {backend}".encode())

    def _reachable(self) -> int:
        """The number of the first partition that answers, or of the first one."""
        return next((number for number, partition in enumerate(self._all) if partition.sync.is_settled), 0)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        if self._is_closing:  # what is begun now would open connections that nothing closes
            work.close()
            return
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _warn(self) -> None:
        """Logs in which ways the servers may lose calls, each once."""
        for risk in await self._store.risks():
            if risk not in self._warned:
                self._warned.add(risk)
                log.warning("the state may lose calls", extra={"detail": risk})


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.error("a task of the state died", exc_info=exc)
