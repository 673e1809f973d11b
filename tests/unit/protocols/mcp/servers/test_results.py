"""Responses of MCP servers: what each means, and which of them prove that no tool has run."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolFailure, ToolResult
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from gateway.protocols.mcp.servers.responses import Denial
from gateway.protocols.mcp.servers.results import RpcFailure
from tests.unit.protocols.common.answers import invocation, reply

SESSION = NegotiatedSession("2025-11-25", b"s1")
NO_SESSION = NegotiatedSession("2025-11-25")
MODERN = NegotiatedSession("2026-07-28")
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
NO_REASON = "The tool failed without saying why."


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in texts]


def decoded(result: dict[str, Any], *, idempotent: bool = False, **options: bool) -> ToolResult:
    options = {"json_text": False, "trust_meta": False} | options
    return mcp_results.tool_result(result, invocation(idempotent=idempotent), **options)


WRAPPED = {"fastmcp": {"wrap_result": True}}
VALUES = [
    ({"content": [], "structuredContent": {"a": 1}}, {"a": 1}),
    ({"content": text("x"), "structuredContent": None}, None),
    ({"content": text("x"), "structuredContent": False}, False),
    ({"content": text("x"), "structuredContent": 0}, 0),
    ({"content": text("x"), "structuredContent": ""}, ""),
    ({"content": [], "structuredContent": {"result": 7}, "_meta": WRAPPED}, 7),
    ({"content": [], "structuredContent": {"result": 7, "more": 8}, "_meta": WRAPPED}, {"result": 7, "more": 8}),
    ({"content": [], "structuredContent": {"result": 7}}, {"result": 7}),
    ({"content": []}, None),
    ({}, None),
    ({"resultType": "complete", "content": text("42")}, "42"),
    ({"content": text('{"a": 1}')}, '{"a": 1}'),
    ({"content": text("a", "b")}, {"content": text("a", "b")}),
    ({"content": [IMAGE]}, {"content": [IMAGE]}),
    ({"content": [*text("a"), LINK]}, {"content": [*text("a"), LINK]}),
]


@pytest.mark.parametrize(("result", "value"), VALUES, ids=lambda item: json.dumps(item)[:50])
def test_mcp_67_mcp_69_a_result_is_this_value_and_keeps_its_blocks(result: dict[str, Any], value: Any) -> None:
    ended = decoded(result)
    assert ended == ToolResult(value=value)
    assert ended.blocks == result.get("content", [])


TEXTS = [("[1]", [1]), (' {"a": 1}', {"a": 1}), ("{bad", "{bad"), ("42", "42"), ("true", "true"), ('"a"', '"a"')]


@pytest.mark.parametrize(("said", "value"), TEXTS)
def test_mcp_68_json_text_reads_objects_and_arrays_alone(said: str, value: Any) -> None:
    assert decoded({"content": text(said)}, json_text=True).value == value


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (text("a", "b"), ToolFailure(message="a\nb")),
        ([], ToolFailure(message=NO_REASON)),
        ([*text("a"), IMAGE], ToolFailure(message="a", extras={"content": [IMAGE]})),
        (text("x" * 5000), ToolFailure(message="x" * 4096)),
    ],
)
def test_mcp_66_a_result_that_is_an_error_is_a_failure(content: Any, failure: ToolFailure, *, idempotent: bool) -> None:
    result = {"content": content, "isError": True, "structuredContent": {"a": 1}}
    assert decoded(result, idempotent=idempotent).failure == replace(failure, can_retry=idempotent)


def test_mcp_66_another_toolgate_is_believed_only_if_the_settings_say_so() -> None:
    details = {"message": "Busy.", "can_retry": True, "retry_after_ms": 20, "developer_message": "d"}
    result = {"content": text("a"), "isError": True, "_meta": {"toolgate/error": details}}
    assert decoded(result).failure == ToolFailure(message="a")
    assert decoded(result, trust_meta=True).failure == ToolFailure(
        message="Busy.", can_retry=True, retry_after_ms=20, developer_message="d"
    )


@pytest.mark.parametrize(
    "result", [{"resultType": "new"}, {"content": "a"}, {"content": ["a"]}, {"content": None}, {"resultType": 1}]
)
def test_mcp_66_a_result_of_another_kind_is_broken(result: dict[str, Any]) -> None:
    with pytest.raises(BrokenReplyError):
        decoded(result)


ERRORS: list[tuple[int, str, Any]] = [
    (-32602, "Unknown tool: find.it", ErrorCode.TOOL_NOT_FOUND),
    (-32602, "Tool find.it not found", ErrorCode.TOOL_NOT_FOUND),
    (-32602, "n must be positive", ErrorCode.INVALID_ARGUMENTS),
    (-32602, "", ErrorCode.INVALID_ARGUMENTS),
    (-32601, "Method not found", ErrorCode.BACKEND_UNAVAILABLE),
    (-32020, "Mcp-Param-N is missing", ErrorCode.BACKEND_UNAVAILABLE),
    (-32021, "Missing capability", ErrorCode.BACKEND_UNAVAILABLE),
    (-32022, "Unsupported protocol version", ErrorCode.BACKEND_UNAVAILABLE),
    (-32700, "Parse error", BrokenReplyError),
    (-32600, "Invalid request", BrokenReplyError),
    (-32603, "Internal error", "Internal error"),
    (-32000, "It is closed", "It is closed"),
    (-32019, "", NO_REASON),
    (429, "Too many", "Too many"),
]


@pytest.mark.parametrize(("code", "message", "meant"), ERRORS)
def test_mcp_66_an_error_is_a_refusal_only_if_nothing_has_run(code: int, message: str, meant: Any) -> None:
    failure = RpcFailure(code, message, None)
    if isinstance(meant, str) and not isinstance(meant, ErrorCode):
        for idempotent in (False, True):
            ended = mcp_results.failed_call(failure, invocation(idempotent=idempotent))
            assert ended.failure == ToolFailure(message=meant, can_retry=idempotent)
        return
    with pytest.raises(GatewayError if isinstance(meant, ErrorCode) else meant) as caught:
        mcp_results.failed_call(failure, invocation())
    if isinstance(caught.value, GatewayError):
        assert caught.value.code is meant


def test_mcp_66_invalid_arguments_name_the_parameter_that_the_text_names() -> None:
    call = invocation()
    call = replace(call, tool=replace(call.tool, input_schema={"properties": {"m": {}, "n": {}}}))
    with pytest.raises(GatewayError) as caught:
        mcp_results.failed_call(RpcFailure(-32602, "n must be positive", None), call)
    assert (caught.value.message, list(caught.value.parameters or ())) == ("n must be positive", ["n"])


def error(code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


Case = tuple[NegotiatedSession, int, Any]
Cases = dict[Literal["session", "revision"], list[Case]]
PROVED: Cases = {
    "session": [
        (SESSION, 404, error(-32600, "Session not found")),
        (SESSION, 404, error(-32001, "Session not found")),
        (SESSION, 404, b""),
        (SESSION, 404, {"error": "not found"}),
        (SESSION, 400, error(-32000, "Bad Request: No valid session ID provided")),
        (SESSION, 400, error(-32000, "Bad Request: Server not initialized")),
        (NO_SESSION, 400, error(-32600, "Bad Request: Missing session ID")),
    ],
    "revision": [
        (SESSION, 400, error(-32022, "Unsupported protocol version")),  # it was replaced by a modern one
        (SESSION, 400, error(-32602, "params._meta lacks io.modelcontextprotocol/protocolVersion")),
        (SESSION, 400, error(-32020, "Mcp-Method is missing")),
        (MODERN, 400, error(-32022, "Unsupported protocol version")),
        (MODERN, 400, error(-32000, "Bad Request: Unsupported protocol version: 2026-07-28")),
        (MODERN, 400, error(-32600, "Bad Request: Missing session ID")),  # a legacy one
    ],
}
DENIED: Cases = {
    "session": [
        (SESSION, 400, b"Invalid session ID"),
        (SESSION, 400, b""),
        (SESSION, 400, error(7, "The session is over")),
        (SESSION, 401, b"Session not found"),
        (SESSION, 401, {"detail": "Session has expired"}),
        (SESSION, 403, error(-32001, "Unknown session")),
        (SESSION, 404, error(-32000, "There is no such customer")),  # a tool may have looked
        (SESSION, 410, b""),
        (SESSION, 410, error(-32000, "Gone")),
        (SESSION, 422, {"error": "no such session"}),
        (SESSION, 500, error(-32000, "No session")),
        (SESSION, 500, b"No transport found for sessionId"),
        (SESSION, 503, error(-32603, "session 4f2 was terminated")),
        (SESSION, 200, error(-32000, "No session")),
        (SESSION, 200, error(-32000, "SESSION_NOT_FOUND")),
        (SESSION, 200, error(-32000, "sessionExpired")),
        (SESSION, 200, {"error": {"code": -32000, "message": "Bad Request", "data": {"reason": "session not found"}}}),
        (SESSION, 200, error(-32000, "No active transport for this client")),
        (SESSION, 200, error(-32602, "Received request before initialization was complete")),
        (NO_SESSION, 200, error(-32603, "Server not initialized")),
    ],
    "revision": [(MODERN, 200, error(-32600, "Session not found")), (MODERN, 400, b"Invalid session ID")],
}
KEPT: list[Case] = [
    (SESSION, 200, {"jsonrpc": "2.0", "id": 1, "result": {"isError": True, "content": [{"text": "No session"}]}}),
    (SESSION, 200, error(-32000, "No session" + "x" * 100_000)),
    (SESSION, 400, error(-32602, "session must be a number")),  # an argument of the tool
    (SESSION, 400, error(-32603, "lost the connection of this session to the database")),
    (SESSION, 401, b"Unauthorized"),
    (SESSION, 409, error(-32000, "The session is in use")),
    (SESSION, 503, b"<html>Service Unavailable"),
    (NO_SESSION, 404, error(-32601, "Method not found")),  # a wrong path
    (NO_SESSION, 400, b""),
    (MODERN, 400, error(-32020, "Mcp-Param-N is missing")),
    (MODERN, 404, error(-32601, "Method not found")),
]
EXPECTED: list[tuple[NegotiatedSession, int, Any, Denial | None]] = [
    *((*case, Denial(of, True)) for of, cases in PROVED.items() for case in cases),
    *((*case, Denial(of, False)) for of, cases in DENIED.items() for case in cases),
    *((*case, None) for case in KEPT),
]


@pytest.mark.parametrize(("session", "status", "body", "denial"), EXPECTED, ids=repr)
def test_mcp_59_a_denial_of_our_session_is_known_and_only_some_prove_that_nothing_has_run(
    session: NegotiatedSession, status: int, body: Any, denial: Denial | None
) -> None:
    assert mcp_responses.denial_in(session, reply(status, body)) == denial


MESSAGES: list[tuple[int, Any, Any]] = [
    (200, b"\xef\xbb\xbf{}", {}),
    (200, b"<html>", BrokenReplyError),
    (200, b"[]", BrokenReplyError),
    (200, b"", BrokenReplyError),
    (202, b"", BrokenReplyError),
    (406, b"Not Acceptable", BrokenReplyError),
    (415, b"", BrokenReplyError),
    (302, b"", BrokenReplyError),
    (404, b"Not Found", GatewayError),
    (404, {"detail": "Not Found"}, GatewayError),
    (404, error(-32601, "Method not found"), error(-32601, "Method not found")),
]


@pytest.mark.parametrize(("status", "body", "message"), MESSAGES)
def test_mcp_66_an_answer_holds_a_message_or_is_broken(status: int, body: Any, message: Any) -> None:
    if isinstance(message, dict):
        assert mcp_responses.message_of(reply(status, body)) == message
        return
    with pytest.raises(message):
        mcp_responses.message_of(reply(status, body))


@pytest.mark.parametrize("id_", [8, "8", True, None])
def test_mcp_75_the_response_to_another_request_is_none(id_: Any) -> None:
    for ours in (7, "7"):
        mcp_responses.check_id({"id": ours, "result": {}, "error": None}, 7)
    mcp_responses.check_id(error(-32700, "Parse error"), 7)
    with pytest.raises(BrokenReplyError):
        mcp_responses.check_id({"id": id_, "result": {}}, 7)
