"""Tasks of MCP servers as their answers tell them (extension io.modelcontextprotocol/tasks, 2026-07-28)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.core.model import Json
from gateway.protocols.mcp.servers import task_messages as mcp_server_tasks
from gateway.protocols.mcp.servers.task_messages import MAX_CREATED_BYTES, Task

WORKING = Task("t", "working", poll_s=2.0)


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
    assert mcp_server_tasks.created(told(task(pollIntervalMs=said))) == Task("t", "working", poll_s)


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
    assert mcp_server_tasks.pause_s(Task("t", "completed"), left_s, blind) == 0
