"""The life of a remembered call: registered, run once, joined by its repetitions, remembered for a while.

Remembered are calls with a `call_id` of the caller's, calls to tool servers that answer later, and calls whose caller
will not wait. No others come here. The states are those of `state.port`. Tool servers get the public id of its key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gateway.calls.execution import CallRequest
from gateway.calls.executor import Executor
from gateway.calls.names import CallNames
from gateway.calls.orphans import adopt_orphans
from gateway.calls.outcomes import OutcomeRecorder, Run
from gateway.calls.records import CallMetadata, is_outcome, metadata_of, pack
from gateway.calls.registration import registration
from gateway.calls.status import (
    BROKEN,
    CANCELLED,
    NOT_FOUND,
    NOT_KEPT_PACKED,
    WITHDRAWN,
    CallStatus,
    CallView,
    pack_not_kept,
    refusal_of,
    status_of,
    unavailable,
    view_of,
)
from gateway.calls.stored_calls import StoredCalls, mark_delivered
from gateway.core.errors import GatewayError, StateUnavailable
from gateway.core.model import CallKey, JsonObject, ToolResult, public_id
from gateway.core.ports import Backend
from gateway.core.sealing import Digester
from gateway.state.port import AWAITING_USER, DONE, BeginResult, Conflict, Created, Exists, Full, NewCall, Record, State

log = logging.getLogger("gateway.calls")

MAX_REPEATED_BYTES = 64 * 1024  # of a result that is told again to a request that comes again after it was answered


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
        callback_url: Callable[[CallKey, str], str],
        alone: bool = False,
    ) -> None:
        self._state = state
        self._names = CallNames(digester, alone=alone, partitions=state.partitions)
        self._backends = backends
        self._outcomes = outcomes
        self._executor = Executor(state, outcomes, backends=backends, callback_url=callback_url)
        state.on_changed(self._executor.look_again)
        self.group_of = self._names.group
        self.stored_calls = StoredCalls(state, self._names, outcomes, self._executor)

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

    async def run(  # noqa: C901 - flat, because every remembered call takes this way
        self, request: CallRequest
    ) -> CallView:
        """Runs, joins or replays a call; waits for its end as long as its caller does."""
        started_at, begins_anew = self._loop.time(), False
        while True:
            new, metadata = registration(request, self._names)
            if begins_anew:
                new = replace(new, rejoins=False)
            try:
                begin_result: BeginResult | None = await self._state.begin(new)
            except StateUnavailable:
                begin_result = None
            if isinstance(begin_result, Created):
                break
            if request.request_key is not None and isinstance(begin_result, Conflict):  # its caller counts from 0 again
                request = replace(request, options=replace(request.options, request_key=None))
            elif isinstance(begin_result, Exists) and new.rejoins and _is_to_be_repeated(begin_result.record):
                begins_anew = True
            elif isinstance(begin_result, Exists):
                joined = await self._join(begin_result.record, new, metadata, started_at + request.patience_s)
                if joined is not None:  # else it was taken back by the replica that began it, and may begin again
                    return joined
            elif _needs_no_record(request, begin_result):
                return await self._run_unrecorded(new, metadata, request)
            else:
                return view_of(
                    new.key, metadata, new.backend, unavailable() if begin_result is None else refusal_of(begin_result)
                )
        key, server_request = new.key, request.server_request
        if begin_result.inherited is not None:  # left behind by a replica that died
            key, metadata = begin_result.inherited.key, metadata_of(begin_result.inherited)
        backend, ends_with_caller = new.backend, request.ends_with_caller
        rejoins = request.request_key is not None
        try:
            ending: CallStatus = await self._executor.execute(key, metadata, request, started_at)
            if ending is None:
                left_s = self._executor.seconds_until(started_at + request.patience_s)
                del request, new, begin_result  # thousands may wait here, for minutes: without their input
                ending = await self._outcomes.wait(key, left_s)
        except asyncio.CancelledError:
            if ends_with_caller:
                self._executor.in_background(self._abandon(key, backend, metadata))
            raise
        view = view_of(key, metadata, backend, ending, joined=False)
        if rejoins and server_request is not None and server_request.disconnected:
            return view  # its caller may come again for the result
        return self._drop_delivered(view, is_repeatable=rejoins)

    async def _run_unrecorded(self, new: NewCall, metadata: CallMetadata, request: CallRequest) -> CallView:
        """Runs a call that cannot be remembered now and need not be: its caller gave it no id."""
        backend = request.tool.backend
        assert not backend.deferred
        if request.server_request is not None and not request.ends_with_caller:
            request.server_request.keep()
        ending: ToolResult | GatewayError = BROKEN
        try:
            ending = await backend.call(replace(request.invocation, call_id=public_id(new.key)))
        except GatewayError as refusal:
            refusal.drop_trace()
            ending = refusal
        except Exception:
            log.exception("a call failed inside the gateway after it may have reached a tool server")
        finally:  # also if its caller leaves
            self._outcomes.ended(Run.of(backend.name, metadata, request.tool), ending)
        return view_of(new.key, metadata, new.backend, ending, joined=False)

    async def _join(self, record: Record, new: NewCall, metadata: CallMetadata, deadline: float) -> CallView | None:
        """Waits for a call that has begun already; None if it is gone. `metadata` is for a record without any."""
        metadata = metadata_of(record) if record.note else metadata
        status = status_of(record)
        if not new.joins:
            await mark_delivered(self._state, record, metadata)
        if status is None:
            status = await self._outcomes.wait(record.key, self._executor.seconds_until(deadline))
        elif status == WITHDRAWN:
            status = CANCELLED  # before this request came, which wants an answer
        if status is NOT_FOUND:
            return None
        return self._drop_delivered(view_of(record.key, metadata, new.backend, status))

    def _drop_delivered(self, view: CallView, *, is_repeatable: bool = False) -> CallView:
        """Drops the result of a call that its caller has waited for, if it cannot be asked for again.

        `is_repeatable`: its request may come again, for which a small result is kept for some minutes.
        """
        if not (view.remembered or view.is_keyed) and isinstance(view.status, ToolResult):
            left = NOT_KEPT_PACKED if view.metadata.deferred is None else pack_not_kept(view.status)
            if is_repeatable and len(packed := pack(view.status)) <= MAX_REPEATED_BYTES:
                left = packed
            self._state.reduce(view.key, left)
        return view

    async def _abandon(self, key: CallKey, backend: str, metadata: CallMetadata) -> None:
        """Cancels a call whose caller has left without its id, and so can neither look for it nor cancel it.

        One that waits for its user stays: the same call finds it, asked again.
        """
        try:
            record = self._state.local_record(key) or await self._state.get(key)
            if record is None or record.state is AWAITING_USER:
                return
            if not record.state.is_over and await self._outcomes.settle(key, CANCELLED):
                await self._executor.abort(key, backend, metadata, CANCELLED)
            self._state.reduce(key, pack(CANCELLED))
        except StateUnavailable:
            log.warning("a call whose caller left could not be cancelled", extra={"backend": backend})

    async def consent_status(self, key: CallKey) -> str:
        """The status of the consent a call waits for: pending, completed or failed."""
        try:
            status = status_of(await self._state.get(key))
        except StateUnavailable:
            return "pending"
        if isinstance(status, ToolResult):
            return "completed" if status.failure is None else "failed"
        return "failed" if status is NOT_FOUND or isinstance(status, GatewayError) else "pending"

    # For backends (`ports.Outcomes`).

    async def settle(self, key: CallKey, result: ToolResult) -> bool:
        """Ends a call; False if it is over already or not known. Raises StateUnavailable if it cannot be held back."""
        has_ended = await self._outcomes.settle(key, result)
        if has_ended:
            self._executor.note_answer(key)
        return has_ended

    async def has_ended_with(self, key: CallKey, result: ToolResult) -> bool:
        """Whether a call ended with a result that is equal to this one, if that is known. Raises StateUnavailable."""
        record = await self._state.get(key)
        return record is not None and record.outcome is not None and is_outcome(record.outcome, result)

    async def is_open(self, key: CallKey, run: str) -> bool:
        """Whether an outcome of that run still counts; True while the state is away."""
        try:
            record = self._state.local_record(key) or await self._state.get(key)
        except StateUnavailable:
            return True
        if record is None or record.state is DONE:
            return False
        deferred = metadata_of(record).deferred if record.note else None
        return deferred is None or deferred.run == run

    async def challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        """Makes a call wait for its user; returns and raises as `settle`."""
        waits = await self._outcomes.challenge(key, challenge)
        if waits:
            self._executor.note_answer(key)
        return waits


def _is_to_be_repeated(record: Record) -> bool:
    """Whether a call has ended in a way that lets the request that began it have another try when it comes again."""
    status = status_of(record)
    if isinstance(status, ToolResult):
        return status.failure is not None and status.failure.can_retry
    return isinstance(status, GatewayError)


def _needs_no_record(request: CallRequest, begin_result: BeginResult | None) -> bool:
    """Whether a call runs although there is no state (None) or no room to remember it: its caller waits."""
    is_asked_for_later = request.call.call_id is not None or request.preference.respond_async
    return not (is_asked_for_later or request.tool.backend.deferred) and (
        begin_result is None or isinstance(begin_result, Full)
    )
