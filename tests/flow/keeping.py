"""What the tests of kept calls have their tool server do."""

from __future__ import annotations

import asyncio

from tests.flow.caller import Answer, Caller
from tests.flow.gateways import LOOK_AGAIN_S, WAIT_S, until
from tests.flow.toolserver import Handler, ToolServer
from tests.streams import Request


def counted(server: ToolServer) -> Handler:
    """Says how many calls it has had, so that no two runs look the same."""

    async def handle(received: Request) -> bytes:
        return server.value(received, {"run": server.executions, "input": received.call["input"]})

    return handle


def gated(server: ToolServer) -> tuple[Handler, asyncio.Event]:
    """Answers once the event is set."""
    opened = asyncio.Event()

    async def handle(received: Request) -> bytes:
        await opened.wait()
        return await counted(server)(received)

    return handle, opened


async def begun(server: ToolServer, calls: int = 1) -> None:
    """Returns when so many calls have reached the tool."""
    await until(lambda: server.executions >= calls)


async def finished(caller: Caller, dialect: str, path: str) -> Answer:
    """The answer about a kept call once it is over."""
    async with asyncio.timeout(WAIT_S):
        while (answer := await caller.send(dialect, "kept", "GET", path)).status == 202:  # noqa: ASYNC110 - no event
            await asyncio.sleep(LOOK_AGAIN_S)
    return answer
