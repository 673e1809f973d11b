"""Whatever an MCP server answers to a call, it is a result that callers can be given, or a refusal."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.model import ToolResult
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.mcp.callers.answers import McpEncoder
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers import task_messages as mcp_server_tasks
from gateway.protocols.mcp.servers.channel import McpReply
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from tests.fuzz.documents import damaged, damaged_bytes
from tests.protocols.mcp.server_double import INVOCATION, LEGACY, MODERN, backend_at

SOME = settings(max_examples=80, deadline=None)
TEXT, IMAGE = {"type": "text", "text": "x"}, {"type": "image", "data": "aa", "mimeType": "image/png"}
URL = {"mode": "url", "message": "Log in.", "url": "https://a.example/b", "elicitationId": "1"}
DETAILS = {"message": "m", "can_retry": True, "retry_after_ms": 5, "developer_message": "d"}
RESULTS: list[dict[str, Any]] = [
    {"content": [IMAGE, TEXT], "structuredContent": {"result": 1}, "_meta": {"fastmcp": {"wrap_result": True}}},
    {"content": [TEXT], "isError": True, "_meta": {"toolgate/error": DETAILS}},
    {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create", "params": URL}}},
    {"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 5, "pollIntervalMs": 1},
    {"resultType": "complete", "taskId": "t", "status": "completed", "result": {"content": [TEXT]}},
]
ERRORS: list[dict[str, Any]] = [
    {"code": -32042, "message": "m", "data": {"elicitations": [URL]}},
    {"code": -32602, "message": "Unknown tool: n"},
    {"code": -32022, "message": "v", "data": {"supported": [MODERN]}},
]
BACKEND = backend_at("http://127.0.0.1:1/mcp", trust_meta=True, json_text=True)
HEAD = {"jsonrpc": "2.0", "id": 7}
DOCUMENTS = [HEAD | {"result": result} for result in RESULTS] + [HEAD | {"error": error} for error in ERRORS]
BODIES = damaged(DOCUMENTS).map(jsontext.encode) | damaged_bytes([jsontext.encode(each) for each in DOCUMENTS])


@SOME
@given(BODIES, st.sampled_from([200, 200, 202, 400, 404, 500]), st.booleans())
def test_any_answer_to_a_call_is_a_result_or_a_refusal(body: bytes, status: int, is_task: bool) -> None:
    reply = McpReply(status, ((b"content-type", b"application/json"),), body, 7, is_task=is_task)
    mcp_server_tasks.created(body)
    for session in (NegotiatedSession(MODERN), NegotiatedSession(LEGACY, b"s")):
        mcp_responses.denial_in(session, reply)
    try:
        result = BACKEND.decode_reply(reply, INVOCATION, None)
    except (GatewayError, BrokenReplyError):
        return
    assert isinstance(result, ToolResult)
    for version in (MODERN, LEGACY):
        json.loads(McpEncoder(wire_version=version, id=1).encode_result(result, "c").body)
