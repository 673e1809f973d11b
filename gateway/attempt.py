"""One caller's wish for a kept call, and its run in this process, which outlives the caller."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from gateway.errors import GatewayError
from gateway.model import Invocation, ToolCall, ToolResult
from gateway.ports import Caller
from gateway.preference import Preference
from gateway.routing import PublishedTool

SLACK_S = 5.0  # beyond a timeout, for what ends a call then to have ended it

Ending = ToolResult | GatewayError | None  # None: its record tells, now or later


class Asked(Struct, frozen=True, kw_only=True):
    """Who asks for what and how. `invocation` lacks nothing but its call id."""

    call: ToolCall
    tool: PublishedTool
    caller: Caller
    invocation: Invocation
    preference: Preference
    dialect: str
    spelling: str

    @property
    def stays(self) -> bool:
        """Whether the caller waits for as long as the tool may take."""
        preferred = self.preference.wait_s
        return not self.preference.respond_async if preferred is None else preferred >= self.invocation.timeout_s

    @property
    def patience_s(self) -> float:
        """How long the caller is kept waiting at most."""
        if not self.stays:
            return self.preference.wait_s or 0.0
        ends_in_time = not self.tool.backend.asynchronous or self.tool.route.cancel_on_timeout
        return self.invocation.timeout_s + (SLACK_S if ends_in_time else 0.0)


class Attempt:
    """A call that runs here. Its `task` is started by whoever makes this."""

    task: asyncio.Task[None]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended: asyncio.Future[Ending] = loop.create_future()

    async def wait(self, deadline: float | None) -> Ending:
        """Waits for the end, None if that does not come in time. A caller who leaves meanwhile hurts nothing."""
        if deadline is None:
            return await self._ended
        try:
            async with asyncio.timeout_at(deadline):
                return await self._ended
        except TimeoutError:
            return None

    def end(self, ending: Ending) -> None:
        """Tells how it ended, if anybody is still there."""
        if not self._ended.done():
            self._ended.set_result(ending)

    def stop(self, ending: Ending) -> None:
        """Ends it in the middle: the connection to the tool server is closed."""
        self.end(ending)
        self.task.cancel()
