"""What a record says of its call, and how a result gets into it and out again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.calls.records import CallMetadata, metadata_of, pack, pack_metadata, unpack
from gateway.calls.status import (
    GONE,
    NOT_FOUND,
    UNREMEMBERED,
    ConsentPending,
    refusal_of,
    result_of,
    status_of,
    still_running,
    view_of,
    view_of_record,
)
from gateway.core import jsontext
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, Json, ToolFailure, ToolResult
from gateway.state.port import CallState, Conflict, Expired, Full, Quota, Record

NOTE = CallMetadata(dialect="oxp", wire_version="1.0.0", call_id="k", tool="Echo.Say@1.0.0", group="g")
PINNED = ToolResult(failure=ToolFailure(message="No."))
REPEATABLE = ToolResult(failure=ToolFailure(message="No.", can_retry=True))
REFUSED = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "Later.", retry_after_s=2)


def record(state: CallState, **more: Any) -> Record:
    fields: dict[str, Any] = {
        "key": "key",
        "fingerprint": "f",
        "principal": "p",
        "backend": "b",
        "replica": "r",
        "created_s": 1.0,
    }
    return Record(**{**fields, "state": state, "note": pack_metadata(NOTE)} | more)


ANY_JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=ANY_JSON, duration_ms=st.none() | st.integers(0, 10**40) | st.floats(0, 1e300), extra=ANY_JSON)
def test_a_result_comes_out_as_it_went_in(value: Json, duration_ms: Any, extra: Json) -> None:
    """To the letter: an integer stays one, and members keep their order."""
    failure = ToolFailure(message="m", developer_message="d", retry_after_ms=3, prompt_hint="h", extras={"x": extra})
    for result in (
        ToolResult(value=value, duration_ms=duration_ms),
        ToolResult(failure=failure, duration_ms=duration_ms),
    ):
        unpacked = unpack(pack(result))
        assert isinstance(unpacked, ToolResult)
        assert jsontext.encode(replace(unpacked, value_bytes=result.value_bytes)) == jsontext.encode(result)


def test_a_note_comes_out_as_it_went_in() -> None:
    assert metadata_of(record(CallState.ACCEPTED)) == NOTE


def test_a_record_says_how_its_call_stands() -> None:
    asking = pack_metadata(
        CallMetadata(dialect="oxp", wire_version="1.0", call_id="k", tool="t", challenge={"id": "1", "url": "u"})
    )
    assert status_of(None) == NOT_FOUND
    for state in (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED):
        assert status_of(record(state)) is None
    assert status_of(record(CallState.AWAITING_USER, note=asking)) == ConsentPending({"id": "1", "url": "u"})
    assert status_of(record(CallState.UNKNOWN, note=b"")) == UNREMEMBERED
    assert status_of(record(CallState.DONE, outcome=pack(PINNED))) == PINNED


@pytest.mark.parametrize(
    ("standing", "remembered"),
    [(None, True), (ToolResult(value=1), True), (PINNED, True), (REPEATABLE, False), (REFUSED, False)],
)
def test_what_may_be_repeated_is_not_remembered(standing: Any, remembered: bool) -> None:
    kept = view_of(CallKey("key"), NOTE, "b", standing)
    assert (kept.id, kept.is_keyed, kept.remembered) == ("tg-key", True, remembered)


def test_a_caller_who_waited_for_a_call_that_is_gone_is_told_so() -> None:
    assert view_of(CallKey("key"), NOTE, "b", NOT_FOUND).status == GONE


def test_what_a_record_holds_is_remembered_whatever_it_is() -> None:
    kept = view_of_record(record(CallState.DONE, outcome=pack(REPEATABLE)))
    assert (kept.remembered, kept.status, kept.backend, kept.metadata) == (True, REPEATABLE, "b", NOTE)


def test_only_who_has_an_id_is_told_to_come_back() -> None:
    keyed, other = still_running(keyed=True).failure, still_running(keyed=False).failure
    assert keyed is not None
    assert other is not None
    assert (keyed.can_retry, keyed.retry_after_ms, keyed.prompt_hint) == (True, 1000, None)
    assert (other.can_retry, other.retry_after_ms) == (False, None)
    assert other.prompt_hint == "It is still running and must not be called again."


def test_why_a_call_may_not_go_on() -> None:
    assert refusal_of(Conflict()).code is ErrorCode.CALL_CONFLICT
    assert refusal_of(Expired()).code is ErrorCode.RESULT_EXPIRED
    refused = refusal_of(Full(7.0, "pending"))
    assert (refused.code, refused.retry_after_s) == (ErrorCode.RATE_LIMITED, 7.0)
    assert refusal_of(Full(7.2, "bytes")).retry_after_s == 8  # whole seconds travel, and after 7 it would still be full


def test_only_who_has_too_much_is_told_so() -> None:
    own: list[Quota] = ["pending", "records", "bytes"]
    assert all("your" in refusal_of(Full(1.0, quota)).message for quota in own)
    assert "your" not in refusal_of(Full(1.0, "room")).message


@pytest.mark.parametrize("code", [ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.INVALID_REQUEST])
def test_a_refusal_that_comes_too_late_says_that_nothing_ran(code: ErrorCode) -> None:
    failure = result_of(GatewayError(code, "Later.", detail="canary")).failure
    assert failure is not None
    assert failure.message == "The tool did not run: Later."
    assert failure.can_retry is (code is ErrorCode.BACKEND_UNAVAILABLE)
    assert failure.developer_message is None
