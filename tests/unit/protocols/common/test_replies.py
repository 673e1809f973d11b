"""What a tool server's answer becomes, in every shape that real ones send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolFailure, ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.common import replies
from gateway.protocols.common.replies import BrokenReplyError, decode_reply
from tests.unit.protocols.common.answers import invocation, reply

MARK = b"\xef\xbb\xbf"
SAYS_NOTHING = "The tool failed and did not say why."

FLAT = {"call_id": "c", "success": True, "value": 7}
VALUES: list[tuple[Any, Any]] = [
    ({"success": True, "value": 7}, 7),  # no call_id is no foreign one
    ({"call_id": None, "success": True, "value": 7}, 7),
    ({"$schema": "otc://1.0", "result": FLAT} | FLAT, 7),  # the superset some servers send
    ({"response": {"call_id": "c", "success": True, "output": {"value": 7}}}, 7),  # the RFC's own OpenAPI file
    ({"call_id": "c", "success": True, "output": {}}, None),
    ({"call_id": "c", "success": True, "output": None, "value": 7}, 7),
    # What has no value is not the RFC's `output`, but an extra member.
    ({"call_id": "c", "success": True, "output": {}, "value": 7}, 7),
    ({"call_id": "c", "success": True, "output": {"logs": [], "error": None}, "value": 7}, 7),
    ({"call_id": "c", "success": True, "output": 7}, 7),  # the value itself, where the RFC has it one level deeper
    ({"call_id": "c", "success": True, "output": ["x"], "value": None}, None),
    ({"call_id": "c", "success": True}, None),  # metadata only: the tool returns nothing
    ({"call_id": "c", "success": True, "value": {"success": False}}, {"success": False}),
    ({"call_id": "c", "success": True, "value": 7, "error": {"message": "?"}}, 7),
    ({"success": True, "value": 7, "result": "other"}, 7),
]


@pytest.mark.parametrize(("body", "value"), VALUES)
def test_a_success_is_read_in_any_shape(body: Any, value: Any) -> None:
    assert decode_reply(reply(200, body), invocation()) == ToolResult(value=value)


@pytest.mark.parametrize("content_type", ["application/problem+json; charset=utf-8", "text/JSON", None])
def test_any_json_type_will_do_and_none_is_taken_for_json(content_type: str | None) -> None:
    assert decode_reply(reply(200, FLAT, content_type), invocation()).value == 7


DURATIONS = [(4.5, 4.5), (0, 0), (-1, None), ("31", None), (True, None), (None, None)]


@pytest.mark.parametrize(("said", "kept"), DURATIONS)
def test_a_duration_is_kept_if_it_is_one(said: Any, kept: float | None) -> None:
    assert decode_reply(reply(200, FLAT | {"duration": said}), invocation()).duration_ms == kept


BESIDE: list[dict[str, Any]] = [{"value": None}, {"output": {}}, {"output": {"value": None}}]
SILENT: list[dict[str, Any]] = [
    *({}, {"output": {}}, {"error": ""}, {"error": None}, {"error": ["Busy."]}),
    *({"error": {}}, {"error": {"message": ""}}, {"error": {"message": 7}}),
]
WRONG_MEMBERS: list[dict[str, Any]] = [
    *({"can_retry": "yes"}, {"can_retry": 1}, {"developer_message": {}}, {"missing_requirements": None}),
    *({"retry_after_ms": -1}, {"retry_after_ms": "9"}, {"retry_after_ms": True}),
]
FAILURES: list[tuple[Any, ToolFailure]] = [
    ({"output": {"error": {"message": "Busy."}}}, ToolFailure(message="Busy.")),
    ({"error": "Busy."}, ToolFailure(message="Busy.")),
    *(({"error": {"message": "Busy."}} | more, ToolFailure(message="Busy.")) for more in BESIDE),
    *((body, ToolFailure(message=SAYS_NOTHING)) for body in SILENT),
    *(({"error": {"message": "x"} | wrong}, ToolFailure(message="x")) for wrong in WRONG_MEMBERS),
    ({"error": {"message": "x", "retry_after_ms": 1.9}}, ToolFailure(message="x", retry_after_ms=1)),
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
    headers = {} if header is None else {"toolgate_code": header}
    failure = decode_reply(reply(200, {"success": False, "error": error}, **headers), invocation()).failure
    assert failure is not None
    assert (failure.public_code, failure.extras) == (word, extras)


def test_a_byte_order_mark_before_an_answer_is_ignored() -> None:
    body = MARK + json.dumps(FLAT).encode()
    assert decode_reply(reply(200, body), invocation()) == ToolResult(value=7)
    with pytest.raises(BrokenReplyError):
        decode_reply(reply(200, MARK + body), invocation())


@pytest.mark.parametrize("content_type", ["text/plain", "Text/Plain; charset=utf-8"])
def test_json_that_is_called_plain_text_is_read(content_type: str) -> None:
    """Ours: what Go's and other frameworks write unless they are told what it is."""
    assert decode_reply(reply(200, FLAT, content_type), invocation()) == ToolResult(value=7)
    with pytest.raises(GatewayError, match="No"):
        decode_reply(reply(400, {"message": "No."}, content_type), invocation())


BROKEN: list[WireReply] = [
    *(reply(status, FLAT) for status in (201, 202, 204, 301, 302, 304, 307, 402, 405, 409, 418)),
    *(reply(200, FLAT, content_type) for content_type in ("text/html", "")),
    *(reply(200, body) for body in (b"", b"{", b'{"success":true,"value":NaN}', b'{"success":true,"value":"\xff"}')),
    *(reply(200, body) for body in (7, None, [FLAT], {}, {"value": 7}, {"result": 7}, {"result": {"value": 7}})),
    *(reply(200, {"success": success, "value": 7}) for success in ("true", 1, None)),
    *(reply(200, FLAT | {"call_id": call_id}) for call_id in ("another", 7, "")),
    reply(200, {"result": FLAT | {"call_id": "C"}}),
    *(reply(status, b"Bad Request", "text/plain") for status in (400, 404)),
    *(reply(400, body) for body in ({}, {"message": {"text": "No."}}, ["No."])),
    reply(422, {"errors": []}),
]


@pytest.mark.parametrize("answer", BROKEN, ids=lambda answer: f"{answer.status}-{answer.body[:30]!r}")
def test_an_answer_that_cannot_be_read_is_broken(answer: WireReply) -> None:
    with pytest.raises(BrokenReplyError):
        decode_reply(answer, invocation())


def test_a_success_that_asks_for_authorization_is_a_challenge() -> None:
    error = replies.in_band_challenge({"auth_required": True, "auth_url": "https://x.example", "auth_id": 12})
    assert error is not None
    assert error.code is ErrorCode.MISSING_REQUIREMENTS
    assert error.missing == {"authorization": [{"id": "12", "url": "https://x.example"}]}
    url = {"auth_url": "https://x.example"}
    others: list[Any] = [None, [], {}, {"auth_required": True, "auth_url": 7}, url | {"auth_required": "true"}]
    for other in others:
        assert replies.in_band_challenge(other) is None
