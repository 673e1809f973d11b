"""What the pages of the console are told, as the gateway knows it."""

from __future__ import annotations

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.operators import console_of
from tests.flow.toolserver import ToolServer, object_of, tool, tool_server
from tests.flow.watching import watched
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

JWT = {"jwt": [{"secret": SECRET}]}
REQUIRES = {
    "user_id": True,
    "secrets": [{"id": "KEY"}],
    "authorization": [{"id": "mail", "oauth2": {"scopes": ["read"]}}],
}


async def test_a_page_learns_first_how_callers_call(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}, auth=JWT))
    async with console_of(running) as page:
        session = await page.get("session")
    assert session["principal"] is None
    assert session["is_public"] is False
    assert session["public_url"] == "http://toolgate.test"
    assert session["mcp_path"] == "/mcp"
    assert set(session["dialects"]) == {"rfc", "otc", "oxp", "oxp-env", "lc", "mcp"}
    assert session["credentials"]


async def test_without_authentication_or_mcp_there_is_nothing_of_them(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}, mcp={"enabled": False}))
    async with console_of(running) as page:
        session = await page.get("session")
    assert session["credentials"] == []
    assert session["mcp_path"] is None
    assert "mcp" not in session["dialects"]


async def test_the_overview_tells_how_the_gateway_stands(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}))
    running.gateway.metrics.reload("failed", ["gateway.yaml:1:1: is empty"])
    async with console_of(running) as page:
        overview = await page.get("overview")
    assert overview["status"] == "ok"
    assert overview["reload"] | {"read_at": 0} == {
        "read_at": 0, "is_current": False, "ok": 0, "failed": 1, "problems": ["gateway.yaml:1:1: is empty"],
    }  # fmt: skip
    assert overview["state"]["kept_in"] == "memory"
    assert [(each["is_this"], each["seen_s"]) for each in overview["replicas"]] == [(True, 0)]
    assert overview["workers"] == overview["issuers"] == []
    assert overview["started_at"] <= overview["now"]


async def test_backends_are_shown_with_what_they_leave_out_and_asked_again(start: Start) -> None:
    async with tool_server(tool("Echo.Say"), tool("Map.Show_It"), tool("Map.Show-It")) as server:
        running = await start(config({"own": server.url, "gone": "http://127.0.0.1:9"}), wait=True)
        async with console_of(running) as page:
            own, gone = (await page.get("backends"))["backends"]
            assert (own["name"], own["protocol"], own["up"], own["tools"]) == ("own", "oxp", True, 1)
            assert (own["breaker"], own["in_flight"], own["queued"]) == ("closed", 0, 0)
            assert [each["tool"] for each in own["left_out"]] == ["Map.Show_It@1.0.0"]
            assert own["replicas"][0] | {"since_at": 0} == {
                "name": server.url, "up": True, "reason": None, "since_at": 0, "in_flight": 0,
            }  # fmt: skip
            assert gone["up"] is False
            assert gone["reason"]
            assert gone["since_at"] is not None
            assert gone["age_s"] is None
            assert await page.post("backends/own/refresh", {}) == {}
            answer = await page.http.post("/console/api/backends/other/refresh", json={})
            assert (answer.status_code, answer.json()) == (404, {"message": "There is no such backend."})


async def test_tools_are_found_by_every_word_and_by_backend(start: Start) -> None:
    definitions = [tool(f"Kit.Number{number}", description=f"Does thing {number}.") for number in range(30)]
    async with tool_server(*definitions, tool("Other.Kit", description="Kit is elsewhere")) as server:
        running = await start(config({"own": server.url}))
        async with console_of(running) as page:
            everything = await page.get("tools")
            assert (everything["all"], everything["total"], len(everything["tools"])) == (31, 31, 31)
            some = await page.get("tools", q="kit THING", limit="5", offset="10")
            assert (some["all"], some["total"], len(some["tools"])) == (31, 30, 5)
            first = (await page.get("tools", q="kit"))["tools"][0]
            assert first["name"].startswith("Kit.")
            assert (await page.get("tools", q="kit", backend="none"))["total"] == 0
            for parameters in ({"limit": "-1"}, {"offset": "x"}, {"limit": "501"}):
                answer = await page.http.get("/console/api/tools", params=parameters)
                assert answer.status_code == 400


async def test_a_tool_is_shown_with_all_that_its_callers_have_to_know(start: Start) -> None:
    schema = object_of(to={"type": "string"})
    async with tool_server(tool("Mail.Send", input_schema=schema, requirements=REQUIRES)) as server:
        route = {"tools": "Mail.*", "backend": "own", "scopes": ["mail"], "timeout": "7s", "idempotent": True}
        running = await start(config({"own": server.url}, [route], auth=JWT))
        caller = running.caller.with_token(token("ada", scope="mail"))
        await caller.call("oxp", "Mail.Send", {"to": 1})
        async with console_of(running) as page:
            shown = await page.get("tools/Mail.Send")
            assert shown["input_schema"]["properties"] == schema["properties"]
            assert shown["route"] == {
                "tools": "Mail.*", "timeout_s": 7, "scopes": ["mail"], "idempotent": True,
                "validate_input": "strict", "validate_output": "warn",
                "forward_headers": [],
            }  # fmt: skip
            assert shown["requires"]["user_id"] is True
            assert shown["requires"]["secrets"] == [{"id": "KEY"}]
            assert shown["requires"]["authorization"][0]["id"] == "mail"
            assert shown["dialect_names"] == {"mcp": "Mail_Send"}
            assert shown["outcomes"] == {"invalid": 1}
            (row,) = (await page.get("tools"))["tools"]
            assert (row["requires"], row["scopes"]) == (["user", "secret", "consent"], ["mail"])
            for path in ("tools/Mail.None", "tools/Mail.Send?version=9.9.9"):
                answer = await page.http.get(f"/console/api/{path}")
                assert answer.status_code == 404


async def test_calls_without_authentication_are_counted_in_the_history(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}))
    await running.caller.call("oxp", "Echo.Say")
    await running.caller.call("oxp", "Echo.None")
    running.gateway.console.local._history.step()
    async with console_of(running) as page:
        history = (await page.get("overview"))["history"]
    assert history["calls"] == [1]
    assert history["refusals"] == {"tool_not_found": [1]}


async def test_the_log_has_the_lines_since_a_cursor(server: ToolServer) -> None:
    async with watched(config({"own": server.url})) as gateway, console_of(gateway.running) as page:
        await gateway.caller.call("oxp", "Echo.Say", call_id="one")
        first = await page.get("log")
        (line,) = first["lines"]
        assert (line["operation"], line["status"], line["tool"], line["call_id"]) == ("call", 200, "Echo.Say", "one")
        await gateway.caller.list("oxp")
        second = await page.get("log", after=first["cursor"])
        assert [each["operation"] for each in second["lines"]] == ["list"]
        assert (await page.get("log", after=second["cursor"]))["lines"] == []


async def test_a_log_that_is_written_nowhere_is_kept_once_the_console_is_open(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}))
    async with console_of(running) as page:
        await running.caller.list("oxp")
        await page.get("session")
        await running.caller.call("oxp", "Echo.Say")
        assert [line["operation"] for line in (await page.get("log"))["lines"]] == ["call"]
