"""Waits for calls that an MCP server has turned into tasks: asks how they stand, and cancels those not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from gateway.net.client import Kind, TransportError
from gateway.protocols.mcp.servers import task_messages as mcp_server_tasks
from gateway.protocols.mcp.servers.channel import McpChannel, McpReply, Peer
from gateway.protocols.mcp.servers.task_messages import ServerTask

LOOK_S = 10.0  # for one look at a task
MAX_BLIND = 5  # looks in a row that do not tell how a task stands; the server may be restarting


class TaskTerms(Struct, frozen=True):
    """How long a call that has become a task is waited for, and at whom."""

    peer: Peer
    deadline: float  # as `monotonic` has it
    max_body: int  # bytes


class McpTasks:
    """Those of one backend, whose requests are numbered by `ids`."""

    def __init__(self, channel: McpChannel, ids: Iterator[int]) -> None:
        self._channel = channel
        self._ids = ids

    async def outcome(self, task: ServerTask, terms: TaskTerms) -> McpReply:
        """The answer that shows a task to be over or to wait for its user, who cannot answer in time.

        A task that is left before it is over is cancelled. Raises TransportError, which counts as sent.
        """
        is_over = False
        try:
            while True:
                task, reply = await self._look(task, terms)
                if not task.is_working:
                    is_over = task.is_over
                    return reply
        finally:
            if not is_over:
                self._channel.tell(terms.peer, mcp_server_tasks.cancel(terms.peer.session, next(self._ids), task))

    async def _look(self, task: ServerTask, terms: TaskTerms) -> tuple[ServerTask, McpReply]:
        """Waits as the server wants, then asks how a task stands until it says so. Raises TransportError."""
        for blind in range(MAX_BLIND):
            await asyncio.sleep(mcp_server_tasks.pause_s(task, terms.deadline - monotonic(), blind))
            if monotonic() >= terms.deadline:
                raise TransportError(Kind.TIMEOUT, "The task takes too long.", sent=True)
            try:
                reply = await self._ask(task, terms)
            except TransportError:
                continue
            seen = mcp_server_tasks.task_in(reply.body, task.id)
            if seen is None:
                continue
            if not seen.exists:
                raise TransportError(Kind.CLOSED, "The server has lost the task.", sent=True)
            return seen, replace(reply, is_task=True)
        raise TransportError(Kind.CLOSED, "The server does not say how the task stands.", sent=True)

    async def _ask(self, task: ServerTask, terms: TaskTerms) -> McpReply:
        id_ = next(self._ids)
        request, deadline = (
            mcp_server_tasks.get(terms.peer.session, id_, task),
            min(terms.deadline, monotonic() + LOOK_S),
        )
        return await self._channel.ask(terms.peer, request, id_, deadline=deadline, max_body=terms.max_body)
