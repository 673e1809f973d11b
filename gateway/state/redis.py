"""The state in Redis, shared by every replica: any of them may take a callback, any may be asked for the result.

Every operation is one atomic step of the script in `script/`. What is stored is sealed, and what names it is a digest.
This is for a single server, with or without Sentinel: in a Redis Cluster the keys that one operation needs would lie on
different servers, although those of one call share a hash tag.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs
from redis.asyncio import Redis

from gateway.state.common import Waiters, check_call, check_digest, check_move, check_note
from gateway.state.owned_calls import OwnedCalls
from gateway.state.port import (
    ACCEPTED,
    AWAITING_USER,
    DONE,
    RECORD_BYTES,
    SMALL_OUTCOME_BYTES,
    UNKNOWN,
    Begun,
    CallState,
    Created,
    NewCall,
    OutcomeTooLarge,
    Record,
    Room,
    StateLimits,
    StateUnavailable,
)
from gateway.state.records import Records
from gateway.state.replica_sync import ReplicaSync, Timing
from gateway.state.script_client import NotDone, Reply, ScriptClient
from gateway.state.sealing import Sealer

PARTS = ("common", "calls", "replicas", "batch")  # of the script, in this order
SCRIPT = b"\n".join([Path(__file__).with_name("script").joinpath(f"{part}.lua").read_bytes() for part in PARTS])
MAX_BATCH = 128  # operations in one batch: about 1 ms during which Redis serves no other client
SEALED_BYTES = 64  # that sealing adds to an outcome; it is 32
NO_MEMORY = "Redis has no memory left (maxmemory)"


class RedisState:
    """Implements `port.State`."""

    def __init__(self, redis: Redis, limits: StateLimits, sealer: Sealer, *, timing: Timing | None = None) -> None:
        timing = timing or Timing()
        self.replica = os.urandom(8).hex()
        self._redis = redis
        self._max_result_bytes = limits.max_result_bytes
        self._records = Records(sealer)
        self._waiters = Waiters()
        self._scripts = ScriptClient(
            redis,
            SCRIPT,
            lambda reason: self._sync.lost(reason),
            max_batch=MAX_BATCH,
            settings={
                "replica": self.replica,
                "record_bytes": RECORD_BYTES,
                "small_outcome_bytes": SMALL_OUTCOME_BYTES + SEALED_BYTES,
                **structs.asdict(limits),
                **structs.asdict(timing),
            },
            # The server may be another one, or have been restarted without what was written last.
            greeting=[("greet",)],
        )
        self._owned = owned = OwnedCalls(self._scripts, self._records, limits)
        self._sync = ReplicaSync(owned, self.replica, redis, self._scripts, self._waiters, timing, watch=self._watch)

    @property
    def is_up(self) -> bool:
        return self._sync.is_settled

    @property
    def room(self) -> Room | None:
        return self._sync.room

    @property
    def trouble(self) -> str | None:
        if not self.is_up:
            return self._sync.reason
        return NO_MEMORY if self.room is not None and self.room.is_full else None

    def pending(self) -> Counter[str]:
        return self._owned.pending()

    def on_changed(self, callback: Callable[[str], None]) -> None:
        self._sync.on_changed = callback

    def on_news(self, callback: Callable[[str], None]) -> None:
        self._sync.on_news = callback

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._sync.on_lost = callback

    def tell_others(self, backend: str) -> None:
        self._sync.tell_others(backend)

    async def start(self) -> None:
        await self._sync.start()

    async def aclose(self) -> None:
        await self._sync.aclose()
        with suppress(StateUnavailable):
            await self._scripts.ask("leave")
        await self._scripts.aclose()
        await self._redis.aclose()

    async def begin(self, call: NewCall) -> Begun:
        check_call(call)
        is_first = self._owned.starting(call)
        # Without a reply, also if we are cancelled, Redis may have a call that this process never runs.
        is_doubtful, unanswered = True, None
        try:
            reply = await self._scripts.ask("begin", *self._records.begin(call, self.room))
            unanswered = self._records.take(call, reply, self.replica) if is_first else None
            if unanswered is not None:  # an earlier `begin` was done, but its reply never came here
                reply = await self._scripts.ask("take", *unanswered)
            is_doubtful = False
        except NotDone:
            is_doubtful = unanswered is not None
            raise
        finally:
            if is_first:
                self._owned.started(call, doubtful=is_doubtful)
        begun = self._records.begun(_known(reply), call, self.replica)
        if isinstance(begun, Created):
            self._owned[begun.record.key] = begun.record
        return begun

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        check_digest(key)
        check_move(from_states, to)
        check_note(note or b"")
        sealed = False if note is None else self._records.note(key, note)
        reply = await self._change("advance", key, [int(state) for state in from_states], int(to), sealed)
        if reply[0] != b"yes":
            return False
        self._owned.advance(key, to, note)
        if to is AWAITING_USER:
            self._sync.look_at(key)
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        check_digest(key)
        if len(outcome) > self._max_result_bytes:
            raise OutcomeTooLarge
        reply = await self._change("settle", key, self._records.outcome(key, outcome))
        if reply[0] == b"too_large":
            raise OutcomeTooLarge
        is_the_end = bool(reply[0] == b"yes")
        owned = self._owned.end(key, outcome if is_the_end else None)
        if owned is not None and is_the_end:  # Redis knows no more of it
            if key in self._waiters:
                self._waiters.notify(key, structs.replace(owned, state=DONE, outcome=outcome))
        else:
            self._sync.look_at(key)
        return is_the_end

    async def get(self, key: str) -> Record | None:
        check_digest(key)
        return self._record(await self._ask("get", key))

    async def has_expired(self, key: str, principals: Sequence[str]) -> bool:
        check_digest(key)
        return bool((await self._ask("has_expired", key, list(principals)))[0] == b"yes")

    def held(self, key: str) -> Record | None:
        return self._owned.current(key)

    async def _watch(self, key: str) -> Record | None:
        """As `get`; Redis wakes this process when the call is over, waits for its user, or is gone."""
        return self._record(await self._ask("watch", key))

    async def wait(self, key: str, timeout_s: float) -> Record | None:
        check_digest(key)
        seen, epoch = self.held(key) if self.is_up else None, self._sync.epoch
        waiter = self._waiters.add(key)
        try:
            async with asyncio.timeout(timeout_s):
                if seen is None or seen.state > ACCEPTED:  # else we own it, and Redis wakes the owner anyway
                    with suppress(StateUnavailable):  # then the call is fetched when Redis is back
                        seen = await self._watch(key)
                        if seen is None or seen.state > ACCEPTED:
                            return seen
                record = await waiter
                if record is None and seen is not None and epoch != self._sync.epoch:
                    return await self._lost(seen)
                return record
        except TimeoutError:
            pass
        finally:
            self._waiters.remove(key, waiter)
        try:
            return await self.get(key)
        except StateUnavailable:
            if seen is None:
                raise
            return seen

    async def _lost(self, seen: Record) -> Record:
        """Restores as UNKNOWN a call that Redis lost with its data, and that its replica did not restore.

        That replica died at the same time. The call did begin, so it must not look like one that never did.
        """
        unknown = structs.replace(seen, state=UNKNOWN)
        with suppress(StateUnavailable):  # then at least the waiter gets it
            await self._owned.restore_one(unknown)
        return unknown

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        check_digest(key)
        if outcome is not None and len(outcome) > self._max_result_bytes:
            raise OutcomeTooLarge
        owned, ended = self._owned.drop(key), None
        if owned is not None and outcome is not None:
            ended = structs.replace(owned, state=DONE, outcome=outcome)
        if await self._owned.forget(key, outcome):
            self._waiters.notify(key, ended)
        else:
            self._sync.look_at(key)

    def reduce(self, key: str, outcome: bytes) -> None:
        check_digest(key)
        with suppress(StateUnavailable):
            self._owned.reduce(key, outcome)

    async def mark_delivered(self, key: str) -> None:
        check_digest(key)
        await self._ask("delivered", key)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        if not self._sync.may_judge:
            return ()
        in_doubt, self._sync.claims_in_doubt = self._sync.claims_in_doubt, False
        reply = None
        try:
            suspects = await self._suspects() if in_doubt else []
            reply = await self._ask("claim", limit, suspects)
        finally:
            if reply is None:  # Redis may have handed calls over all the same
                self._sync.claims_in_doubt = True
        records = [self._records.read(key, row) for key, row in reply[1]]
        for record in records:
            if record.state.is_over:
                self._sync.look_at(record.key)
            else:
                self._owned[record.key] = record
        return records

    async def _suspects(self) -> list[str]:
        """Calls that are this replica's in Redis, and that are not known here."""
        reply = await self._ask("mine")
        return self._owned.unaccounted([name.decode() for name in reply[1]])

    async def _ask(self, *operation: Any) -> Reply:
        return _known(await self._scripts.ask(*operation))

    async def _change(self, operation: str, key: str, *arguments: Any) -> Reply:
        """Changes a call; one that this process owns is restored first if Redis lacks it."""
        reply = await self._scripts.ask(operation, key, *arguments)
        if reply[0] not in (b"absent", b"restoring"):
            return reply
        owned = self._owned.get(key)
        if owned is None:
            return _known(reply)
        await self._owned.restore_one(owned)
        return await self._ask(operation, key, *arguments)

    def _record(self, reply: Reply) -> Record | None:
        return self._records.read(reply[1], reply[2]) if reply[0] == b"record" else None


def _known(reply: Reply) -> Reply:
    """The reply, unless Redis cannot know yet what it has lost. Raises NotDone."""
    if reply[0] == b"restoring":
        raise NotDone("the state has lost its data and is being restored")
    return reply
