"""Streams on which MCP servers say that their list of tools has changed.

Modern servers are asked with `subscriptions/listen`, legacy ones with a GET in a session. Neither repeats what was
missed, so the list is asked for whenever a stream is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from time import monotonic

from msgspec import Struct

from gateway.core.backoff import Backoff, jittered
from gateway.core.sse import is_event_stream
from gateway.net.client import EventBudget, EventReader, Kind, StreamedReply, TransportError
from gateway.protocols.mcp.servers import requests as mcp_server
from gateway.protocols.mcp.servers.channel import MAX_SIDE_BYTES, McpChannel, Peer
from gateway.protocols.mcp.servers.messages import is_about_access, message_of_event
from gateway.protocols.mcp.servers.sessions import REPROBE_S, McpSessions, SessionRecord

log = logging.getLogger("gateway.backends")

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
# What a stream may bring, at once and then per second: some servers write their log there as well.
MOST_BYTES, BYTES_PER_S = 4 * 1024 * 1024, 256 * 1024
MOST_LINES, LINES_PER_S = 10_000, 300
CALM_S = 60.0  # a stream that lasted so long did not fail at once
NOT_IMPLEMENTED = 501
SESSION_ENDED = (400, 404, 410)  # of a session in which there was a stream; else the server has none at all


class Pauses(Struct, frozen=True):
    """Before a stream that ended is opened again, from `first_s` on; after `idle_s` of silence it counts as dead."""

    first_s: float = 1.0
    longest_s: float = 60.0
    idle_s: float = 600.0
    refused_s: float = REPROBE_S


class NoStreamError(Exception):
    """The server has no such stream; the text says why."""


class McpChanges:
    """Listens to each replica of one MCP server that says it announces changes; `on_change` asks for the list."""

    def __init__(
        self,
        backend: str,
        channel: McpChannel,
        sessions: McpSessions,
        on_change: Callable[[], None],
        pauses: Pauses | None = None,
    ) -> None:
        self._backend = backend
        self._channel = channel
        self._sessions = sessions
        self._on_change = on_change
        self._pauses = pauses or Pauses()
        self._listening: dict[str, asyncio.Task[None]] = {}  # by the URL of the replica
        self._refused_until: dict[str, float] = {}

    def watch(self, record: SessionRecord) -> None:
        """Begins to listen to the replica of a session, unless that is done already or of no use."""
        url = record.peer.server.url
        running = self._listening.get(url)
        is_free = running is None or running.done()
        if record.announces and is_free and monotonic() >= self._refused_until.get(url, 0.0):
            self._listening[url] = asyncio.create_task(self._keep_listening(record))

    async def _keep_listening(self, record: SessionRecord) -> None:
        """Listens for as long as the session is in use; the next list of tools begins anew with another."""
        backoff = Backoff(self._pauses.first_s, self._pauses.longest_s)
        url = record.peer.server.url
        extra = {"backend": self._backend, "replica": url}
        while self._sessions.is_current(record):
            began = monotonic()
            record.calls += 1  # so that it is not ended as idle
            try:
                await self._listen(record)
            except NoStreamError as exc:
                log.info("a tool server does not announce changes", extra={**extra, "reason": str(exc)})
                self._refused_until[url] = monotonic() + self._pauses.refused_s
                return
            except TransportError as exc:
                level = logging.WARNING if exc.kind is Kind.TOO_LARGE else logging.DEBUG
                log.log(level, "a stream of changes broke off", extra={**extra, "reason": str(exc)})
            finally:
                record.calls -= 1
            if monotonic() >= began + CALM_S:
                backoff.reset()
            await asyncio.sleep(jittered(backoff.next_s()))

    async def _listen(self, record: SessionRecord) -> None:
        """Opens one stream and reads it to its end. Raises NoStreamError, TransportError."""
        session = record.peer.session
        request = mcp_server.listen(session, next(self._sessions.ids))
        async with self._channel.stream(record.peer, request, self._pauses.idle_s) as reply:
            status = reply.head.status
            if is_about_access(status) and status != NOT_IMPLEMENTED:
                return  # and ask again
            if status in SESSION_ENDED and record.has_listened:
                self._sessions.forget(record)
                return
            if status != 200:
                raise NoStreamError(f"status {status}")
            if not is_event_stream(reply.head.header(b"content-type")):
                raise NoStreamError("its answer is no stream of events")
            record.has_listened = True
            if not session.is_modern:
                self._on_change()
            await self._read(reply, record.peer)

    async def _read(self, reply: StreamedReply, peer: Peer) -> None:
        budget = EventBudget(
            most_bytes=MOST_BYTES, bytes_per_s=BYTES_PER_S, most_lines=MOST_LINES, lines_per_s=LINES_PER_S
        )
        queue = peer.server.pool.parse_queue
        with closing(EventReader(reply, MAX_SIDE_BYTES, budget, queue, _ignore_skipped)) as events:
            async for event in events:
                message = message_of_event(event.data)
                if message is None:
                    continue
                if message.method == ACKNOWLEDGED:
                    self._on_change()
                else:
                    self._channel.handle(message, peer)

    async def aclose(self) -> None:
        """Ends all streams."""
        tasks = list(self._listening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ignore_skipped() -> None:
    """An event too large for a notification says nothing about the list."""
