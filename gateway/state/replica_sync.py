"""The background work of a replica: it keeps its lease, restores what Redis lost, and learns what others change.

One heartbeat extends the lease of all its calls. A Redis that went away is tried again with growing pauses, and gets
back the calls it lost. One subscription brings the wake-ups; a slow poll makes up for wake-ups that got lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.backoff import Backoff
from gateway.state.common import Waiters
from gateway.state.connections import place_of
from gateway.state.inspection import risks
from gateway.state.owned_calls import OwnedCalls, portions
from gateway.state.port import CallState, Record, Room, StateUnavailable
from gateway.state.script_client import ScriptClient

log = logging.getLogger("gateway.state")

FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0  # shorter than `settle_in_s`: a restarted Redis gets our calls back before callers ask for them
LISTEN_S = 5.0  # how long one read of the subscription waits before it checks its connection
CANCEL_AGAIN_S = 0.1
NEWS = b"toolgate:news"  # the channel on which replicas tell each other which backends have other tools


class Timing(Struct, frozen=True, kw_only=True):
    """Which replica is dead after how long.

    A replica without a heartbeat for `lease_s` counts as dead. Once Redis came up empty, replicas have `settle_in_s` to
    restore what they own, and no call is begun in that time. It exceeds `beat_s`, because they may notice that late.
    """

    lease_s: float = 10.0
    beat_s: float = 2.0
    settle_in_s: float = 3.0
    poll_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < min(self.settle_in_s, self.lease_s / 2):
            raise ValueError("several heartbeats fit into a lease, and one into the settling in")


class ReplicaSync:
    """Four loops, each with pauses: the heartbeat, the subscription, fetching calls that have changed, the poll."""

    def __init__(
        self,
        owned: OwnedCalls,
        replica: str,
        redis: Redis,
        scripts: ScriptClient,
        waiters: Waiters,
        timing: Timing,
        *,
        watch: Callable[[str], Awaitable[Record | None]],
    ) -> None:
        """`watch` fetches a call and has Redis wake this process when the call is over."""
        self.is_settled = False  # Redis is there, and has everything that replicas own
        self._owned = owned
        self._replica = replica
        self._redis = redis
        self._scripts = scripts
        self._waiters = waiters
        self._timing = timing
        self._watch = watch
        self.on_changed: Callable[[str], None] = lambda key: None  # another replica has changed the call of that key
        self.on_news: Callable[[str], None] = lambda backend: None  # another replica saw that its tools changed
        self.on_lost: Callable[[], None] = lambda: None  # Redis has lost its data
        self.epoch = 0  # when the data that we know began, by the clock of Redis; 0: we know none yet
        self._birth = b""  # the same, but unchanged by a restart of Redis that keeps them
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
        self._background: set[asyncio.Task[None]] = set()
        self._warned: set[str] = set()

    @property
    def may_judge(self) -> bool:
        """Whether a lease that has run out means a death: every replica had a whole lease of time to renew its own."""
        return self.is_settled and asyncio.get_running_loop().time() - self._up_since >= self._timing.lease_s

    async def start(self) -> None:
        """Starts the loops; returns when the state is settled, or when that has taken too long."""
        for loop in (self._beat(), self._listen(), self._refresh(), self._poll()):
            self._tasks.append(asyncio.create_task(loop))
            self._tasks[-1].add_done_callback(_log_failure)
        try:
            async with asyncio.timeout(self._timing.settle_in_s + LAST_RETRY_S):
                await self._settled.wait()
        except TimeoutError:
            log.warning("the state cannot be reached yet", extra={"detail": self.reason})

    async def aclose(self) -> None:
        """Stops the loops."""
        pending = {*self._tasks, *self._background}
        while pending:
            for task in pending:
                task.cancel()
            # More than once: redis-py 8.1 may lose a cancellation that meets a subscription while it reconnects.
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)
        self.is_settled = False

    def lost(self, reason: str) -> None:
        """Notes that Redis has stopped answering, and tries it again at once."""
        log.warning("the state cannot be reached", extra={"detail": reason})
        self.is_settled, self.reason = False, reason
        self._hurry.set()

    def look_at(self, key: str) -> None:
        """Has a call fetched, if a caller waits for it."""
        if key in self._waiters:
            self._fetch((key,))

    def _fetch(self, keys: Iterable[str]) -> None:
        self._stale.update(keys)
        self._some_stale.set()

    async def _beat(self) -> None:
        backoff = Backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            try:
                is_restoring = await self._beat_once()
            except StateUnavailable as exc:
                self.reason = str(exc)
                pause_s = backoff.next_s() * random.uniform(0.75, 1.0)  # noqa: S311 - so that replicas do not come in step
            else:
                backoff.reset()
                self._set_settled(not is_restoring)
                pause_s = self._timing.beat_s if self.is_settled else self._timing.settle_in_s / 8
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()

    async def _beat_once(self) -> bool:
        """Extends the lease and restores what Redis lacks; returns whether other replicas still do.

        Raises StateUnavailable.
        """
        owned, scripts = self._owned, self._scripts
        expired = owned.expired()
        reply = await scripts.ask("beat", [record.key for record in expired], self.epoch, probing=True)
        _, epoch, is_restoring, now_ms, used_bytes, max_bytes, birth = reply
        self.room = Room(used_bytes, max_bytes or None) if used_bytes else None
        owned.set_clock(now_ms / 1000)
        for record in expired:
            owned.release(record)
        if not scripts.is_up or epoch != self.epoch:
            scripts.is_up = True
            self._up_since = asyncio.get_running_loop().time()
            restored = await owned.restore()
            if self._birth not in (b"", birth):
                self._report_loss(restored)
            self._birth = birth
            is_restoring = (await scripts.ask("restored"))[0] == b"restoring"
            self.epoch = epoch
        await owned.report_outcomes()
        if self.may_judge:
            await owned.mark_unknown()
        await owned.forget_doubtful()
        return bool(is_restoring)

    def _report_loss(self, restored: int) -> None:
        detail = (
            f"{place_of(self._redis)} was emptied, or came up without its data; calls under way are put back, "
            "but a call that is over may run again when it is repeated"
        )
        log.warning("the state has lost its data", extra={"detail": detail, "restored": restored})
        self.on_lost()

    def _set_settled(self, is_settled: bool) -> None:
        if not is_settled:
            self.is_settled, self.reason = False, "replicas put back what it has lost"
        elif not self.is_settled:
            log.info("the state is reached")
            self._in_background(self._warn())
            self.is_settled = True
            self._settled.set()
            self._fetch(self._waiters)

    async def _listen(self) -> None:
        backoff = Backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            try:
                async with self._redis.pubsub() as subscription:
                    await subscription.subscribe(f"toolgate:wake:{self._replica}", NEWS)
                    while True:
                        message = await subscription.get_message(timeout=LISTEN_S)
                        if message is not None and message["type"] == "message" and message["channel"] == NEWS:
                            self._hear(message["data"])
                        elif message is not None and message["type"] == "message":
                            key = message["data"].decode()
                            self._owned.mark_changed(key)
                            self.on_changed(key)
                            self.look_at(key)
                        elif message is not None:  # subscribed, perhaps again: messages sent meanwhile are lost
                            backoff.reset()
                            self._fetch(self._waiters)
                            self.claims_in_doubt = True
                            self._hurry.set()  # perhaps to another server, or to one that has lost its data
            except (RedisError, OSError):
                self._hurry.set()  # a subscription breaks at once, and a heartbeat may take a while to fail
                await asyncio.sleep(backoff.next_s())

    def tell_others(self, backend: str) -> None:
        """Publishes that the tools of a backend have changed; what cannot be sent now is not sent at all."""
        self._in_background(self._tell(backend))

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _warn(self) -> None:
        """Logs in which ways this server may lose calls, each once."""
        for risk in await risks(self._redis):
            if risk not in self._warned:
                self._warned.add(risk)
                log.warning("the state may lose calls", extra={"detail": risk})

    async def _tell(self, backend: str) -> None:
        with suppress(RedisError, OSError):
            await self._redis.publish(NEWS, f"{self._replica} {backend}")

    def _hear(self, news: bytes) -> None:
        replica, _, backend = news.decode(errors="replace").partition(" ")
        if replica != self._replica:
            self.on_news(backend)

    async def _refresh(self) -> None:
        while True:
            await self._some_stale.wait()
            self._some_stale.clear()
            keys, self._stale = list(self._stale), set()
            for some in portions(keys):
                await asyncio.gather(*(self._refresh_one(key) for key in some))

    async def _refresh_one(self, key: str) -> None:
        try:
            record = await self._watch(key)
        except StateUnavailable:
            return  # once Redis is back, every call that callers wait for is fetched
        if record is not None:
            self._owned.learn(record)
        self._waiters.notify(key, record)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._timing.poll_s)
            owned = dict(self._owned)
            with suppress(StateUnavailable):
                for some in portions(list({**dict.fromkeys(self._waiters), **owned})):
                    await self._poll_some(some, owned)

    async def _poll_some(self, keys: Sequence[str], owned: dict[str, Record]) -> None:
        reply = await self._scripts.ask("states", keys)
        if reply[0] == b"restoring" or reply[2] != self.epoch:
            self._hurry.set()  # Redis came up empty behind an unbroken connection
            return
        for key, state in zip(keys, reply[1], strict=True):
            if not state or state > CallState.ACCEPTED:
                self.look_at(key)
            if key in owned and (not state or state >= CallState.UNKNOWN):
                self._owned.release(owned[key])
                self.on_changed(key)
            elif (now := self._owned.get(key)) is not None and now.state < state:  # it has moved on elsewhere
                self._fetch((key,))


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.error("a task of the state died", exc_info=exc)
