"""Tasks of MCP servers (extension io.modelcontextprotocol/tasks, 2026-07-28): calls whose results are asked for later.

The server decides which calls become tasks; we declare the extension to modern servers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, field

from gateway.core.errors import FailureCode
from gateway.core.model import Invocation, JsonObject, ToolFailure, ToolResult
from gateway.core.wire import WireRequest
from gateway.protocols.common.replies import BrokenReplyError, strip_bom
from gateway.protocols.mcp.servers.requests import NegotiatedSession, request
from gateway.protocols.mcp.servers.results import RpcFailure, failed_call, input_required, result_of
from gateway.protocols.mcp.wire import INTERNAL, PARAMS

MAX_CREATED_BYTES = 64 * 1024  # of the answer that a call has become a task
MAX_ID = 1024  # characters; the id is sent in a header
POLL_MS, LEAST_POLL_MS, MAX_POLL_MS = 1000, 100, 30_000
LAST_LOOK_S = 0.5  # before the end of the call, if the server wants to be asked later than that
STATUSES = frozenset(("working", "input_required", "completed", "failed", "cancelled"))
CANCELLED = "The tool server has cancelled the call; the tool may have run."
UNANSWERABLE = "The tool server asks for input that the gateway cannot give; the tool may have run."


class ServerTask(Struct, frozen=True):
    """A task as its server says it stands."""

    id: str
    status: str
    poll_s: float = POLL_MS / 1000  # how soon to ask again
    exists: bool = True  # False: the server has no such task

    @property
    def is_working(self) -> bool:
        return self.status == "working"

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")


class _TaskMembers(Struct):
    kind: str = field(name="resultType", default="")
    id: str = field(name="taskId", default="")
    status: str = ""
    poll_ms: Any = field(name="pollIntervalMs", default=None)


class _TaskError(Struct):
    code: int = 0


class _TaskResponse(Struct):
    """A response so far as to tell how a task stands: the result of its call stays unread."""

    result: _TaskMembers | None = None
    error: _TaskError | None = None


_read_response = msgspec.json.Decoder(_TaskResponse).decode


def created(body: bytes) -> ServerTask | None:
    """The task that a call has become; None if the answer is another."""
    if len(body) > MAX_CREATED_BYTES or b'"task"' not in body:
        return None
    response = _response(body)
    if response is None or response.result is None or response.result.kind != "task":
        return None
    return _task(response.result) if 0 < len(response.result.id) <= MAX_ID else None


def task_in(body: bytes, task_id: str) -> ServerTask | None:
    """How a task stands by the answer to `tasks/get`; None if that does not tell."""
    response = _response(body)
    if response is None:
        return None
    if response.error is not None:
        return ServerTask(task_id, "", exists=False) if response.error.code == PARAMS else None
    result = response.result
    return None if result is None or result.id != task_id else _task(result)


def _response(body: bytes) -> _TaskResponse | None:
    try:
        return _read_response(strip_bom(body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _task(result: _TaskMembers) -> ServerTask | None:
    if result.status not in STATUSES:
        return None
    poll_ms = result.poll_ms if type(result.poll_ms) in (int, float) else POLL_MS
    return ServerTask(result.id, result.status, min(max(poll_ms, LEAST_POLL_MS), MAX_POLL_MS) / 1000)


def pause_s(task: ServerTask, left_s: float, blind: int) -> float:
    """How long to wait before the next look, after so many in a row that did not tell how the task stands."""
    if not task.is_working:
        return 0.0
    return min(task.poll_s * (1 << blind), left_s - LAST_LOOK_S if left_s > 2 * LAST_LOOK_S else left_s)


def get(session: NegotiatedSession, id_: int, task: ServerTask) -> WireRequest:
    """Asks how a task stands."""
    return request(session, id_, "tasks/get", {"taskId": task.id})


def cancel(session: NegotiatedSession, id_: int, task: ServerTask) -> WireRequest:
    """Says that a task is not waited for any more."""
    return request(session, id_, "tasks/cancel", {"taskId": task.id})


def task_result(
    task: JsonObject,
    invocation: Invocation,
    read: Callable[[JsonObject], ToolResult],
    is_safe: Callable[[str], bool],
) -> ToolResult:
    """What a call has come to whose task is over or waits for its user.

    `read` reads the result of a call, `is_safe` says whether a user may be sent to a URL. All that is no result is a
    failure: the call was accepted, so the tool may have run. Raises BrokenReplyError.
    """
    match task.get("status"):
        case "completed":
            result = task.get("result")
            if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
                raise BrokenReplyError("a completed task without a result")
            return read(result)
        case "failed":
            try:
                result_of({"error": task.get("error")})
            except RpcFailure as failure:
                return failed_call(RpcFailure(INTERNAL, failure.message, None), invocation)
        case "cancelled":
            return ToolResult(failure=ToolFailure(message=CANCELLED, outcome="unknown", code=FailureCode.CANCELLED))
        case "input_required":
            return _asking(task, invocation, is_safe)
    raise BrokenReplyError("a task that is not over")


def _asking(task: JsonObject, invocation: Invocation, is_safe: Callable[[str], bool]) -> ToolResult:
    """The failure of a call whose user has to open URLs first."""
    asking = input_required(task)
    challenges = () if asking.missing is None else asking.missing["authorization"]
    safe = [challenge for challenge in challenges if is_safe(challenge["url"])]
    extras = {"missing_requirements": {"authorization": safe}} if safe else {}
    message = asking.message if safe else UNANSWERABLE
    return ToolResult(failure=ToolFailure(message=message, can_retry=invocation.idempotent, extras=extras))
