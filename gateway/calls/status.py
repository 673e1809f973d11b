"""How a kept call stands, in the words of its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw, Struct

from gateway.errors import ErrorCode, FailureCode, GatewayError
from gateway.jsontext import ALWAYS_HERE_BYTES, is_wide
from gateway.model import Decode, Json, JsonObject, ToolFailure, ToolResult
from gateway.state.port import AWAITING_USER, UNKNOWN, Conflict, Expired, Full, Quota, Record

PREFIX = "tg-"
MISSING = "missing_requirements"  # a member of the error, where a refusal is told as a failure
RETRY_AFTER_MS = 1000  # told with "still running"; to join costs next to nothing
STATE_RETRY_S = 1.0
FULL: Mapping[Quota, str] = {
    "pending": "Too many of your calls are not over yet.",
    "records": "Too many of your calls are over and not forgotten yet.",
    "bytes": "The results of your calls that are kept take too much room.",
    "room": "There is no room to remember more calls at the moment.",
}

TOO_LARGE = ToolResult(
    failure=ToolFailure(
        message="The tool has run. Its result was too large to be kept: only a caller who waited for it has got it.",
        code=FailureCode.RESULT_TOO_LARGE,
    )
)
CANCELLED = ToolResult(
    failure=ToolFailure(
        message="The call was cancelled; the tool may have run.", outcome="unknown", code=FailureCode.CANCELLED
    )
)
OUTLASTED = ToolResult(
    failure=ToolFailure(
        message="The tool took too long and is no longer waited for; it may have run.", outcome="timeout"
    )
)
STOPPED = ToolResult(failure=ToolFailure(message="The gateway was stopped; the tool may have run.", outcome="unknown"))
BROKEN = ToolResult(failure=ToolFailure(message="The gateway failed; the tool may have run.", outcome="unknown"))
UNTOLD = ToolResult(
    failure=ToolFailure(
        message="The tool asked for a consent in a way that cannot be passed on.", code=FailureCode.BROKEN_ANSWER
    )
)
UNREMEMBERED = ToolResult(
    failure=ToolFailure(
        message="The gateway that ran this call broke down; nobody knows whether the tool ran.", outcome="unknown"
    )
)
TOLD = ToolResult(
    failure=ToolFailure(
        message="The call is over. Its result was told to the caller who waited for it, and is not kept.",
        outcome="unknown",
        code=FailureCode.RESULT_NOT_KEPT,
    )
)
UNSENT = ToolResult(
    failure=ToolFailure(
        message="The tool did not run: the gateway that was to call it broke down.",
        can_retry=True,
        code=FailureCode.NOT_RUN,
    )
)
RUNNING_KEYED = ToolResult(
    failure=ToolFailure(
        message="The tool is still running.",
        can_retry=True,
        retry_after_ms=RETRY_AFTER_MS,
        code=FailureCode.STILL_RUNNING,
    )
)
RUNNING = ToolResult(
    failure=ToolFailure(
        message="The tool is still running.",
        prompt_hint="It is still running and must not be called again.",
        code=FailureCode.STILL_RUNNING,
    )
)


class DeferredCall(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What any replica needs to know of a call whose outcome comes later.

    `run` is as in `Invocation`. `decode` and `failure_patterns` are the route's as the call began, by which its outcome
    is read, None if they are too long to be kept. It is cancelled `cancel_after_s` after its beginning; 0: never.
    """

    run: str
    decode: Decode = "auto"
    failure_patterns: tuple[str, ...] | None = ()
    cancel_after_s: float = 0.0


class CallMetadata(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What any replica needs to know of a call besides its outcome: how to tell of it, and what it waits for.

    `call_id` is the id that the caller is told, and `tool` the full id of what ran. `group` is as in `Invocation`.
    `challenge` is what its user has to consent to. `user` is a digest of the user whom the caller's credential named,
    if any. `begun_s` is when the call began, by `time.time()`.
    """

    dialect: str
    wire_version: str
    call_id: str
    tool: str
    group: str = ""
    challenge: JsonObject | None = None
    user: str = ""
    later: DeferredCall | None = None  # of calls of asynchronous backends
    begun_s: float = 0.0


class Consent(Struct, frozen=True):
    """A call waits for its user to consent at `challenge["url"]`."""

    challenge: JsonObject


class NotFound(Enum):
    """There is no such call: it never began, or it is as if it had not."""

    NOT_FOUND = "gone"


NOT_FOUND: Final = NotFound.NOT_FOUND  # no Struct: that something is not an instance of one is expensive to find out
CallStatus = ToolResult | GatewayError | Consent | NotFound | None  # None: it still runs


class CallView(Struct, frozen=True, gc=False):
    """How a call stands: its result, the consent it waits for, why it was refused, or None while it runs.

    `id` is ours. `remembered`: it can be asked for by that id. `joined`: nothing was run for who is told this.
    """

    id: str
    note: CallMetadata
    backend: str
    standing: ToolResult | Consent | GatewayError | None
    remembered: bool = True
    joined: bool = True

    @property
    def is_keyed(self) -> bool:
        """Whether its caller gave it an id to come back with."""
        return self.note.call_id != self.id


class _Refusal(Struct, frozen=True, array_like=True):
    """What is told of a `GatewayError`, in few bytes."""

    code: ErrorCode
    message: str
    developer_message: str | None = None
    parameters: dict[str, str] | None = None
    missing: JsonObject | None = None
    retry_after_s: float | None = None


class _Outcome(Struct, frozen=True, array_like=True):
    """A `ToolResult` in few bytes, or a refusal; a duration stays the integer that it was."""

    value: Raw
    failure: ToolFailure | None = None
    duration_ms: int | float | None = None
    refusal: _Refusal | None = None


_notes = msgspec.json.Decoder(CallMetadata)
_outcomes = msgspec.json.Decoder(_Outcome)
_encode = msgspec.json.Encoder().encode
pack_metadata: Callable[[CallMetadata], bytes] = _encode


def metadata_of(record: Record) -> CallMetadata:
    return _notes.decode(record.note)


def can_be_repeated(record: Record) -> bool:
    """Whether its caller gave it an id to come back with."""
    return bool(record.note) and metadata_of(record).call_id != PREFIX + record.key


def pack(result: ToolResult) -> bytes:
    return _encode((result.value, result.failure, result.duration_ms))  # an `_Outcome` that is never made


TOLD_ALREADY = pack(TOLD)


def pack_refusal(error: GatewayError) -> bytes:
    told = (error.code, error.message, error.developer_message, error.parameters, error.missing, error.retry_after_s)
    return _encode((None, None, None, told))


def unpack(outcome: bytes) -> ToolResult | GatewayError:
    packed = _outcomes.decode(outcome)
    if packed.refusal is None:
        text = bytes(packed.value)
        size = len(text)
        value = Raw(text) if size > ALWAYS_HERE_BYTES and is_wide(text) else msgspec.json.decode(text)
        return ToolResult(value=value, failure=packed.failure, duration_ms=packed.duration_ms, value_bytes=size)
    return GatewayError(
        packed.refusal.code,
        packed.refusal.message,
        developer_message=packed.refusal.developer_message,
        parameters=packed.refusal.parameters,
        missing=packed.refusal.missing,
        retry_after_s=packed.refusal.retry_after_s,
    )


def status_of(record: Record | None) -> CallStatus:
    """What a record says of its call."""
    if record is None:
        return NOT_FOUND
    if record.outcome is not None:
        return unpack(record.outcome)
    if record.state is UNKNOWN:
        return UNREMEMBERED
    if record.state is AWAITING_USER:
        return Consent(metadata_of(record).challenge or {})
    return None


def still_running(*, keyed: bool) -> ToolResult:
    """What a caller is told who waited long enough. Without an id of its own (`keyed`) it cannot repeat the call."""
    return RUNNING_KEYED if keyed else RUNNING


def result_of(refusal: GatewayError) -> ToolResult:
    """A refusal as a result, for callers to whom it comes too late to be told as one."""
    again = refusal.code in (ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.MISSING_REQUIREMENTS)
    asked: dict[str, Json] = {}
    if refusal.missing is not None:
        asked[MISSING] = dict(refusal.missing)
    if refusal.parameters is not None:
        asked["parameter_errors"] = dict(refusal.parameters)
    message = f"The tool did not run: {refusal.message}"
    outcome = "refused" if refusal.parameters is None else "invalid"
    failure = ToolFailure(message=message, can_retry=again, extras=asked, outcome=outcome, code=refusal.code)
    return ToolResult(failure=failure)


def view_of(
    key: str,
    note: CallMetadata,
    backend: str,
    standing: ToolResult | Consent | GatewayError | None,
    *,
    joined: bool = True,
) -> CallView:
    """A call as whoever began or joined it is told.

    It cannot be asked for later if it was refused, or failed in a way that lets it be repeated. Nor can a result of a
    call without an id of its caller's, once its caller has waited for it and is told.
    """
    ours = PREFIX + key
    if isinstance(standing, ToolResult):
        failure = standing.failure
        if note.call_id == ours:
            remembered = joined or standing is UNREMEMBERED
        else:
            remembered = failure is None or not failure.can_retry
    else:
        remembered = not isinstance(standing, GatewayError)
    return CallView(ours, note, backend, standing, remembered, joined)


def view_of_record(record: Record) -> CallView:
    """A call as whoever looks at its record is told."""
    standing = status_of(record)
    assert not isinstance(standing, NotFound)
    if isinstance(standing, GatewayError):  # who looks is not who was refused
        standing = result_of(standing)
    return CallView(id=PREFIX + record.key, note=metadata_of(record), backend=record.backend, standing=standing)


def refusal_of(begun: Conflict | Expired | Full) -> GatewayError:
    """Tells a caller why its call may not go on."""
    match begun:
        case Conflict():
            return GatewayError(ErrorCode.CALL_CONFLICT, "This call_id was used for a different call.")
        case Expired():
            return GatewayError(ErrorCode.RESULT_EXPIRED, "The result of this call_id has expired.")
        case Full(retry_after_s, quota):
            # Rounded up, so that nobody who comes back at that time is refused once more.
            return GatewayError(ErrorCode.RATE_LIMITED, FULL[quota], retry_after_s=math.ceil(retry_after_s))


def unavailable() -> GatewayError:
    """The refusal of everything that has to be remembered, while it cannot be."""
    message = "Calls cannot be remembered at the moment."
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, message, retry_after_s=STATE_RETRY_S)
