"""Waits for calls that an MCP server has turned into tasks: asks how they stand, and cancels those not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from gateway.backends.mcp_channel import McpChannel, McpReply
from gateway.backends.server import Server
from gateway.dialects import mcp_server_tasks
from gateway.dialects.mcp_server import Agreed
from gateway.dialects.mcp_server_tasks import Task
from gateway.transport import Kind, TransportError

LOOK_S = 10.0  # for one look at a task
MAX_BLIND = 5  # looks in a row that do not tell how a task stands; the server may be restarting


class Waiting(Struct, frozen=True):
    """A call that its server has turned into a task. `deadline` as `monotonic` has it, sizes in bytes."""

    server: Server
    agreed: Agreed
    principal: str
    deadline: float
    max_body: int


class McpTasks:
    """Those of one backend, whose requests are numbered by `ids`."""

    def __init__(self, channel: McpChannel, ids: Iterator[int]) -> None:
        self._channel = channel
        self._ids = ids

    async def outcome(self, task: Task, of: Waiting) -> McpReply:
        """The answer that shows a task to be over or to wait for its user, who cannot answer in time.

        A task that is left before it is over is cancelled. Raises TransportError, which counts as sent.
        """
        is_over = False
        try:
            while True:
                task, reply = await self._look(task, of)
                if not task.is_working:
                    is_over = task.is_over
                    return reply
        finally:
            if not is_over:
                request = mcp_server_tasks.cancel(of.agreed, next(self._ids), task)
                self._channel.tell(of.server, request, of.principal)

    async def _look(self, task: Task, of: Waiting) -> tuple[Task, McpReply]:
        """Waits as the server wants, then asks how a task stands until it says so. Raises TransportError."""
        for blind in range(MAX_BLIND):
            await asyncio.sleep(mcp_server_tasks.pause_s(task, of.deadline - monotonic(), blind))
            if monotonic() >= of.deadline:
                raise TransportError(Kind.TIMEOUT, "The task takes too long.", sent=True)
            try:
                reply = await self._ask(task, of)
            except TransportError:
                continue
            found = mcp_server_tasks.looked_at(reply.body, task)
            if found is None:
                continue
            if not found.is_known:
                raise TransportError(Kind.CLOSED, "The server has lost the task.", sent=True)
            return found, replace(reply, is_task=True)
        raise TransportError(Kind.CLOSED, "The server does not say how the task stands.", sent=True)

    async def _ask(self, task: Task, of: Waiting) -> McpReply:
        id_ = next(self._ids)
        request = mcp_server_tasks.get(of.agreed, id_, task)
        return await self._channel.ask(
            of.server,
            of.agreed,
            request,
            id_,
            of.principal,
            deadline=min(of.deadline, monotonic() + LOOK_S),
            max_body=of.max_body,
        )
