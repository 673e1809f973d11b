"""How a kept call reads as a task (extension io.modelcontextprotocol/tasks, 2026-07-28: Tasks)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.calls.status import CANCELLED, RUNNING, result_of
from gateway.core.encoders import KeptCall
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolFailure, ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.mcp.callers.answers import McpEncoder
from gateway.protocols.mcp.callers.tasks import TaskEncoder
from gateway.protocols.mcp.wire import MODERN

BEGUN_S = 1_800_000_000.25


def encoder(age_s: float = 0.0) -> TaskEncoder:
    kept = KeptCall(
        id="tg-1", begun_s=BEGUN_S, changed_s=BEGUN_S + 2, kept_until_s=BEGUN_S + 3602, age_s=age_s, consented=False
    )
    return TaskEncoder(encoder=McpEncoder(wire_version=MODERN, id="one", is_call=False)).about(kept)


def task(reply: WireReply) -> dict[str, Any]:
    assert reply.status == 200
    document = json.loads(reply.body)
    assert document["id"] == "one"
    result: dict[str, Any] = document["result"]
    return result


def test_times_are_those_of_the_call_and_the_life_counts_from_its_beginning() -> None:
    told = task(encoder().encode_accepted(RUNNING, "tg-1"))
    assert (told["createdAt"], told["lastUpdatedAt"]) == ("2027-01-15T08:00:00.250Z", "2027-01-15T08:00:02.250Z")
    assert told["ttlMs"] == 3_602_000


AGES = [(0.0, 1000), (10.0, 1000), (20.0, 2000), (50.0, 5000), (86400.0, 5000)]


@pytest.mark.parametrize(("age_s", "interval_ms"), AGES)
def test_the_older_a_task_is_the_less_often_it_need_be_asked_for(age_s: float, interval_ms: int) -> None:
    assert task(encoder(age_s).encode_accepted(RUNNING, "tg-1"))["pollIntervalMs"] == interval_ms


ENDINGS = [
    (ToolResult(value={"n": 1}), "completed"),
    (ToolResult(failure=ToolFailure(message="no")), "completed"),
    (result_of(GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "later")), "completed"),  # a model can act on it
    (result_of(GatewayError(ErrorCode.TOOL_NOT_FOUND, "gone")), "failed"),
    (CANCELLED, "cancelled"),
]


@pytest.mark.parametrize(("ending", "status"), ENDINGS)
def test_mcp_43_the_status_tells_how_the_call_ended(ending: ToolResult, status: str) -> None:
    told = task(encoder().encode_result(ending, "tg-1"))
    assert told["status"] == status
    assert ("result" in told, "error" in told) == (status == "completed", status == "failed")
    if status == "failed":
        assert told["error"]["code"] == -32602
        assert told["statusMessage"] == told["error"]["message"]
