"""The state in Redis, shared by every replica: any of them may take a callback, any may be asked for the result.

Every operation is one atomic step of `script.lua`. What is stored is sealed, what names it is digested. The script
serves a single server, with or without Sentinel; in a Redis Cluster the keys of one operation would lie apart, but
those of one call share a hash tag.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import structs
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.state.link import FLIGHT_S, Link, Reply
from gateway.state.port import (
    Begun,
    CallState,
    Conflict,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    OutcomeTooLarge,
    Record,
    StateLimits,
    StateUnavailable,
    check_digest,
    check_move,
    check_note,
)
from gateway.state.records import Records
from gateway.state.sealing import Sealer
from gateway.state.tending import Tending, Timing
from gateway.state.waiting import Waiters

MAX_DOUBTFUL = 10_000  # calls to be let go once Redis is back; more than one process begins within a time limit
MEMORY_RETRY_S = 5.0  # for a Redis that has no memory left: an operator has to look
RESTORED_AT_ONCE = 500  # calls in flight while all are put back; a few batches


def connect(url: str) -> Redis:
    """A client for `redis://`, `rediss://` or `unix://` that gives up early and leaves trying again to us."""
    return Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),  # by default one command against a dead server takes 4 s
        socket_timeout=FLIGHT_S / 2,
        socket_connect_timeout=FLIGHT_S / 2,
        health_check_interval=10,
    )


class RedisState:
    """Implements `port.State`. `on_restored` is called whenever Redis is back and the calls of all replicas with it."""

    def __init__(
        self,
        redis: Redis,
        limits: StateLimits,
        sealer: Sealer,
        *,
        timing: Timing | None = None,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        timing = timing or Timing()
        self.replica = os.urandom(8).hex()
        self._redis = redis
        self._limits = limits
        self._records = Records(sealer)
        self._on_restored = on_restored
        self._waiters = Waiters()
        self._held: dict[str, Record | None] = {}  # the calls this process runs; None: the reply to `begin` is due
        self._doubtful: dict[str, None] = {}  # calls to be forgotten as soon as possible, in order
        self._claim_in_doubt = False
        self._link = Link(redis, _settings(self.replica, limits, timing), self._failed)
        self._tending = Tending(self, self.replica, redis, self._link, self._waiters, timing)

    def _failed(self, reason: str) -> None:
        self._tending.lost(reason)

    @property
    def is_up(self) -> bool:
        return self._tending.is_settled

    async def start(self) -> None:
        await self._tending.start()

    async def aclose(self) -> None:
        await self._tending.aclose()
        with suppress(StateUnavailable):
            await self._link.ask("leave")
        await self._link.aclose()
        await self._redis.aclose()

    async def begin(self, call: NewCall) -> Begun:
        names = (call.key, *(key for key, _ in call.older))
        unheld = not any(name in self._held for name in names)
        if unheld:
            self._held[call.key] = None
        try:
            reply = await self._ask("begin", *self._records.begin(call, unheld=unheld))
        except BaseException:  # cancelled too: it may have been registered, and nobody here will run it
            if unheld:
                del self._held[call.key]
                self._doubt(*names)
            raise
        begun = self._begun(call, reply)
        if unheld:
            del self._held[call.key]
        if isinstance(begun, Created):
            self._held[begun.record.key] = begun.record
        return begun

    def _begun(self, call: NewCall, reply: Reply) -> Begun:
        match reply:
            case [b"new", created_ms]:
                return Created(Record.new(call, self.replica, created_ms / 1000))
            case [b"created", key, row]:
                return Created(self._records.read(key, row))
            case [b"exists", key, row]:
                return Exists(self._records.read(key, row))
            case [b"conflict"]:
                return Conflict()
            case [b"expired"]:
                return Expired()
            case [b"full", wait_ms]:
                return Full(wait_ms / 1000)
            case _:
                return Full(MEMORY_RETRY_S)

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        check_digest(key)
        check_move(from_states, to)
        check_note(note or b"")
        sealed = False if note is None else self._records.note(key, note)
        reply = await self._ask_about(key, "advance", key, [int(state) for state in from_states], int(to), sealed)
        held = self._held.get(key)
        if reply[0] != b"yes":
            return False
        if held is not None:
            self._held[key] = structs.replace(held, state=to, note=held.note if note is None else note)
        self._tending.look_at(key)
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        check_digest(key)
        if len(outcome) > self._limits.max_result_bytes:
            raise OutcomeTooLarge
        reply = await self._ask_about(key, "settle", key, self._records.outcome(key, outcome))
        self._held.pop(key, None)
        self._tending.look_at(key)
        return bool(reply[0] == b"yes")

    async def get(self, key: str) -> Record | None:
        check_digest(key)
        return self._record(await self._ask("get", key))

    async def by_token(self, token: str) -> Record | None:
        check_digest(token)
        return self._record(await self._ask("by_token", token))

    async def watch(self, key: str) -> Record | None:
        """As `get`; from now on this process hears at once when something becomes of the call."""
        return self._record(await self._ask("watch", key))

    async def wait(self, key: str, timeout_s: float, *, beyond: CallState = CallState.ACCEPTED) -> Record | None:
        check_digest(key)
        seen = None
        with self._waiters.waiting(key, beyond) as waiter, suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                with suppress(StateUnavailable):  # then the call is looked at when Redis is back
                    seen = await self.watch(key)
                    if seen is None or seen.state > beyond:
                        return seen
                return await waiter
        try:
            return await self.get(key)
        except StateUnavailable:
            if seen is None:
                raise
            return seen

    async def forget(self, key: str) -> None:
        check_digest(key)
        self._held.pop(key, None)
        try:
            await self._ask("forget", key)
        except StateUnavailable:
            self._doubt(key)
        self._waiters.tell(key, None)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        if not self._tending.may_judge:
            return ()
        in_doubt, self._claim_in_doubt = self._claim_in_doubt, True
        suspects = await self._suspects() if in_doubt else []
        reply = await self._ask("claim", limit, suspects)
        self._claim_in_doubt = False
        records = [self._records.read(key, row) for key, row in reply[1]]
        for record in records:
            if record.state.is_over:
                self._tending.look_at(record.key)
            else:
                self._held[record.key] = record
        return records

    async def _suspects(self) -> list[str]:
        reply = await self._ask("mine")
        return [key for name in reply[1] if (key := name.decode()) not in self._held and key not in self._doubtful]

    # What `Tending` needs to keep this replica's word.

    def held(self) -> dict[str, Record]:
        """The calls this process runs or watches over."""
        return {key: record for key, record in self._held.items() if record is not None}

    def let_go(self, key: str, record: Record) -> None:
        """Drops a call that is over or gone, unless it has begun anew meanwhile."""
        if self._held.get(key) is record:
            del self._held[key]

    def outlived(self) -> list[str]:
        """Calls held beyond their time: nobody settled them."""
        oldest = time.time() - self._limits.pending_ttl_s
        first = islice(self._held.items(), RESTORED_AT_ONCE)
        return [key for key, record in first if record is not None and record.created_s < oldest]

    async def restore(self) -> None:
        """Puts back what a Redis that started empty has lost of the calls this process holds."""
        held = list(self.held().values())
        for start in range(0, len(held), RESTORED_AT_ONCE):
            await asyncio.gather(*(self._restore(record) for record in held[start : start + RESTORED_AT_ONCE]))

    async def _restore(self, record: Record) -> None:
        await self._link.ask("restore", *self._records.restore(record))

    async def release_doubtful(self) -> None:
        """Lets go of calls that were registered without our hearing of it, or that were to be forgotten."""
        for key in list(self._doubtful):
            if key not in self._held:
                await self._link.ask("forget", key)
            self._doubtful.pop(key, None)

    def restored(self) -> None:
        """Passes on that Redis is back with everything."""
        self._on_restored()

    def _doubt(self, *keys: str) -> None:
        self._doubtful.update(dict.fromkeys(keys))
        while len(self._doubtful) > MAX_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    async def _ask(self, *operation: Any) -> Reply:
        reply = await self._link.ask(*operation)
        if reply[0] == b"restoring":
            raise StateUnavailable("the state has lost its data and is being put together again")
        return reply

    async def _ask_about(self, key: str, *operation: Any) -> Reply:
        """Asks about a call that this process may hold: then Redis may have lost it, but we have not."""
        reply = await self._link.ask(*operation)
        held = self._held.get(key)
        if reply[0] in (b"absent", b"restoring") and held is not None:
            await self._restore(held)
        elif reply[0] != b"restoring":
            return reply
        return await self._ask(*operation)

    def _record(self, reply: Reply) -> Record | None:
        return self._records.read(reply[1], reply[2]) if reply[0] == b"record" else None


def _settings(replica: str, limits: StateLimits, timing: Timing) -> dict[str, Any]:
    """What the script is told with every batch; times in milliseconds."""
    return {
        "replica": replica,
        "pending_ms": int(limits.pending_ttl_s * 1000),
        "result_ms": int(limits.result_ttl_s * 1000),
        "seen_ms": int(limits.seen_ttl_s * 1000),
        "max_pending": limits.max_pending,
        "max_records": limits.max_records,
        "lease_ms": int(timing.lease_s * 1000),
        "settle_in_ms": int(timing.settle_in_s * 1000),
    }
