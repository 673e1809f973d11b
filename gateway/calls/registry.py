"""The life of a remembered call: registered, run once, joined by its repetitions, remembered for a while.

Remembered are calls with a `call_id` of the caller's, calls to tool servers that answer later, and calls whose caller
will not wait. No others come here. The states are those of `state.port`. Tool servers get `tg-` and the key as call id.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from gateway.calls.executor import CallRequest, Executor
from gateway.calls.names import CallNames, new_run
from gateway.calls.orphans import adopt_orphans
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.status import (
    CANCELLED,
    NOT_FOUND,
    NOT_KEPT_PACKED,
    PREFIX,
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
from gateway.errors import ErrorCode, GatewayError
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

MAX_PATTERN_CHARACTERS = 2048  # of a route, in the metadata of each of its calls


class Calls:
    """Runs remembered calls, and takes the outcomes that deferred backends bring (`ports.Outcomes`).

    `callback_url` makes the address for the outcome of a call, from its key and run. `alone`: no other process has this
    state.
    """

    def __init__(
        self,
        state: State,
        digester: Digester,
        outcomes: OutcomeRecorder,
        *,
        backends: Mapping[str, Backend],
        callback_url: Callable[[str, str], str],
        alone: bool = False,
    ) -> None:
        self._state = state
        self._names = CallNames(digester, alone=alone)
        self._backends = backends
        self._outcomes = outcomes
        self._executor = Executor(state, outcomes, backends=backends, callback_url=callback_url)
        state.on_changed(self._executor.touched)
        self.group_of = self._names.group

    async def start(self) -> None:
        """Begins to look after the calls of replicas that died."""
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call each time
        await self._executor.start()
        orphans = adopt_orphans(self._state, self._outcomes, self._backends, self._executor.cancel_in)
        self._executor.in_background(orphans)

    def running(self) -> set[asyncio.Task[None]]:
        """The tasks of calls that run here and are not answered yet."""
        return self._executor.tasks()

    def stop(self) -> None:
        """Ends all calls that run here."""
        self._executor.stop_all()

    async def aclose(self) -> None:
        """Lets running calls finish, for a moment."""
        await self._executor.aclose()
        await self._outcomes.aclose()

    # For callers.

    async def run(self, request: CallRequest) -> CallView:
        """Runs, joins or replays a call; waits for its end as long as its caller does."""
        started_at = self._loop.time()
        while True:
            new, metadata = self._new(request)
            try:
                begun = await self._state.begin(new)
            except StateUnavailable:
                return view_of(new.key, metadata, new.backend, unavailable())
            if isinstance(begun, Created):
                break
            if not isinstance(begun, Exists):
                return view_of(new.key, metadata, new.backend, refusal_of(begun))
            joined = await self._join(begun.record, new, metadata, started_at + request.patience_s)
            if joined is not None:  # else it was taken back by the replica that began it, and may begin again
                return joined
        key = new.key
        if begun.found is not None:  # left behind by a replica that died
            key, metadata = begun.found.key, metadata_of(begun.found)
        backend = new.backend
        # Without an id its caller cannot look for it, unless a 202 has named it.
        ends_with_caller = new.joins and request.tool.backend.deferred and not request.preference.respond_async
        try:
            ending: CallStatus = await self._executor.execute(key, metadata, request, started_at)
            if ending is None:
                left_s = self._executor.until(started_at + request.patience_s)
                del request, new, begun  # thousands may wait here, for minutes: without their input
                ending = await self._wait(key, left_s)
        except asyncio.CancelledError:
            if ends_with_caller:
                self._executor.in_background(self._abandon(key, backend, metadata))
            raise
        view = view_of(key, metadata, backend, ending, joined=False)
        return view if view.remembered else self._answered(view)

    async def _join(self, record: Record, new: NewCall, metadata: CallMetadata, deadline: float) -> CallView | None:
        """Waits for a call that has begun already; None if it is gone. `metadata` is for a record without any."""
        metadata = metadata_of(record) if record.note else metadata
        status = status_of(record)
        if not new.joins:
            await self._mark_delivered(record, metadata)
        if status is None:
            status = await self._wait(record.key, self._executor.until(deadline))
        if status is NOT_FOUND:
            return None
        return self._answered(view_of(record.key, metadata, new.backend, status))

    async def _wait(self, key: str, timeout_s: float) -> CallStatus:
        """Waits for the outcome of a call, wherever it comes from; None if it still runs then, as far as is known."""
        if timeout_s:  # else it would be luck what is answered: perhaps a refusal that became a result
            with suppress(StateUnavailable):
                return self._outcomes.whole(key, status_of(await self._state.wait(key, timeout_s)))
        return None

    def _answered(self, view: CallView) -> CallView:
        """Drops the result of a call that its caller has waited for, if it cannot be asked for again."""
        if not (view.remembered or view.is_keyed) and isinstance(view.status, ToolResult):
            self._state.reduce(view.id.removeprefix(PREFIX), NOT_KEPT_PACKED)
        return view

    async def look(self, call_id: str, caller: Caller, *, delivers: bool = True) -> CallView | None:
        """The status of a call of this caller's; None if there is none of that id.

        `delivers`: the caller gets its result, if there is one.

        Raises NOT_FOUND if it has expired, BACKEND_UNAVAILABLE.
        """
        try:
            record = await self._find(call_id, caller)
            if record is None:
                return None
            return await self._delivered(record) if delivers else view_of_record(record)
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def cancel(self, call_id: str, caller: Caller) -> CallView | None:
        """Ends a call of this caller's unless it is over, and cancels it at its tool server if that is possible.

        Raises as `look`.
        """
        try:
            record = await self._find(call_id, caller)
            if record is None:
                return None
            is_cancelled = not record.state.is_over and await self._outcomes.settle(record.key, CANCELLED)
            if is_cancelled:
                await self._executor.abort(record.key, record.backend, metadata_of(record), CANCELLED)
            view = await self._delivered(await self._state.get(record.key) or record)
            # The caller who waits for it may have been answered by now, which leaves less in the record.
            return replace(view, status=CANCELLED) if is_cancelled else view
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def _abandon(self, key: str, backend: str, metadata: CallMetadata) -> None:
        """Cancels a call whose caller has left without its id, and so can neither look for it nor cancel it.

        One that waits for its user stays: the same call finds it, asked again.
        """
        try:
            record = self._state.held(key) or await self._state.get(key)
            if record is None or record.state is AWAITING_USER:
                return
            if not record.state.is_over and await self._outcomes.settle(key, CANCELLED):
                await self._executor.abort(key, backend, metadata, CANCELLED)
            self._state.reduce(key, pack(CANCELLED))
        except StateUnavailable:
            log.warning("a call whose caller left could not be cancelled", extra={"backend": backend})

    async def _delivered(self, record: Record) -> CallView:
        """The view of a call that its caller gets to see."""
        view = view_of_record(record)
        await self._mark_delivered(record, view.metadata)
        return view

    async def _mark_delivered(self, record: Record, metadata: CallMetadata) -> None:
        """Detaches the result of a call with a consent from its question: identical calls no longer join it."""
        if record.state is DONE and record.question is not None and metadata.challenge is not None:
            with suppress(StateUnavailable):  # then it is delivered once more
                await self._state.mark_delivered(record.key)

    async def _find(self, call_id: str, caller: Caller) -> Record | None:
        """The record of a call by our id, or by the caller's own if that call named no user but the credential's.

        Where credentials name users, no user sees the calls of another user of the same principal. Raises NOT_FOUND for
        a call that has expired, StateUnavailable.
        """
        if not (call_id.isascii() and call_id.isprintable()):
            return None
        own = self._names.keys_of_id(caller.principal, call_id, caller.user_id)
        ours = (call_id.removeprefix(PREFIX),) if call_id.startswith(PREFIX) else ()
        owners, gone = self._names.owners(caller.principal), []
        for key in (*ours, *own):
            try:
                record = await self._state.get(key)
            except ValueError:  # not even shaped like a key
                continue
            if record is None:
                gone.append(key)
            elif record.note and record.principal in owners and self._is_for(record, caller):
                return record
        for key in gone:
            # For which user an expired call was is not known, unless its key depends on the user.
            if (caller.user_id is None or key in own) and await self._state.has_expired(key, owners):
                raise GatewayError(ErrorCode.NOT_FOUND, "The result of this call has expired.")
        return None

    def _is_for(self, record: Record, caller: Caller) -> bool:
        """Whether a call of the caller's principal is for the user that the caller's credential names, if any."""
        if caller.user_id is None:
            return True
        return metadata_of(record).user in self._names.users(caller.principal, caller.user_id)

    async def consent_status(self, key: str) -> str:
        """The status of the consent a call waits for: pending, completed or failed."""
        try:
            status = status_of(await self._state.get(key))
        except StateUnavailable:
            return "pending"
        if isinstance(status, ToolResult):
            return "completed" if status.failure is None else "failed"
        return "failed" if status is NOT_FOUND or isinstance(status, GatewayError) else "pending"

    # For backends (`ports.Outcomes`).

    async def settle(self, call_id: str, result: ToolResult) -> bool:
        """Ends a call; False if it is over already or not known. Raises StateUnavailable if it cannot be held back."""
        key = call_id.removeprefix(PREFIX)
        has_ended = await self._outcomes.settle(key, result)
        if has_ended:
            self._executor.answered(key)
        return has_ended

    async def is_open(self, call_id: str, run: str) -> bool:
        """Whether an outcome of that run still counts; True while the state is away."""
        key = call_id.removeprefix(PREFIX)
        try:
            record = self._state.held(key) or await self._state.get(key)
        except StateUnavailable:
            return True
        if record is None or record.state is DONE:
            return False
        deferred = metadata_of(record).deferred if record.note else None
        return deferred is None or deferred.run == run

    async def challenge(self, call_id: str, challenge: JsonObject) -> bool:
        """Makes a call wait for its user; returns and raises as `settle`."""
        key = call_id.removeprefix(PREFIX)
        waits = await self._outcomes.challenge(key, challenge)
        if waits:
            self._executor.answered(key)
        return waits

    # Names and metadata.

    def _new(self, request: CallRequest) -> tuple[NewCall, CallMetadata]:
        """What is registered for a request."""
        call, principal, backend = request.call, request.caller.principal, request.tool.backend
        call_id, question, is_deferred = call.call_id, None, backend.deferred
        is_keyed = call_id is not None
        if call_id is not None:
            owner, key, fingerprint, older = self._names.keyed(principal, call)
            if is_deferred:
                question = self._names.question(principal, call)
        else:
            owner, key, fingerprint, older = self._names.unkeyed(principal, call)
            call_id, question = PREFIX + key, fingerprint if is_deferred else None
        metadata = CallMetadata(
            dialect=request.dialect,
            wire_version=request.wire_version,
            call_id=call_id,
            tool=request.tool.id,
            group=request.invocation.group,
            user="" if request.caller.user_id is None else self._names.users(principal, request.caller.user_id)[0],
            deferred=_deferred(request) if is_deferred else None,
            begun_s=time.time(),
        )
        new = NewCall(
            key=key,
            fingerprint=fingerprint,
            principal=owner,
            backend=backend.name,
            note=pack_metadata(metadata),
            question=question,
            joins=not is_keyed,
            idempotent=is_keyed and request.invocation.idempotent,  # without a call id it cannot be repeated
            state=DISPATCHING,  # at once, which saves another request to the state
            older=older,
        )
        return new, metadata


def _deferred(request: CallRequest) -> DeferredCall:
    route = request.tool.route
    patterns = tuple([pattern.pattern for pattern in route.failure_patterns])
    return DeferredCall(
        run=new_run(named=request.invocation.idempotent),
        decode=route.decode,
        failure_patterns=patterns if sum(map(len, patterns)) <= MAX_PATTERN_CHARACTERS else None,
        cancel_after_s=request.invocation.timeout_s if route.cancel_on_timeout else 0.0,
    )
