"""What a tool server's answer becomes, in every shape that real ones send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import replies
from gateway.dialects.replies import BrokenReplyError, decode_reply
from gateway.errors import ErrorCode
from gateway.model import ToolFailure, ToolResult
from gateway.wire import WireReply
from tests.unit.dialects.answers import invocation, reply

SAYS_NOTHING = "The tool failed and did not say why."

FLAT = {"call_id": "c", "success": True, "value": 7}
VALUES: list[tuple[Any, Any]] = [
    (FLAT, 7),
    ({"success": True, "value": 7}, 7),  # no call_id is no foreign one
    ({"call_id": None, "success": True, "value": 7}, 7),
    ({"$schema": "otc://1.0", "result": FLAT}, 7),
    ({"$schema": "otc://1.0", "result": FLAT} | FLAT, 7),  # the superset some servers send
    ({"response": {"call_id": "c", "success": True, "output": {"value": 7}}}, 7),  # the RFC's own OpenAPI file
    ({"call_id": "c", "success": True, "output": {"value": 7}}, 7),
    ({"call_id": "c", "success": True, "output": {}}, None),
    ({"call_id": "c", "success": True, "output": None, "value": 7}, 7),
    # What has no value is not the RFC's `output`, but an extra member.
    ({"call_id": "c", "success": True, "output": {}, "value": 7}, 7),
    ({"call_id": "c", "success": True, "output": {"logs": [], "error": None}, "value": 7}, 7),
    ({"call_id": "c", "success": True, "output": {"value": None}}, None),
    ({"call_id": "c", "success": True}, None),  # metadata only: the tool returns nothing
    ({"call_id": "c", "success": True, "value": None}, None),
    ({"call_id": "c", "success": True, "value": {"success": False}}, {"success": False}),
    ({"call_id": "c", "success": True, "value": 7, "error": {"message": "?"}}, 7),
    ({"success": True, "value": 7, "result": "other"}, 7),
]


@pytest.mark.parametrize(("body", "value"), VALUES)
def test_a_success_is_read_in_any_shape(body: Any, value: Any) -> None:
    assert decode_reply(reply(200, body), invocation()) == ToolResult(value=value)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/problem+json", "text/JSON"])
def test_any_json_type_will_do(content_type: str) -> None:
    assert decode_reply(reply(200, FLAT, content_type), invocation()).value == 7


def test_an_answer_without_a_type_is_taken_for_json() -> None:
    assert decode_reply(reply(200, FLAT, None), invocation()).value == 7


DURATIONS = [(4.5, 4.5), (0, 0), (31, 31), (-1, None), ("31", None), (True, None), (None, None), ([], None)]


@pytest.mark.parametrize(("said", "kept"), DURATIONS)
def test_a_duration_is_kept_if_it_is_one(said: Any, kept: float | None) -> None:
    assert decode_reply(reply(200, FLAT | {"duration": said}), invocation()).duration_ms == kept


EVERYTHING = {
    "message": "Busy.",
    "developer_message": "lease",
    "can_retry": True,
    "additional_prompt_content": "Wait.",
    "retry_after_ms": 750,
    "category": {"a": 1},
}
FAILURES: list[tuple[Any, ToolFailure]] = [
    (
        {"error": EVERYTHING},
        ToolFailure(
            message="Busy.",
            developer_message="lease",
            can_retry=True,
            prompt_hint="Wait.",
            retry_after_ms=750,
            extras={"category": {"a": 1}},
        ),
    ),
    ({"output": {"error": {"message": "Busy."}}}, ToolFailure(message="Busy.")),
    ({"error": {"message": "Busy."}, "value": None}, ToolFailure(message="Busy.")),
    ({"error": {"message": "Busy."}, "output": {}}, ToolFailure(message="Busy.")),
    ({"error": {"message": "Busy."}, "output": {"value": None}}, ToolFailure(message="Busy.")),
    ({"output": {}}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": "Busy."}, ToolFailure(message="Busy.")),
    ({"error": ""}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": None}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": ["Busy."]}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": {}}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": {"message": ""}}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": {"message": 7}}, ToolFailure(message=SAYS_NOTHING)),
    ({}, ToolFailure(message=SAYS_NOTHING)),
    ({"error": {"message": "x", "can_retry": "yes"}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "can_retry": 1}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "developer_message": {}}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "missing_requirements": None}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "retry_after_ms": 1.9}}, ToolFailure(message="x", retry_after_ms=1)),
    ({"error": {"message": "x", "retry_after_ms": -1}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "retry_after_ms": "9"}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "retry_after_ms": True}}, ToolFailure(message="x")),
    ({"error": {"message": "x", "retry_after_ms": 10**30}}, ToolFailure(message="x", retry_after_ms=86_400_000)),
]


@pytest.mark.parametrize(("body", "failure"), FAILURES)
def test_a_failed_tool_is_read_in_any_shape(body: dict[str, Any], failure: ToolFailure) -> None:
    failed = {"call_id": "c", "success": False} | body
    for shape in (failed, {"result": failed}, {"response": failed}):
        assert decode_reply(reply(200, shape), invocation()) == ToolResult(failure=failure)


@pytest.mark.parametrize(
    ("header", "code", "can_retry", "word", "extras"),
    [
        ("broken_answer", "broken_answer", False, "broken_answer", {}),
        ("tool_error", "tool_error", True, "tool_error", {}),
        ("still_running", "still_running", True, "still_running", {}),
        ("still_running", "still_running", False, "tool_error", {}),  # it could never be joined
        ("missing_requirements", "missing_requirements", True, "missing_requirements", {}),
        ("unknown", "timeout", False, "tool_error", {"tool_code": "timeout"}),
        ("whatever", "whatever", False, "tool_error", {"tool_code": "whatever"}),
        (None, "unknown", False, "tool_error", {"tool_code": "unknown"}),
        ("x", ["unknown"], False, "tool_error", {"tool_code": ["unknown"]}),
    ],
)
def test_the_word_of_another_gateway_is_taken_over_and_no_other(
    header: str | None, code: Any, can_retry: bool, word: str, extras: dict[str, Any]
) -> None:
    """Ours: a chain of gateways answers as one; what only the body says may be a tool's own."""
    error = {"message": "No.", "code": code, "can_retry": can_retry}
    told = {} if header is None else {"toolgate_code": header}
    failure = decode_reply(reply(200, {"success": False, "error": error}, **told), invocation()).failure
    assert failure is not None
    assert (failure.word, failure.extras) == (word, extras)


def test_a_byte_order_mark_before_an_answer_is_ignored() -> None:
    mark = b"\xef\xbb\xbf"
    assert decode_reply(reply(200, mark + json.dumps(FLAT).encode()), invocation()) == ToolResult(value=7)
    with pytest.raises(BrokenReplyError):
        decode_reply(reply(200, mark + b"{"), invocation())
    with pytest.raises(BrokenReplyError):
        decode_reply(reply(200, mark + mark + json.dumps(FLAT).encode()), invocation())


BROKEN: list[WireReply] = [
    *(reply(status, FLAT) for status in (201, 202, 204, 301, 302, 307, 304, 402, 405, 409, 410, 418, 451)),
    reply(200, FLAT, "text/html"),
    reply(200, FLAT, ""),
    reply(200, b""),
    reply(200, b"{"),
    reply(200, b'{"success":true,"value":NaN}'),
    reply(200, b'{"success":true,"value":"\xff"}'),
    reply(200, b"[" * 65 + b"]" * 65),
    reply(200, 7),
    reply(200, None),
    reply(200, [FLAT]),
    reply(200, {}),
    reply(200, {"value": 7}),
    reply(200, {"success": "true", "value": 7}),
    reply(200, {"success": 1}),
    reply(200, {"success": None}),
    reply(200, {"result": 7}),
    reply(200, {"result": {"value": 7}}),
    reply(200, FLAT | {"call_id": "another"}),
    reply(200, FLAT | {"call_id": 7}),
    reply(200, FLAT | {"call_id": ""}),
    reply(200, {"result": FLAT | {"call_id": "C"}}),
    reply(400, b"Bad Request", "text/plain"),
    reply(400, {}),
    reply(400, {"message": {"text": "No."}}),
    reply(400, ["No."]),
    reply(404, b"Not Found", "text/plain"),
    reply(422, {"errors": []}),
]


@pytest.mark.parametrize("answer", BROKEN, ids=lambda answer: f"{answer.status}-{answer.body[:30]!r}")
def test_an_answer_nothing_can_be_made_of_is_broken(answer: WireReply) -> None:
    with pytest.raises(BrokenReplyError):
        decode_reply(answer, invocation())


def test_a_success_that_asks_for_authorization_is_a_challenge() -> None:
    error = replies.in_band_challenge({"auth_required": True, "auth_url": "https://x.example", "auth_id": 12})
    assert error is not None
    assert error.code is ErrorCode.MISSING_REQUIREMENTS
    assert error.missing == {"authorization": [{"id": "12", "url": "https://x.example"}]}


NO_CHALLENGES: list[Any] = [
    None,
    7,
    [],
    {},
    {"auth_required": True},
    {"auth_required": True, "auth_url": 7},
    {"auth_required": False, "auth_url": "https://x.example"},
    {"auth_required": "true", "auth_url": "https://x.example"},
]


@pytest.mark.parametrize("value", NO_CHALLENGES)
def test_any_other_value_is_a_value(value: Any) -> None:
    assert replies.in_band_challenge(value) is None
