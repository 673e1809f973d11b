"""What is recorded of a remembered call: its metadata, and its outcome in few bytes."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.jsontext import ALWAYS_HERE_BYTES, is_wide
from gateway.core.model import Decode, Json, JsonObject, ToolFailure, ToolResult, public_id
from gateway.state.port import Record

MAX_DIGESTED_BYTES = 1 << 20  # a millisecond on the event loop


class DeferredCall(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What any replica needs to know of a call whose outcome comes later."""

    run: str  # as in `Invocation`
    decode: Decode = "auto"  # the route's when the call began, as the next: by them its outcome is read
    failure_patterns: tuple[str, ...] | None = ()  # None: they are too long to be recorded
    cancel_after_s: float = 0.0  # from its beginning; 0: it is never cancelled


class CallMetadata(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What any replica needs to know of a call besides its outcome: the `note` of its record."""

    dialect: str  # of its caller, as the next
    wire_version: str
    call_id: str  # the id that the caller is given
    tool: str  # the full id of what ran
    group: str = ""  # as in `Invocation`
    challenge: JsonObject | None = None  # what its user has to consent to
    user: str = ""  # a digest of the user whom the caller's credential named
    deferred: DeferredCall | None = None  # of calls of deferred backends
    begun_s: float = 0.0  # by `time.time()`
    consent_state: tuple[float, bool] | None = None  # when the user was asked, and whether the user has agreed
    account: str = ""  # as in `Caller`
    trace: str = ""  # the `traceparent` of the request that began the call, if spans of it are recorded


class _StoredRefusal(Struct, frozen=True, array_like=True):
    """A `GatewayError` in few bytes, without what is for our log."""

    code: ErrorCode
    message: str
    developer_message: str | None = None
    parameters: dict[str, str] | None = None
    missing: JsonObject | None = None
    retry_after_s: float | None = None


class _StoredOutcome(Struct, frozen=True, array_like=True):
    """A `ToolResult` in few bytes, or a refusal."""

    value: Raw
    failure: ToolFailure | None = None
    duration_ms: int | float | None = None  # an integer stays one
    refusal: _StoredRefusal | None = None
    ended_s: float = 0.0  # by `time.time()`
    blocks: Raw = Raw(b"null")
    structured: Literal["none", "value", "wrapped"] | None = None
    digest: str = ""  # of a result that was delivered and is not kept
    status: int = 0
    tool_code: str = ""
    meta: JsonObject | None = None


_decode_metadata = msgspec.json.Decoder(CallMetadata).decode
_decode_outcome = msgspec.json.Decoder(_StoredOutcome).decode
_encode = msgspec.json.Encoder().encode
pack_metadata: Callable[[CallMetadata], bytes] = _encode


def metadata_of(record: Record) -> CallMetadata:
    """Reads the metadata of a record that has any."""
    return _decode_metadata(record.note)


def is_keyed(record: Record) -> bool:
    """Whether the caller gave the call an id, by which it can be repeated."""
    return bool(record.note) and metadata_of(record).call_id != public_id(record.key)


def pack(result: ToolResult, ended_s: float = 0.0) -> bytes:
    """The outcome to record for a result."""
    value, failure, duration_ms = result.value, result.failure, result.duration_ms
    if result.blocks is None and result.structured is None and not (result.status or result.meta):
        return _encode((value, failure, duration_ms, None, ended_s))  # an `_StoredOutcome` that is never made
    return _encode((value, failure, duration_ms, None, ended_s, result.blocks, result.structured, *_origin(result)))


def _origin(result: ToolResult) -> tuple[Any, ...]:
    """The last members of an `_StoredOutcome`, of a failure or with what its tool server says beside the result."""
    is_plain = not (result.status or result.tool_code or result.meta)
    return () if is_plain else ("", result.status, result.tool_code, result.meta)


def pack_digest(stands_for: ToolResult, delivered: ToolResult) -> bytes:
    """The outcome to record in place of a result that was delivered and is not kept."""
    digest = _digest(delivered) if delivered.value_bytes <= MAX_DIGESTED_BYTES else ""
    return _encode((stands_for.value, stands_for.failure, stands_for.duration_ms, None, 0.0, None, None, digest))


def is_outcome(outcome: bytes, result: ToolResult) -> bool:
    """Whether a recorded outcome is, or stands for, a result with this value or failure."""
    packed = _decode_outcome(outcome)
    if packed.digest:
        return packed.digest == _digest(result)
    if packed.refusal is not None or packed.failure != result.failure:
        return False
    return bytes(packed.value) == _encode(result.value)


def _digest(result: ToolResult) -> str:
    return blake2b(_encode((result.value, result.failure)), digest_size=16).hexdigest()


def pack_refusal(error: GatewayError) -> bytes:
    """The outcome to record for a refusal."""
    refusal = (error.code, error.message, error.developer_message, error.parameters, error.missing, error.retry_after_s)
    return _encode((None, None, None, refusal))


def unpack(outcome: bytes) -> ToolResult | GatewayError:
    """Reads a recorded outcome; a value of very many parts stays text."""
    return unpack_dated(outcome)[0]


def unpack_dated(outcome: bytes) -> tuple[ToolResult | GatewayError, float]:
    """As `unpack`, and when the call ended, by `time.time()`; 0: that is not known."""
    packed = _decode_outcome(outcome)
    return _unpacked(packed), packed.ended_s


def _unpacked(packed: _StoredOutcome) -> ToolResult | GatewayError:
    refusal = packed.refusal
    if refusal is None:
        return ToolResult(
            value=_unpack_value(packed.value),
            failure=packed.failure,
            duration_ms=packed.duration_ms,
            value_bytes=len(packed.value),
            blocks=_unpack_value(packed.blocks),
            structured=packed.structured,
            status=packed.status,
            tool_code=packed.tool_code,
            meta=packed.meta,
        )
    return GatewayError(
        refusal.code,
        refusal.message,
        developer_message=refusal.developer_message,
        parameters=refusal.parameters,
        missing=refusal.missing,
        retry_after_s=refusal.retry_after_s,
    )


def _unpack_value(packed: Raw) -> Json:
    text = bytes(packed)
    return Raw(text) if len(text) > ALWAYS_HERE_BYTES and is_wide(text) else msgspec.json.decode(text)
