"""Tools that are not known yet: of a gateway that starts, of servers that were never reached. All of it is ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import DIALECTS, Answer, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config, until
from tests.flow.toolserver import ToolServer, silence, tool, tool_server

pytestmark = pytest.mark.anyio

WAITS, NONE = "The tool is temporarily unavailable.", "There is no tool "


def waits(answer: Answer) -> bool:
    """Whether a caller is told to come back, and not that there is no such tool."""
    told = answer.status == 400 and answer.message == WAITS and int(answer.headers["retry-after"]) >= 1
    assert told or answer.message.startswith(NONE)
    return told


@every_dialect
async def test_a_tool_of_a_server_that_was_never_reached_is_temporarily_unavailable(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
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


async def test_once_the_server_has_listed_its_tools_the_others_do_not_exist(start: StartGateway) -> None:
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
        await until(lambda: gateway.gateway.status == "ok")
        for dialect in DIALECTS:
            assert (await gateway.caller.list(dialect)).ids == ["Echo.Say@1.0.0"]
            assert (await gateway.caller.call(dialect, "Echo.Say", {"n": 1})).value == {"n": 1}
            assert not waits(await gateway.caller.call(dialect, "Echo.Shout"))
