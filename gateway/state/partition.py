"""One partition of the state in Redis: a little state of its own, shared by every replica.

Every operation is one atomic step of the script in `script/`. What is stored is sealed, and what names it is a digest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from gateway.core.errors import StateUnavailable
from gateway.redisclient.batching import NotDone
from gateway.redisclient.store import MARKS, PartitionStore, Reply, ScriptOptions
from gateway.state.common import Waiters, check_call, check_digest, check_move, check_note
from gateway.state.owned_calls import OwnedCalls, RecentEndings
from gateway.state.port import (
    ACCEPTED,
    AWAITING_USER,
    DONE,
    MAX_REPLICAS,
    RECORD_BYTES,
    SCARCE,
    SMALL_OUTCOME_BYTES,
    UNKNOWN,
    BeginResult,
    CallState,
    Created,
    Full,
    NewCall,
    OutcomeTooLarge,
    Record,
    StateLimits,
)
from gateway.state.records import Records
from gateway.state.replica_sync import ReplicaSync, Reports, Timing

PARTS = ("common", "calls", "replicas", "batch")  # of the script, in this order
SCRIPT = b"\n".join([Path(__file__).with_name("script").joinpath(f"{part}.lua").read_bytes() for part in PARTS])
MAX_BATCH = 128  # operations in one batch: about 1 ms during which Redis serves no other client
SEALED_BYTES = 64  # that sealing adds to an outcome; it is 32


class Partition:
    """Does what `port.State` says, for the calls of one partition."""

    def __init__(
        self,
        store: PartitionStore,
        number: int,
        replica: str,
        limits: StateLimits,
        records: Records,
        timing: Timing,
        reports: Reports,
        recent: RecentEndings,
        *,
        phase_s: float,
    ) -> None:
        """`phase_s` is that of `ReplicaSync`."""
        mark = "" if len(store.prefixes) == 1 else MARKS[number]
        self._replica = replica
        self._max_result_bytes = limits.max_result_bytes
        self._records = records
        self._reports = reports
        self._waiters = Waiters()
        self._scripts = store.scripts(
            number,
            SCRIPT,
            ScriptOptions(
                max_batch=MAX_BATCH,
                settings={
                    "replica": replica,
                    "prefix": store.prefixes[number],
                    "publish": store.publishing,
                    "record_bytes": RECORD_BYTES,
                    "scarce": SCARCE,
                    "small_outcome_bytes": SMALL_OUTCOME_BYTES + SEALED_BYTES,
                    **structs.asdict(limits),
                    **structs.asdict(timing),
                },
                # The server may be another one, or have been restarted without what was written last.
                greeting=[("greet",)],
            ),
            lambda reason: self.sync.note_loss(reason),
        )
        self.owned = OwnedCalls(self._scripts, records, limits, recent, mark)
        self.sync = ReplicaSync(
            self.owned, self._scripts, self._waiters, timing, reports, phase_s=phase_s, watch=self._watch
        )

    async def aclose(self) -> None:
        """Gives up the lease. The background work has ended before."""
        self.sync.is_settled = False
        with suppress(StateUnavailable):
            await self._scripts.ask("leave")
        await self._scripts.aclose()

    async def begin(self, call: NewCall) -> BeginResult:
        check_call(call)
        is_first = self.owned.starting(call)
        # Without a reply, also if we are cancelled, Redis may have a call that this process never runs.
        is_doubtful, unanswered = True, None
        try:
            reply = await self._scripts.ask("begin", *self._records.begin(call, self.sync.capacity))
            unanswered = self._records.take(call, reply, self._replica) if is_first else None
            if unanswered is not None:  # an earlier `begin` was done, but its reply never came here
                reply = await self._scripts.ask("take", *unanswered)
            is_doubtful = False
        except NotDone:
            is_doubtful = unanswered is not None
            raise
        finally:
            if is_first:
                self.owned.started(call, doubtful=is_doubtful)
        result = self._records.begin_result(_unless_restoring(reply), call, self._replica)
        if isinstance(result, Created):
            self.owned[result.record.key] = result.record
            if result.scarce is not None:
                self._reports.on_quota(result.scarce, False)
        elif isinstance(result, Full):
            self._reports.on_quota(result.quota, True)
        return result

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
        self.owned.advance(key, to, note)
        if to is AWAITING_USER:
            self.sync.look_at(key)
        return True

    async def settle(self, key: str, outcome: bytes) -> bool:
        check_digest(key)
        if len(outcome) > self._max_result_bytes:
            raise OutcomeTooLarge
        reply = await self._change("settle", key, self._records.outcome(key, outcome))
        if reply[0] == b"too_large":
            raise OutcomeTooLarge
        is_the_end = bool(reply[0] == b"yes")
        owned = self.owned.end(key, outcome if is_the_end else None)
        if owned is not None and is_the_end:  # Redis knows no more of it
            if key in self._waiters:
                self._waiters.notify(key, structs.replace(owned, state=DONE, outcome=outcome))
        else:
            self.sync.look_at(key)
        return is_the_end

    async def get(self, key: str) -> Record | None:
        check_digest(key)
        return self._record(await self._ask("get", key))

    async def has_expired(self, key: str, principals: Sequence[str]) -> bool:
        check_digest(key)
        return bool((await self._ask("has_expired", key, list(principals)))[0] == b"yes")

    def local_record(self, key: str) -> Record | None:
        return self.owned.current(key)

    async def _watch(self, key: str) -> Record | None:
        """As `get`; Redis wakes this process when the call is over, waits for its user, or is gone."""
        return self._record(await self._ask("watch", key))

    async def wait(self, key: str, timeout_s: float) -> Record | None:
        check_digest(key)
        last, epoch = self.local_record(key) if self.sync.is_settled else None, self.sync.epoch
        waiter = self._waiters.add(key)
        try:
            async with asyncio.timeout(timeout_s):
                if last is None or last.state > ACCEPTED:  # else we own it, and Redis wakes the owner anyway
                    with suppress(StateUnavailable):  # then the call is fetched when Redis is back
                        last = await self._watch(key)
                        if last is None or last.state > ACCEPTED:
                            return last
                record = await waiter
                if record is None and last is not None and epoch != self.sync.epoch:
                    return await self._restore_as_unknown(last)
                return record
        except TimeoutError:
            pass
        finally:
            self._waiters.remove(key, waiter)
        try:
            return await self.get(key)
        except StateUnavailable:
            if last is None:
                raise
            return last

    async def _restore_as_unknown(self, last: Record) -> Record:
        """Restores as UNKNOWN a call that Redis lost with its data, and that its replica did not restore.

        That replica died at the same time. The call did begin, so it must not look like one that never did.
        """
        unknown = structs.replace(last, state=UNKNOWN)
        with suppress(StateUnavailable):  # then at least the waiter gets it
            await self.owned.restore_one(unknown)
        return unknown

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        check_digest(key)
        if outcome is not None and len(outcome) > self._max_result_bytes:
            raise OutcomeTooLarge
        owned, ended = self.owned.drop(key), None
        if owned is not None and outcome is not None:
            ended = structs.replace(owned, state=DONE, outcome=outcome)
        if await self.owned.forget(key, outcome):
            self._waiters.notify(key, ended)
        else:
            self.sync.look_at(key)

    def reduce(self, key: str, outcome: bytes) -> None:
        check_digest(key)
        with suppress(StateUnavailable):
            self.owned.reduce(key, outcome)

    async def mark_delivered(self, key: str) -> None:
        check_digest(key)
        await self._ask("delivered", key)

    async def claim(self, limit: int) -> Sequence[Record]:
        """As `claim_orphans`, for this partition."""
        if not self.sync.may_claim:
            return ()
        in_doubt, self.sync.claims_in_doubt = self.sync.claims_in_doubt, False
        reply = None
        try:
            suspects = await self._suspects() if in_doubt else []
            reply = await self._ask("claim", limit, suspects)
        finally:
            if reply is None:  # Redis may have handed calls over all the same
                self.sync.claims_in_doubt = True
        self.sync.has_dead = len(reply[1]) >= limit  # else the next heartbeat says whether there are more
        records = [self._records.read(key, row) for key, row in reply[1]]
        for record in records:
            if record.state.is_over:
                self.sync.look_at(record.key)
            else:
                self.owned[record.key] = record
        return records

    async def replicas(self) -> Mapping[str, float]:
        """As `State.replicas`."""
        reply = await self._ask("replicas", MAX_REPLICAS)
        return {name.decode(): age_ms / 1000 for name, age_ms in reply[1]}

    async def _suspects(self) -> list[str]:
        """Calls that are this replica's in Redis, and that are not known here."""
        reply = await self._ask("mine")
        return self.owned.unaccounted([name.decode() for name in reply[1]])

    async def _ask(self, *operation: Any) -> Reply:
        return _unless_restoring(await self._scripts.ask(*operation))

    async def _change(self, operation: str, key: str, *arguments: Any) -> Reply:
        """Changes a call; one that this process owns is restored first if Redis lacks it."""
        reply = await self._scripts.ask(operation, key, *arguments)
        if reply[0] not in (b"absent", b"restoring"):
            return reply
        owned = self.owned.get(key)
        if owned is None:
            return _unless_restoring(reply)
        await self.owned.restore_one(owned)
        return await self._ask(operation, key, *arguments)

    def _record(self, reply: Reply) -> Record | None:
        return self._records.read(reply[1], reply[2]) if reply[0] == b"record" else None


def _unless_restoring(reply: Reply) -> Reply:
    """The reply, unless Redis cannot know yet what it has lost. Raises NotDone."""
    if reply[0] == b"restoring":
        raise NotDone("the state has lost its data and is being restored")
    return reply
