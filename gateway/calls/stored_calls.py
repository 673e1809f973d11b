"""Calls that were made earlier, for callers who come back: found by an id, or by the request that began them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from gateway.calls.executor import Executor
from gateway.calls.names import CallNames
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.records import CallMetadata, metadata_of
from gateway.calls.status import (
    CANCELLED,
    WITHDRAWN,
    CallView,
    ConsentPending,
    status_of,
    unavailable,
    view_of,
    view_of_record,
)
from gateway.core.errors import ErrorCode, GatewayError, StateUnavailable
from gateway.core.model import JsonObject, ToolResult, key_of
from gateway.core.ports import Caller
from gateway.state.port import DONE, Record, State

log = logging.getLogger("gateway.calls")


class StoredCalls:
    """Shows and ends them. No caller sees another's."""

    def __init__(self, state: State, names: CallNames, outcomes: OutcomeRecorder, executor: Executor) -> None:
        self._state = state
        self._names = names
        self._outcomes = outcomes
        self._executor = executor

    # By the id of a call.

    async def view(self, call_id: str, caller: Caller, *, delivers: bool = True) -> CallView | None:
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

        Raises as `view`.
        """
        try:
            record = await self._find(call_id, caller)
            if record is None:
                return None
            is_cancelled = not record.state.is_over and await self.end(record)
            view = await self._delivered(await self._state.get(record.key) or record)
            # The caller who waits for it may have been answered by now, which leaves less in the record.
            return replace(view, status=CANCELLED) if is_cancelled else view
        except StateUnavailable as exc:
            raise unavailable() from exc

    async def consent(self, call_id: str, caller: Caller, decision: Callable[[JsonObject], bool | None]) -> bool:
        """Takes what a user decides of the challenge that a call of this caller's waits for; False: there is none.

        A call whose user does not agree is cancelled. Raises as `view`.
        """
        try:
            record = await self._find(call_id, caller)
            if record is None:
                return False
            status = status_of(record)
            if not isinstance(status, ConsentPending):
                return True
            decided = decision(status.challenge)
            if decided:
                await self._outcomes.consent(record.key, status.challenge)
        except StateUnavailable as exc:
            raise unavailable() from exc
        if decided is False:
            await self.cancel(call_id, caller)
        return True

    async def _delivered(self, record: Record) -> CallView:
        """The view of a call that its caller gets to see."""
        view = view_of_record(record)
        await mark_delivered(self._state, record, view.metadata)
        return view

    async def _find(self, call_id: str, caller: Caller) -> Record | None:
        """The record of a call by our id, or by the caller's own if that call named no user but the credential's.

        Where credentials name users, no user sees the calls of another user of the same principal. Raises NOT_FOUND for
        a call that has expired, StateUnavailable.
        """
        if not (call_id.isascii() and call_id.isprintable()):
            return None
        own = self._names.keys_of_id(caller.principal, call_id, caller.user_id)
        key = key_of(call_id)
        ours = () if key is None or not key.startswith(self._names.mark(caller.principal)) else (key,)
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
                raise GatewayError(ErrorCode.NOT_FOUND, "This call has expired.")
        return None

    # By the request that began it (`CallOptions.request_key`).

    async def withdraw(self, request_key: str, caller: Caller) -> None:
        """Cancels the call of an earlier request of this caller's (`CallOptions`), if there is one that is not over."""
        try:
            record = await self._find_by_request(request_key, caller)
            if record is not None and not record.state.is_over:
                await self.end(record, WITHDRAWN)
        except StateUnavailable:
            log.warning("a call could not be cancelled, because the state is away")

    async def rejoin(self, request_key: str, caller: Caller, timeout_s: float) -> CallView | None:
        """The call of an earlier request of this caller's, once it is over; None if nothing is known of it.

        Raises BACKEND_UNAVAILABLE.
        """
        try:
            record = await self._find_by_request(request_key, caller)
        except StateUnavailable as exc:
            raise unavailable() from exc
        if record is None:
            return None
        status = status_of(record)
        if status is None:
            status = await self._outcomes.wait(record.key, timeout_s)
        return view_of(record.key, metadata_of(record), record.backend, status)

    async def _find_by_request(self, request_key: str, caller: Caller) -> Record | None:
        """The record of the call that a request of this caller's began. Raises StateUnavailable."""
        for key in self._names.keys_of_request(caller.principal, request_key):
            record = await self._state.get(key)
            if record is not None and record.note and self._is_for(record, caller):
                return record
        return None

    # Both.

    async def end(self, record: Record, ending: ToolResult = CANCELLED) -> bool:
        """Cancels a call, here and at its tool server; False if it is over by now. Raises StateUnavailable."""
        is_cancelled = await self._outcomes.settle(record.key, ending)
        if is_cancelled:
            await self._executor.abort(record.key, record.backend, metadata_of(record), ending)
        return is_cancelled

    def _is_for(self, record: Record, caller: Caller) -> bool:
        """Whether a call of the caller's principal is for the user that the caller's credential names, if any."""
        if caller.user_id is None:
            return True
        return metadata_of(record).user in self._names.users(caller.principal, caller.user_id)


async def mark_delivered(state: State, record: Record, metadata: CallMetadata) -> None:
    """Detaches the result of a call with a consent from its question: identical calls no longer join it."""
    if record.state is DONE and record.question is not None and metadata.challenge is not None:
        with suppress(StateUnavailable):  # then it is delivered once more
            await state.mark_delivered(record.key)
