"""Calls as tasks of MCP (extension io.modelcontextprotocol/tasks, 2026-07-28). What becomes a task and when is ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.flow.builds import Builds, builds
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config, until
from tests.flow.keeping import begun, gated
from tests.flow.toolserver import ToolServer, silence
from tests.protocols.mcp.task_caller import EXTENSION, TASKS, TaskCaller
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

STATE: dict[str, Any] = {"state": {}}
SOON = {"task_after": "100ms"}
LINT = "builds_lint"
MINE = {"toolgate/call_id": "mine"}
PAGE = "https://login.example/"
NO_ANSWERS: list[Any] = [{}, None, {"action": "maybe"}, {"action": ["accept"]}]


@pytest.fixture
async def server_of_builds() -> AsyncIterator[Builds]:
    async with builds(**STATE) as it:
        yield it


@asynccontextmanager
async def task(of: Builds, **capabilities: Any) -> AsyncIterator[tuple[TaskCaller, Any, Any]]:
    """A caller, its task, and the call as the tool server has it."""
    caller = TaskCaller(of.gateway.caller.http, {**TASKS, **capabilities})
    made = await caller.call(LINT)
    yield caller, made, await of.invoked(call_id=made["taskId"])


def tasks_of(gateway: Running, **more: Any) -> TaskCaller:
    return TaskCaller(gateway.caller.http, **more)


async def test_mcp_43_a_call_that_is_answered_later_is_a_task_at_once(server_of_builds: Builds) -> None:
    async with task(server_of_builds) as (caller, made, invoked):
        assert (made["resultType"], made["status"], made["pollIntervalMs"]) == ("task", "working", 1000)
        assert made["ttlMs"] == 86_400_000  # of a call that is not over, from its beginning
        assert made["createdAt"] == made["lastUpdatedAt"]
        working = await caller.get(made["taskId"])
        assert {**working, "resultType": "task"} == made
        assert await invoked.bring("done") == 200
        completed = await caller.ended(made["taskId"])
        assert (completed["resultType"], completed["taskId"]) == ("complete", made["taskId"])
        assert completed["result"]["content"] == [{"type": "text", "text": "done"}]
        assert "requestState" not in completed
        assert datetime.fromisoformat(completed["lastUpdatedAt"]) >= datetime.fromisoformat(completed["createdAt"])
        assert completed["ttlMs"] >= 3_600_000  # a result is kept for an hour


async def test_mcp_43_a_task_is_a_kept_call_like_any_other(server_of_builds: Builds) -> None:
    async with task(server_of_builds) as (_, made, invoked):
        http, path = server_of_builds.gateway.caller.http, f"/calls/{made['taskId']}"
        assert (await http.get(path)).status_code == 202
        await invoked.bring("done")
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["result"]["content"][0]["text"]) == (200, "done")


async def test_mcp_43_a_task_is_cancelled_and_says_so_again_when_it_is_over(server_of_builds: Builds) -> None:
    async with task(server_of_builds) as (caller, made, invoked):
        for _ in range(2):
            assert set(await caller.result("tasks/cancel", taskId=made["taskId"])) == {"resultType", "_meta"}
        cancelled = await caller.get(made["taskId"])
        assert (cancelled["status"], "result" in cancelled, "error" in cancelled) == ("cancelled", False, False)
        await until(lambda: "/cancel_tool_call" in server_of_builds.paths)
        await invoked.bring("too late")
        assert (await caller.get(made["taskId"]))["status"] == "cancelled"


async def test_mcp_43_a_call_that_lasts_becomes_a_task(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    caller = tasks_of(await start(config({"scripted": server.url}, mcp=SOON, **STATE)))
    made = await caller.call("Echo_Say", {"a": 1})
    assert made["resultType"] == "task"
    opened.set()
    ended = await caller.ended(made["taskId"])
    assert ended["result"]["structuredContent"] == {"run": 1, "input": {"a": 1}}
    assert server.executions == 1


async def test_mcp_43_a_call_that_is_quick_is_no_task(start: Start, server: ToolServer) -> None:
    caller = tasks_of(await start(config({"scripted": server.url}, **STATE)))
    assert (await caller.call("Echo_Say", {"a": 1}))["structuredContent"] == {"a": 1}


async def test_mcp_43_a_call_that_cannot_last_is_not_even_kept(start: Start, server: ToolServer) -> None:
    backends = {"scripted": {"protocol": "oxp", "url": server.url, "timeout": "5s"}}
    gateway = await start(config(backends, **STATE))
    answer = await tasks_of(gateway).send("tools/call", {"name": "Echo_Say", "arguments": {}})
    assert "location" not in answer.headers
    assert (await gateway.caller.http.get(f"/calls/{answer.headers['toolgate-call-id']}")).status_code == 404


async def test_mcp_43_a_call_that_waits_for_its_user_asks_the_caller_to_show_a_url(server_of_builds: Builds) -> None:
    async with task(server_of_builds, elicitation={"url": {}}) as (caller, made, invoked):
        await invoked.post(invoked.message("oauth", auth_url=PAGE))
        waiting = await caller.get(made["taskId"])
        assert (waiting["status"], waiting["resultType"]) == ("input_required", "complete")
        ((key, asking),) = waiting["inputRequests"].items()
        params = asking["params"]
        assert (asking["method"], params["mode"], params["url"]) == ("elicitation/create", "url", PAGE)
        for answer in NO_ANSWERS:
            responses = {key: answer, "another": {"action": "decline"}}
            ack = await caller.result("tasks/update", taskId=made["taskId"], inputResponses=responses)
            assert set(ack) == {"resultType", "_meta"}
            assert (await caller.get(made["taskId"]))["inputRequests"] == waiting["inputRequests"]

        await caller.result("tasks/update", taskId=made["taskId"], inputResponses={key: {"action": "accept"}})
        agreed = await caller.get(made["taskId"])
        assert (agreed["status"], "inputRequests" in agreed) == ("working", False)
        assert agreed["lastUpdatedAt"] >= waiting["lastUpdatedAt"] >= made["createdAt"]

        await invoked.post(invoked.message("oauth", auth_url=f"{PAGE}again"))
        ((other, asking),) = (await caller.get(made["taskId"]))["inputRequests"].items()
        assert (asking["params"]["url"], other == key) == (f"{PAGE}again", False)
        await invoked.bring("done")
        assert (await caller.get(made["taskId"]))["status"] == "completed"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_mcp_43_a_user_who_does_not_agree_cancels_the_task(server_of_builds: Builds, action: str) -> None:
    async with task(server_of_builds, elicitation={"url": {}}) as (caller, made, invoked):
        await invoked.post(invoked.message("oauth", auth_url=PAGE))
        (key,) = (await caller.get(made["taskId"]))["inputRequests"]
        await caller.result("tasks/update", taskId=made["taskId"], inputResponses={key: {"action": action}})
        assert (await caller.get(made["taskId"]))["status"] == "cancelled"


@pytest.mark.parametrize("capability", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_mcp_43_a_caller_that_shows_no_urls_reads_where_to_authorize(
    server_of_builds: Builds, capability: dict[str, Any]
) -> None:
    async with task(server_of_builds, **capability) as (caller, made, invoked):
        await invoked.post(invoked.message("oauth", auth_url=PAGE))
        waiting = await caller.get(made["taskId"])
        assert (waiting["status"], "inputRequests" in waiting) == ("working", False)
        assert PAGE in waiting["statusMessage"]


@pytest.mark.parametrize(
    "capabilities", [{}, {"extensions": {}}, {"extensions": {EXTENSION: True}}, {"extensions": []}]
)
async def test_mcp_43_a_caller_that_does_not_say_so_never_gets_a_task(
    server_of_builds: Builds, capabilities: dict[str, Any]
) -> None:
    caller = TaskCaller(server_of_builds.gateway.caller.http, capabilities)
    calling = asyncio.create_task(caller.call(LINT))
    await (await server_of_builds.invoked()).bring("done")
    assert (await calling)["resultType"] == "complete"
    async with task(server_of_builds) as (_, made, _):
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            status, error = await caller.error(method, taskId=made["taskId"], inputResponses={})
            assert (status, error["code"]) == (400, -32021)
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


async def test_mcp_43_without_a_state_section_there_are_no_tasks() -> None:
    async with builds() as of:
        caller = TaskCaller(of.gateway.caller.http)
        assert "extensions" not in (await caller.result("server/discover"))["capabilities"]
        calling = asyncio.create_task(caller.call(LINT))
        await (await of.invoked()).bring("done")
        assert (await calling)["resultType"] == "complete"
        assert (await caller.error("tasks/get", taskId="tg-x"))[1]["code"] == -32601


async def test_mcp_43_tasks_are_declared(server_of_builds: Builds) -> None:
    found = await TaskCaller(server_of_builds.gateway.caller.http).result("server/discover")
    assert found["capabilities"]["extensions"] == {EXTENSION: {}}


async def test_mcp_43_what_was_removed_from_tasks_is_no_method(server_of_builds: Builds) -> None:
    caller = TaskCaller(server_of_builds.gateway.caller.http)
    for method in ("tasks/result", "tasks/list"):
        assert (await caller.error(method, taskId="tg-x"))[1]["code"] == -32601


async def test_mcp_43_the_name_in_the_header_is_the_task(server_of_builds: Builds) -> None:
    async with task(server_of_builds) as (caller, made, _):
        answer = await caller.send("tasks/cancel", {"taskId": made["taskId"]}, mcp_name="another")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
        assert (await caller.get(made["taskId"]))["status"] == "working"


async def test_mcp_43_a_call_with_an_id_of_its_own_is_one_task(server_of_builds: Builds) -> None:
    caller = TaskCaller(server_of_builds.gateway.caller.http)
    first, again = [await caller.call(LINT, meta=MINE) for _ in range(2)]
    assert first["taskId"] == again["taskId"]
    await (await server_of_builds.invoked()).bring("done")
    await caller.ended(first["taskId"])
    assert (await caller.call(LINT, meta=MINE))["content"][0]["text"] == "done"
    assert server_of_builds.paths.count("/invoke") == 1


async def test_mcp_43_a_caller_that_leaves_before_it_has_its_task_cancels_the_call(
    start: Start, server: ToolServer
) -> None:
    """It cannot know the id: a call that nobody can ask for must not go on."""
    server.handler = silence
    gateway = await start(config({"scripted": server.url}, **STATE))
    calling = asyncio.create_task(tasks_of(gateway).call("Echo_Say"))
    await begun(server)
    assert len(gateway.gateway.calls.running()) == 1
    calling.cancel()
    await until(lambda: not gateway.gateway.calls.running())


async def test_mcp_44_ids_of_others_look_unknown(start: Start) -> None:
    async with builds(auth={"jwt": [{"secret": SECRET}]}, **STATE) as of:
        http = of.gateway.caller.http
        own, other = [
            TaskCaller(http, headers={"authorization": f"Bearer {token(sub=name)}"}) for name in ("ann", "bob")
        ]
        made = await own.call(LINT)
        unknown = made["taskId"][:-1] + ("A" if made["taskId"][-1] != "A" else "B")
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            refused = [
                await other.error(method, taskId=id_, inputResponses={})
                for id_ in (made["taskId"], unknown, "tg-", "x")
            ]
            assert refused == [refused[0]] * 4
            assert (refused[0][0], refused[0][1]["code"]) == (400, -32602)
        assert (await own.get(made["taskId"]))["status"] == "working"


@pytest.mark.parametrize("task_id", ["", "x" * 257, 7, None])
async def test_mcp_44_what_is_no_id_is_refused(server_of_builds: Builds, task_id: Any) -> None:
    caller = TaskCaller(server_of_builds.gateway.caller.http)
    answer = await caller.send("tasks/get", {"taskId": task_id}, mcp_name="x")
    assert answer.json()["error"]["code"] in (-32602, -32020)
