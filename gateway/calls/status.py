"""The status of a remembered call, which follows from its record, and how callers get to see it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from gateway.calls.records import CallMetadata, metadata_of, pack, pack_digest, unpack, unpack_dated
from gateway.core.errors import ErrorCode, FailureCode, GatewayError
from gateway.core.model import CallKey, Json, JsonObject, ToolFailure, ToolResult, public_id
from gateway.state.port import AWAITING_USER, UNKNOWN, Conflict, Expired, Full, Quota, Record

MISSING = "missing_requirements"  # a member of the error of a failure that was a refusal
RETRY_AFTER_MS = 1000  # of a call that still runs; to join it costs next to nothing
STATE_RETRY_S = 1.0
FULL: Mapping[Quota, str] = {
    "pending": "Too many of your calls are still running.",
    "records": "Too many of your finished calls are still stored.",
    "bytes": "The stored results of your calls take too much room.",
    "room": "There is no room to store another call at the moment.",
}


def _failed(message: str, code: FailureCode | None = None, **more: Any) -> ToolResult:
    return ToolResult(failure=ToolFailure(message=message, code=code or "", **more))


TOO_LARGE = _failed(
    "The tool has run. Its result was too large to be stored (state.max_result, or the room that was left): "
    "only a caller that waited for it got it.",
    FailureCode.RESULT_TOO_LARGE,
)
CANCELLED = _failed("The call was cancelled; the tool may have run.", FailureCode.CANCELLED, outcome="unknown")
# By the caller whose request waits for it, and who wants no answer to that any more.
WITHDRAWN = _failed("Its caller cancelled the call; the tool may have run.", FailureCode.CANCELLED, outcome="unknown")
OUTLASTED = _failed("The tool took too long, and the gateway stopped waiting; it may have run.", outcome="timeout")
STOPPED = _failed("The gateway was stopped; the tool may have run.", outcome="unknown")
BROKEN = _failed("The gateway failed; the tool may have run.", outcome="unknown")
CHALLENGE_TOO_LARGE = _failed(
    "The tool asked for a consent in a way that cannot be passed on.", FailureCode.BROKEN_ANSWER
)
UNREMEMBERED = _failed("The gateway that ran this call died; it is unknown whether the tool ran.", outcome="unknown")
GONE = _failed("The call has expired or was lost; it is unknown whether the tool ran.", outcome="unknown")
NOT_KEPT = _failed(
    "The call is over. Its result was delivered to the caller that waited for it, and was not stored.",
    FailureCode.RESULT_NOT_KEPT,
    outcome="unknown",
)
NOT_KEPT_PACKED = pack(NOT_KEPT)
UNSENT = _failed("The tool did not run: the gateway died before it called it.", FailureCode.NOT_RUN, can_retry=True)
RUNNING_KEYED = _failed(
    "The tool is still running.", FailureCode.STILL_RUNNING, can_retry=True, retry_after_ms=RETRY_AFTER_MS
)
RUNNING = _failed(
    "The tool is still running.",
    FailureCode.STILL_RUNNING,
    prompt_hint="It is still running and must not be called again.",
)


class ConsentPending(Struct, frozen=True):
    """A call waits for its user to consent at `challenge["url"]`."""

    challenge: JsonObject


class NotFound(Enum):
    """There is no such call: it never began, or was taken back since."""

    NOT_FOUND = "gone"


NOT_FOUND: Final = NotFound.NOT_FOUND  # no Struct: that something is not an instance of one is expensive to find out
CallStatus = ToolResult | GatewayError | ConsentPending | NotFound | None  # None: it still runs


class CallView(Struct, frozen=True, gc=False):
    """A call as one caller gets to see it."""

    key: CallKey
    metadata: CallMetadata
    backend: str
    status: ToolResult | ConsentPending | GatewayError | None
    remembered: bool = True  # it can be asked for by its `id`
    joined: bool = True  # nothing was run for this caller
    ended_s: float = 0.0  # by `time.time()`; 0: that is not known

    @property
    def id(self) -> str:
        """The id by which its caller may name it, beside one of the caller's own."""
        return public_id(self.key)

    @property
    def is_keyed(self) -> bool:
        """Whether its caller gave it an id."""
        return self.metadata.call_id != self.id


def status_of(record: Record | None) -> CallStatus:
    """The status of a call by its record."""
    if record is None:
        return NOT_FOUND
    if record.outcome is not None:
        return unpack(record.outcome)
    if record.state is UNKNOWN:
        return UNREMEMBERED
    if record.state is AWAITING_USER:
        return ConsentPending(metadata_of(record).challenge or {})
    return None


def pack_not_kept(delivered: ToolResult) -> bytes:
    """The outcome to record for a result that was delivered and not stored, by which its repetition is known."""
    return pack_digest(NOT_KEPT, delivered)


def still_running(*, keyed: bool) -> ToolResult:
    """The failure that a caller gets who has waited long enough. Only a call with an id (`keyed`) can be repeated."""
    return RUNNING_KEYED if keyed else RUNNING


def result_of(refusal: GatewayError) -> ToolResult:
    """A refusal as a result, for callers whose call was accepted before it was refused."""
    can_retry = refusal.code in (ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.MISSING_REQUIREMENTS)
    extras: dict[str, Json] = {}
    if refusal.missing is not None:
        extras[MISSING] = dict(refusal.missing)
    if refusal.parameters is not None:
        extras["parameter_errors"] = dict(refusal.parameters)
    message = f"The tool did not run: {refusal.message}"
    outcome = "refused" if refusal.parameters is None else "invalid"
    failure = ToolFailure(message=message, can_retry=can_retry, extras=extras, outcome=outcome, code=refusal.code)
    return ToolResult(failure=failure)


def view_of(key: CallKey, metadata: CallMetadata, backend: str, status: CallStatus, *, joined: bool = True) -> CallView:
    """A call as the caller who began or joined it gets to see it.

    It is not remembered if it was refused, or failed in a way that lets it be repeated; nor is a call without an id of
    its caller's whose caller has waited for the result.
    """
    if isinstance(status, ToolResult):
        failure = status.failure
        if metadata.call_id == public_id(key):
            remembered = joined or status is UNREMEMBERED
        else:
            remembered = failure is None or not failure.can_retry
    elif status is NOT_FOUND:  # since the caller began to wait
        status, remembered = GONE, True
    else:
        remembered = not isinstance(status, GatewayError)
    return CallView(key, metadata, backend, status, remembered, joined)


def view_of_record(record: Record) -> CallView:
    """A call as a caller gets to see it who asks for it later."""
    ended_s = 0.0
    if record.outcome is None:
        status = status_of(record)
    else:
        status, ended_s = unpack_dated(record.outcome)
    assert status is not NOT_FOUND
    if isinstance(status, GatewayError):  # it was refused to the caller who began it, not to this one
        status = result_of(status)
    return CallView(
        key=record.key, metadata=metadata_of(record), backend=record.backend, status=status, ended_s=ended_s
    )


def refusal_of(begin_result: Conflict | Expired | Full) -> GatewayError:
    """Why a call may not begin."""
    match begin_result:
        case Conflict():
            return GatewayError(ErrorCode.CALL_CONFLICT, "This call_id was used for a different call.")
        case Expired():
            return GatewayError(ErrorCode.RESULT_EXPIRED, "The call with this call_id has expired.")
        case Full(retry_after_s, quota):
            return GatewayError(ErrorCode.RATE_LIMITED, FULL[quota], retry_after_s=math.ceil(retry_after_s))


def unavailable() -> GatewayError:
    """The refusal of calls that have to be remembered while the state is away."""
    message = "Calls cannot be stored at the moment."
    detail = "the state cannot be reached"
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, message, detail=detail, retry_after_s=STATE_RETRY_S)
