"""The life of a call that is kept: registered, run once, joined by its repetitions, remembered.

Kept are calls with a `call_id` of the caller's, calls to tool servers that answer later, and calls whose caller will
not wait. No others come here. The states are those of `state.port`; tool servers know our calls as `tg-` and the key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from gateway.calls.execution import CallRequest
from gateway.calls.executor import Executor
from gateway.calls.lookup import CallLookup
from gateway.calls.names import CallNames, new_run
from gateway.calls.orphans import adopt_orphans
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.status import (
    CANCELLED,
    NOT_FOUND,
    PREFIX,
    TOLD_ALREADY,
    UNREMEMBERED,
    CallMetadata,
    CallStatus,
    CallView,
    DeferredCall,
    metadata_of,
    pack,
    pack_metadata,
    refusal_of,
    status_of,
    unavailable,
    view_of,
    view_of_record,
)
from gateway.errors import GatewayError
from gateway.model import JsonObject, ToolResult
from gateway.ports import Backend, Caller
from gateway.state.port import (
    AWAITING_USER,
    DISPATCHING,
    DONE,
    Created,
    Exists,
    NewCall,
    Record,
    State,
    StateUnavailable,
)
from gateway.state.sealing import Digester

log = logging.getLogger("gateway.calls")

MAX_PATTERN_CHARACTERS = 2048  # of a route, in the note of each of its calls


class Calls:
    """Runs kept calls, and is where asynchronous backends bring their outcomes (`ports.Outcomes`).

    `callback_url` makes the address for the outcome of a call, from its key and run. `alone`: no other process has this
    state.
    """

    def __init__(
        self,
        state: State,
        digester: Digester,
        endings: OutcomeRecorder,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str, str], str],
        alone: bool = False,
    ) -> None:
        self._state = state
        self._names = CallNames(digester, alone=alone)
        self._finding = CallLookup(state, self._names)
        self._backends = backends
        self._endings = endings
        self._running = Executor(state, self._endings, backends=backends, callback_url=callback_url)
        state.on_changed(self._running.touched)
        self.group_of = self._names.group

    async def start(self) -> None:
        """Begins to look after the calls of replicas that died."""
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time
        await self._running.start()
        orphans = adopt_orphans(self._state, self._endings, self._backends, self._running.cancel_in)
        self._running.in_background(orphans)

    def running(self) -> set[asyncio.Task[None]]:
        """The calls that run here apart from their callers."""
        return self._running.tasks()

    async def aclose(self) -> None:
        """Lets calls whose callers have gone finish, for a moment."""
        await self._running.aclose()
        await self._endings.aclose()

    # The caller's side.

    async def run(self, asked: CallRequest) -> CallView:
        """Runs, joins or replays a call; waits for its end as long as its caller does."""
        asked_at = self._loop.time()
        while True:
            new, note = self._new(asked)
            try:
                begun = await self._state.begin(new)
            except StateUnavailable:
                return view_of(new.key, note, new.backend, unavailable())
            if isinstance(begun, Created):
                found = begun.found  # as a dead replica left it
                key, note = (new.key, note) if found is None else (found.key, metadata_of(found))
                backend, ends_with_caller = new.backend, asked.ends_with_caller
                try:
                    ending = await self._running.follow(key, note, asked, asked_at)
                    if ending is not None:
                        kept = view_of(key, note, backend, ending, joined=False)
                        return self._answered(kept) if new.joins else kept
                    left_s = self._running.until(asked_at + asked.patience_s)
                    # Thousands may wait here, for minutes: without their input, in no frame more than there must be.
                    del asked, new, begun, found
                    standing: CallStatus = None
                    if left_s:  # else it would be luck what is told: perhaps a refusal that became a result
                        with suppress(StateUnavailable):  # then all that is known is that it runs
                            standing = self._endings.whole(key, status_of(await self._state.wait(key, left_s)))
                except asyncio.CancelledError:
                    if ends_with_caller:
                        self._running.in_background(self._abandon(key, backend, note))
                    raise
                standing = UNREMEMBERED if standing is NOT_FOUND else standing
                return self._answered(view_of(key, note, backend, standing, joined=False))
            if not isinstance(begun, Exists):
                return view_of(new.key, note, new.backend, refusal_of(begun))
            joined = await self._join(begun.record, new, note, asked_at + asked.patience_s)
            if joined is not None:  # else whoever began it took that back: it may be begun again
                return joined

    async def _join(self, record: Record, new: NewCall, note: CallMetadata, deadline: float) -> CallView | None:
        """Waits for a call that somebody has begun already; None if it is gone. `note` is for one that has none."""
        note = metadata_of(record) if record.note else note
        standing = status_of(record)
        if not new.joins:
            await self._tell_no_more(record, note)
        if standing is None:
            with suppress(StateUnavailable):  # as above
                ended = await self._state.wait(record.key, self._running.until(deadline))
                standing = self._endings.whole(record.key, status_of(ended))
        if standing is NOT_FOUND:
            return None
        kept = view_of(record.key, note, new.backend, standing)
        return self._answered(kept) if new.joins else kept

    def _answered(self, kept: CallView) -> CallView:
        """A call as whoever waited for it is told; its result is let go of if nobody can ask for it again."""
        if not (kept.remembered or kept.is_keyed) and isinstance(kept.standing, ToolResult):
            self._state.reduce(kept.id.removeprefix(PREFIX), TOLD_ALREADY)
        return kept

    async def look(self, call_id: str, caller: Caller, *, told: bool = True) -> CallView | None:
        """How a call of this caller's stands; None if there is none of that id. `told`: the caller is shown its end.

        Raises NOT_FOUND if it has expired, BACKEND_UNAVAILABLE.
        """
        try:
            record = await self._finding.find(call_id, caller)
            if record is None:
                return None
            return await self._told(record) if told else view_of_record(record)
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def cancel(self, call_id: str, caller: Caller) -> CallView | None:
        """Ends a call of this caller's unless it is over; the tool server is told if it can be.

        Raises as `look`.
        """
        try:
            record = await self._finding.find(call_id, caller)
            if record is None:
                return None
            is_cancelled = not record.state.is_over and await self._endings.settle(record.key, CANCELLED)
            if is_cancelled:
                await self._running.give_up(record.key, record.backend, metadata_of(record), CANCELLED)
            kept = await self._told(await self._state.get(record.key) or record)
            # The caller who waits for it may have been told by now, after which its record tells no more.
            return replace(kept, standing=CANCELLED) if is_cancelled else kept
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def _abandon(self, key: str, backend: str, note: CallMetadata) -> None:
        """Cancels a call whose caller has left without its id, and so can neither look for it nor cancel it.

        One that waits for its user stays: the same call finds it, asked again.
        """
        try:
            record = self._state.held(key) or await self._state.get(key)
            if record is None or record.state is AWAITING_USER:
                return
            if not record.state.is_over and await self._endings.settle(key, CANCELLED):
                await self._running.give_up(key, backend, note, CANCELLED)
            self._state.reduce(key, pack(CANCELLED))
        except StateUnavailable:
            log.warning("a call whose caller left could not be cancelled", extra={"backend": backend})

    async def _told(self, record: Record) -> CallView:
        """A call as its caller is told of it."""
        kept = view_of_record(record)
        await self._tell_no_more(record, kept.note)
        return kept

    async def _tell_no_more(self, record: Record, note: CallMetadata) -> None:
        """What came of a consent is not told again to callers who ask the same."""
        if record.state is DONE and record.question is not None and note.challenge is not None:
            with suppress(StateUnavailable):  # then it is told once more
                await self._state.mark_delivered(record.key)

    async def consent_status(self, key: str) -> str:
        """How the consent a call waits for stands: pending, completed or failed."""
        try:
            standing = status_of(await self._state.get(key))
        except StateUnavailable:
            return "pending"
        if isinstance(standing, ToolResult):
            return "completed" if standing.failure is None else "failed"
        return "failed" if standing is NOT_FOUND or isinstance(standing, GatewayError) else "pending"

    # The backends' side (`ports.Outcomes`).

    async def settle(self, call_id: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or nobody knows it. Raises StateUnavailable if it cannot wait."""
        key = call_id.removeprefix(PREFIX)
        has_ended = await self._endings.settle(key, result)
        if has_ended:
            self._running.answered(key)
        return has_ended

    async def is_open(self, call_id: str, run: str) -> bool:
        """Whether an outcome of that run still counts; True while nobody can tell."""
        key = call_id.removeprefix(PREFIX)
        try:
            record = self._state.held(key) or await self._state.get(key)
        except StateUnavailable:
            return True
        if record is None or record.state is DONE:
            return False
        later = metadata_of(record).later if record.note else None
        return later is None or later.run == run

    async def challenge(self, call_id: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; False and raises as `settle`."""
        key = call_id.removeprefix(PREFIX)
        waits = await self._endings.challenge(key, challenge)
        if waits:
            self._running.answered(key)
        return waits

    # What a call is called.

    def _new(self, asked: CallRequest) -> tuple[NewCall, CallMetadata]:
        call, principal, backend = asked.call, asked.caller.principal, asked.tool.backend
        call_id, question = call.call_id, None
        if call_id is not None:
            owner, key, fingerprint, older = self._names.keyed(principal, call)
            if backend.deferred:
                question = self._names.question(principal, call)
        else:
            owner, key, fingerprint, older = self._names.unkeyed(principal, call)
            call_id, question = PREFIX + key, fingerprint if backend.deferred else None
        note = CallMetadata(
            dialect=asked.dialect,
            wire_version=asked.wire_version,
            call_id=call_id,
            tool=asked.tool.id,
            group=asked.invocation.group,
            user="" if asked.caller.user_id is None else self._names.users(principal, asked.caller.user_id)[0],
            later=_later(asked) if backend.deferred else None,
            begun_s=time.time(),
        )
        new = NewCall(
            key=key,
            fingerprint=fingerprint,
            principal=owner,
            backend=backend.name,
            note=pack_metadata(note),
            question=question,
            joins=call.call_id is None,
            idempotent=asked.invocation.idempotent and call.call_id is not None,  # else nobody can repeat it
            state=DISPATCHING,  # at once, which saves another question to the state
            older=older,
        )
        return new, note


def _later(asked: CallRequest) -> DeferredCall:
    route = asked.tool.route
    patterns = tuple([pattern.pattern for pattern in route.failure_patterns])
    return DeferredCall(
        run=new_run(named=asked.invocation.idempotent),
        decode=route.decode,
        failure_patterns=patterns if sum(map(len, patterns)) <= MAX_PATTERN_CHARACTERS else None,
        cancel_after_s=asked.invocation.timeout_s if route.cancel_on_timeout else 0.0,
    )
