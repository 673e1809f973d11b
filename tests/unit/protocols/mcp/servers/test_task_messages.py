"""Tasks of MCP servers as their answers tell them (extension io.modelcontextprotocol/tasks, 2026-07-28)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gateway.core.errors import FailureCode
from gateway.core.jsontext import encode
from gateway.core.model import Json, ToolFailure, ToolResult
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.servers import task_messages as mcp_server_tasks
from gateway.protocols.mcp.servers.task_messages import MAX_CREATED_BYTES, ServerTask
from gateway.upstream.consent_links import is_https_or_loopback
from tests.unit.protocols.common.answers import invocation

WORKING = ServerTask("t", "working", poll_s=2.0)


def told(result: Json) -> bytes:
    return encode({"jsonrpc": "2.0", "id": 1, "result": result})


def task(**members: Any) -> dict[str, Any]:
    return {"resultType": "task", "taskId": "t", "status": "working"} | members


INTERVALS = [
    (2500, 2.5),
    (0, 0.1),
    (-5, 0.1),
    (10**400, 30.0),
    (1e300, 30.0),
    (1.5, 0.1),
    (None, 1.0),
    ("2", 1.0),
    (True, 1.0),
]


@pytest.mark.parametrize(("said", "poll_s"), INTERVALS)
def test_mcp_71_the_server_says_when_it_is_asked_again_within_limits(said: Any, poll_s: float) -> None:
    assert mcp_server_tasks.created(told(task(pollIntervalMs=said))) == ServerTask("t", "working", poll_s)


NO_TASKS = [
    b"",
    b"\xff",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"error":"task"}',
    told(None),
    told(["task"]),
    told(task(taskId=5)),
    told(task(taskId="")),
    told(task(taskId="x" * 1025)),
    told(task(status="dreaming")),
    told(task(status=None)),
    told(task(resultType="complete", content="task")),
    told(task(padding="x" * MAX_CREATED_BYTES)),
]


@pytest.mark.parametrize("body", NO_TASKS, ids=lambda body: repr(body[:60]))
def test_mcp_71_any_other_answer_is_no_task(body: bytes) -> None:
    assert mcp_server_tasks.created(body) is None


UNTOLD = [b"", b"\xff", b"[]", b"[" * 100_000, b'{"error":{"code":-32603}}', told(None), told(task(taskId="other"))]


@pytest.mark.parametrize("body", UNTOLD, ids=lambda body: repr(body[:60]))
def test_mcp_71_any_other_answer_does_not_tell_how_a_task_stands(body: bytes) -> None:
    assert mcp_server_tasks.task_in(body, WORKING.id) is None


PAUSES = [(60.0, 0, 2.0), (60.0, 3, 16.0), (1.5, 0, 1.0), (0.5, 0, 0.5), (-1.0, 0, -1.0)]


@pytest.mark.parametrize(("left_s", "blind", "pause_s"), PAUSES)
def test_mcp_71_the_last_look_comes_before_the_deadline(left_s: float, blind: int, pause_s: float) -> None:
    assert mcp_server_tasks.pause_s(WORKING, left_s, blind) == pause_s
    assert mcp_server_tasks.pause_s(ServerTask("t", "completed"), left_s, blind) == 0


def ended(*, idempotent: bool = False, **members: Any) -> ToolResult:
    """What a call has come to whose task is told so."""
    call = invocation(idempotent=idempotent)
    read = partial(mcp_results.tool_result, invocation=call, json_text=False, trust_meta=False)
    return mcp_server_tasks.task_result(task(**members), call, read, is_https_or_loopback)


def test_mcp_71_a_tool_that_fails_completes_its_task() -> None:
    content = [{"type": "text", "text": "no such branch"}]
    failure = ended(status="completed", result={"content": content, "isError": True}).failure
    assert failure == ToolFailure(message="no such branch")


@pytest.mark.parametrize("code", [-32603, -32602, -32601, -32042])
@pytest.mark.parametrize("idempotent", [False, True])
def test_mcp_71_a_task_that_fails_may_have_run_whatever_its_error(code: int, idempotent: bool) -> None:
    """Before a task, some of these mean that nothing ran; this call was accepted."""
    result = ended(status="failed", error={"code": code, "message": "out of paper"}, idempotent=idempotent)
    assert result.failure == ToolFailure(message="out of paper", can_retry=idempotent)


def test_mcp_71_a_task_that_its_server_cancels_is_an_unknown_outcome() -> None:
    failure = ended(status="cancelled").failure
    assert failure is not None
    assert (failure.outcome, failure.code, failure.can_retry) == ("unknown", FailureCode.CANCELLED, False)


NO_OUTCOMES: list[dict[str, Any]] = [
    {"status": "completed"},
    {"status": "completed", "result": task()},
    {"status": "failed"},
    {"status": "failed", "error": "x"},
]


@pytest.mark.parametrize("members", NO_OUTCOMES, ids=repr)
def test_mcp_71_a_task_that_ends_without_an_outcome_is_broken(members: dict[str, Any]) -> None:
    with pytest.raises(BrokenReplyError):
        ended(**members)


REQUESTS = [
    {"method": "elicitation/create", "params": {"mode": "form", "message": "x"}},
    {"method": "sampling/createMessage", "params": {}},
    {"method": "elicitation/create", "params": {"mode": "url", "url": "javascript:alert(1)"}},
]


@pytest.mark.parametrize("requests", [*({"k": request} for request in REQUESTS), None])
def test_mcp_71_a_task_that_wants_what_we_do_not_offer_fails(requests: Any) -> None:
    failure = ended(status="input_required", inputRequests=requests).failure
    assert failure is not None
    assert (failure.message.endswith("the tool may have run."), failure.extras) == (True, {})
