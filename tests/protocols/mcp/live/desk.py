"""A tool that answers in the same exchange with its arguments: once it is let go, unless its caller goes before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.protocols.mcp.server_double import Talk
from tests.support.toolserver import Exchange

Closing = Callable[[], Coroutine[Any, Any, None]]


class Desk:
    """Counts the calls that were `begun`, and those that were `stopped`: the gateway closed the connection."""

    def __init__(self) -> None:
        self.begun = 0
        self.stopped = 0
        self._let_go = asyncio.Event()

    async def finish(self, _: str = "") -> None:
        """Lets all calls go."""
        self._let_go.set()

    async def exchange(self, exchange: Exchange) -> None:
        """Serves a call in OTC."""
        if await self._work(exchange.until_closed):
            await exchange.finish(value=exchange.request.call["input"])

    async def talk(self, talk: Talk) -> None:
        """Serves a call in MCP."""
        if await self._work(talk.until_closed):
            value = talk.message["params"]["arguments"]
            await talk.answer({"resultType": "complete", "content": [], "structuredContent": value})

    async def _work(self, until_closed: Closing) -> bool:
        """Whether it was let go before its caller went."""
        self.begun += 1
        closing, finishing = asyncio.create_task(until_closed()), asyncio.create_task(self._let_go.wait())
        ready, waiting = await asyncio.wait((closing, finishing), return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        self.stopped += closing in ready
        return closing not in ready
