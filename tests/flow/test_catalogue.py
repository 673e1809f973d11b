"""What is published: which of the tools that backends list, under which names, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import DIALECTS, Answer, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config, until
from tests.flow.toolserver import Handler, ToolServer, always, hang_up, silence, tool, tool_server
from tests.streams import http_reply

pytestmark = pytest.mark.anyio


def refreshed_often(server: ToolServer) -> dict[str, Any]:
    return {"protocol": "oxp", "url": server.url, "discovery": {"refresh": "1s"}}


async def test_a_tool_takes_the_first_matching_route(start: Start, server: ToolServer) -> None:
    """Ours: a route that denies hides, and what no route names is not published."""
    server.tools = [tool(it) for it in ("Map.Show@1.0.0", "Map.Show@2.0.0", "Map.Draw", "Map.Wipe", "Disk.Wipe")]
    routes = [
        {"tools": "Map.Wipe", "backend": "scripted", "deny": True},
        {"tools": "Map.Show@1.*", "backend": "scripted", "deny": True},
        {"tools": "Map.*", "backend": "scripted"},
    ]
    caller = (await start(config({"scripted": server.url}, routes))).caller
    assert (await caller.list("oxp")).ids == ["Map.Draw@1.0.0", "Map.Show@2.0.0"]
    for hidden in ("Map.Wipe", "Map.Show@1", "Disk.Wipe"):
        assert (await caller.call("oxp", hidden)).status == 400
    assert server.calls == []


COLLISIONS = {
    "one id": [tool("Map.Show"), tool("Map.Show", description="Again.")],
    "one id once it is spelled as ids are": [tool("Map.Show_It"), tool("Map.Show-It")],
}


@pytest.mark.parametrize("tools", COLLISIONS.values(), ids=COLLISIONS)
async def test_colliding_tools_are_left_out(start: Start, server: ToolServer, tools: list[dict[str, Any]]) -> None:
    """Ours: a call could mean either; other tools are published."""
    server.tools = [*tools, tool("Echo.Say")]
    gateway = await start(config({"scripted": server.url}))
    for dialect in DIALECTS:
        assert (await gateway.caller.list(dialect)).ids == ["Echo.Say@1.0.0"]
    assert gateway.problems_of("scripted")
    assert "Echo.Say@1.0.0" not in gateway.problems_of("scripted")


async def test_a_schema_may_refer_to_itself(start: Start, server: ToolServer) -> None:
    """Spec: OTC 1.0, Tool Definition: no `$ref`. Ours: inlined where that ends, kept where a schema is recursive."""
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    word = {"type": "string", "minLength": 1}
    schema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/tree"}, "word": {"$ref": "#/$defs/word"}},
        "$defs": {"tree": tree, "word": word},
    }
    server.tools = [tool("Tree.Plant", input_schema=schema)]
    caller = (await start(config({"scripted": server.url}))).caller
    for dialect in DIALECTS:
        [shown] = (await caller.list(dialect)).tools
        listed = shown["input"] if dialect == "rfc" else shown["input_schema"]
        properties = listed.get("parameters", listed)["properties"]
        assert properties["word"] == word
        assert properties["root"]
        assert (await caller.call(dialect, "Tree.Plant", {"root": {"kids": [{"kids": []}]}})).status == 200
        assert (await caller.call(dialect, "Tree.Plant", {"root": {"kids": [{"kids": 7}]}})).status == 422


LISTLESS: dict[str, Handler] = {
    "hangs up": hang_up,
    "fails": always(http_reply(500, b"oops")),
    "speaks no HTTP": always(b"220 mail ready\r\n\r\n"),
}


@pytest.mark.parametrize("handler", LISTLESS.values(), ids=LISTLESS)
async def test_a_backend_without_a_list_harms_no_other(start: Start, server: ToolServer, handler: Handler) -> None:
    """Ours: it is asked again later."""
    async with tool_server() as gone:
        pass
    async with tool_server() as sick:
        sick.list_handler = handler
        gateway = await start(config({"sick": sick.url, "gone": gone.url, "scripted": server.url}))
        assert gateway.gateway.health.status == "ok"
        assert (await gateway.caller.list("oxp")).ids == ["Count.Up@1.0.0", "Echo.Say@1.0.0"]
        backends = gateway.gateway.health.details()["backends"]
        assert [backends[name]["up"] for name in ("sick", "gone", "scripted")] == [False, False, True]


WAITS, NONE = "The tool is temporarily unavailable.", "There is no tool "


def waits(answer: Answer) -> bool:
    """Whether a refusal says to try again, and not that there is no such tool."""
    is_temporary = answer.status == 400 and answer.message == WAITS and int(answer.headers["retry-after"]) >= 1
    assert is_temporary or answer.message.startswith(NONE)
    return is_temporary


@every_dialect
async def test_tools_of_a_server_never_reached_are_unavailable(start: Start, server: ToolServer, dialect: str) -> None:
    async with tool_server() as gone:
        pass
    routes = [
        {"tools": "Mail.Purge", "backend": "gone", "deny": True},
        {"tools": "Mail.*", "backend": "gone"},
        {"tools": "*", "backend": "scripted"},
    ]
    caller = (await start(config({"gone": gone.url, "scripted": server.url}, routes))).caller
    assert waits(await caller.call(dialect, "Mail.Send"))
    assert waits(await caller.call(dialect, "Mail.Send@2.1.0", call_id="once"))
    assert not waits(await caller.call(dialect, "Mail.Purge"))
    assert not waits(await caller.call(dialect, "Echo.Shout"))  # of a server whose tools are known
    assert (await caller.call(dialect, "Echo.Say", {"n": 1})).value == {"n": 1}
    assert (await caller.list(dialect)).ids == ["Count.Up@1.0.0", "Echo.Say@1.0.0"]


async def test_once_the_server_has_listed_its_tools_the_others_do_not_exist(start: Start) -> None:
    async with tool_server() as server:
        server.list_handler = silence
        backend: dict[str, Any] = {"protocol": "oxp", "url": server.url, "discovery": {"refresh": "1s"}}
        gateway = await start(config({"late": backend}), wait=False)
        for dialect in DIALECTS:
            listed = await gateway.caller.list(dialect)
            assert (listed.status, int(listed.headers["retry-after"])) == (503, 1)
            assert waits(await gateway.caller.call(dialect, "Echo.Say"))
        assert server.executions == 0
    async with tool_server(tool("Echo.Say")) as server:
        gateway = await start(config({"late": server.url}), wait=False)
        await until(lambda: gateway.gateway.health.status == "ok")
        for dialect in DIALECTS:
            assert (await gateway.caller.list(dialect)).ids == ["Echo.Say@1.0.0"]
            assert (await gateway.caller.call(dialect, "Echo.Say", {"n": 1})).value == {"n": 1}
            assert not waits(await gateway.caller.call(dialect, "Echo.Shout"))
