"""Calls that an MCP server turns into tasks (extension io.modelcontextprotocol/tasks, 2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import FailureCode
from gateway.core.model import Invocation, ToolFailure, ToolResult
from tests.protocols.mcp.server_double import IDEMPOTENT, INVOCATION, TEXT, Double, Script, Talk, answer, event, facing

pytestmark = pytest.mark.anyio

TASKS = "io.modelcontextprotocol/tasks"
ID = "täsk 7"
PAGE = "https://login.example/"
DONE = {"status": "completed", "result": TEXT}
BROKEN_OFF = "The connection to the tool server broke; the tool may have run."


def task(status: str, kind: str = "complete", **members: Any) -> dict[str, Any]:
    """A task as a server tells it, to be asked for again as soon as that is allowed."""
    about = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None}
    return {"resultType": kind, "taskId": ID, "status": status, "pollIntervalMs": 0, **about, **members}


async def begin(talk: Talk) -> None:
    await talk.answer(task("working", "task"))


def telling(*answers: Any) -> Script:
    """Answers each look at a task with the next of these, a script or the members of a task; then with the last."""
    left = list(answers)

    async def tell(talk: Talk) -> None:
        now = left.pop(0) if len(left) > 1 else left[0]
        await (talk.answer(task(**now)) if isinstance(now, Mapping) else now(talk))

    return tell


def told(*answers: Any) -> dict[str, Script]:
    return {"tasks/get": telling(*answers), "tasks/cancel": answer}


async def run(*answers: Any, invocation: Invocation = INVOCATION, on_call: Script = begin) -> tuple[ToolResult, Double]:
    """The result of a call whose task is told so."""
    async with facing("modern", on_call, told(*answers)) as (backend, double):
        return await backend.call(invocation), double


async def failure_of(*answers: Any, **more: Any) -> tuple[ToolFailure, Double]:
    result, double = await run(*answers, **more)
    assert result.failure is not None
    return result.failure, double


async def lose(talk: Talk) -> None:
    await talk.fail(-32602, "no such task", 400)


async def stumble(talk: Talk) -> None:
    await talk.fail(-32603, "again, please", 500)


async def hang_up(talk: Talk) -> None:
    talk.hang_up()


async def in_a_stream(talk: Talk) -> None:
    await talk.stream(event(talk.response(task("working", "task"))))


@pytest.mark.parametrize("on_call", [begin, in_a_stream])
async def test_mcp_71_the_result_of_a_task_is_that_of_its_call(on_call: Script) -> None:
    result, double = await run({"status": "working"}, DONE, on_call=on_call)
    assert (result.value, result.failure) == ("seven", None)
    assert len(double.ran) == 1
    looks = double.of("tasks/get")
    assert [look.message["params"]["taskId"] for look in looks] == [ID] * 2
    assert {look.request.header("mcp-name") for look in looks} == {"=?base64?dMOkc2sgNw==?="}
    assert len({talk.id for talk in (*looks, *double.ran)}) == 3
    assert double.of("tasks/cancel") == []


async def test_mcp_71_the_extension_is_declared_to_modern_servers_alone() -> None:
    declared = []
    for era, method, member in (("modern", "tools/call", "_meta"), ("legacy", "initialize", "capabilities")):
        async with facing(era) as (backend, double):
            await backend.call(INVOCATION)
            declared.append(double.of(method)[0].message["params"][member])
    capabilities = declared[0]["io.modelcontextprotocol/clientCapabilities"]
    assert capabilities == {**declared[1], "extensions": {TASKS: {}}}


async def test_mcp_71_a_legacy_server_has_no_tasks() -> None:
    async with facing("legacy", begin) as (backend, double):
        failure = (await backend.call(INVOCATION)).failure
    assert failure is not None
    assert (failure.code, double.of("tasks/get")) == (FailureCode.BROKEN_ANSWER, [])


def asking(method: str, **params: Any) -> dict[str, Any]:
    return {"status": "input_required", "inputRequests": {"k": {"method": method, "params": params}}}


async def test_mcp_71_a_task_that_waits_for_its_user_fails_with_the_url_and_is_cancelled() -> None:
    others = told(asking("elicitation/create", mode="url", url=PAGE, message="x"))
    async with facing("modern", begin, others) as (backend, double):
        failure = (await backend.call(INVOCATION)).failure
        await double.until(lambda: [talk.message["params"]["taskId"] for talk in double.of("tasks/cancel")] == [ID])
    assert failure is not None
    assert failure.message == "The user has to authorize this call first."
    assert failure.extras == {"missing_requirements": {"authorization": [{"id": "k", "url": PAGE}]}}


@pytest.mark.parametrize("blind", [stumble, hang_up])
async def test_mcp_71_looks_that_fail_are_repeated(blind: Any) -> None:
    result, double = await run(blind, blind, DONE)
    assert (result.value, len(double.of("tasks/get")), len(double.ran)) == ("seven", 3, 1)


async def test_mcp_71_a_server_that_never_says_how_a_task_stands_is_given_up() -> None:
    failure, double = await failure_of(stumble)
    assert (failure.message, failure.outcome, len(double.of("tasks/get"))) == (BROKEN_OFF, "unknown", 5)
    assert len(double.ran) == 1


async def test_mcp_71_a_task_that_its_server_has_lost_is_an_unknown_outcome() -> None:
    failure, double = await failure_of({"status": "working"}, lose)
    assert (failure.message, failure.outcome, failure.can_retry) == (BROKEN_OFF, "unknown", False)
    assert len(double.ran) == 1


async def test_mcp_71_a_lost_task_of_an_idempotent_tool_is_called_once_more() -> None:
    result, double = await run(lose, DONE, invocation=IDEMPOTENT)
    assert (result.value, len(double.ran)) == ("seven", 2)


async def test_mcp_71_a_task_that_outlasts_the_call_is_a_timeout_and_cancelled() -> None:
    others = told({"status": "working", "pollIntervalMs": 60_000})
    async with facing("modern", begin, others) as (backend, double):
        failure = (await backend.call(replace(INVOCATION, timeout_s=0.5))).failure
        await double.until(lambda: bool(double.of("tasks/cancel")))
    assert failure is not None
    assert (failure.outcome, failure.can_retry) == ("timeout", False)
    assert failure.message.endswith("it may still be running.")
    assert len(double.ran) == 1


async def test_mcp_71_a_call_that_is_cancelled_cancels_its_task() -> None:
    others = told({"status": "working"})
    async with facing("modern", begin, others) as (backend, double):
        calling = asyncio.create_task(backend.call(INVOCATION))
        await double.until(lambda: bool(double.of("tasks/get")))
        calling.cancel()
        await double.until(lambda: bool(double.of("tasks/cancel")))
        with pytest.raises(asyncio.CancelledError):
            await calling
