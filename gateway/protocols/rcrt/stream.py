"""The one event stream of a process towards an RCRT server: kept open, watched for silence, reopened sparingly.

The stream is a hint and never the truth: it replays nothing, loses events, and a deaf one goes on sending pings.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from math import inf
from typing import NoReturn

from gateway.core import jsontext
from gateway.core.backoff import jittered
from gateway.core.errors import GatewayError
from gateway.core.sse import is_event_stream
from gateway.net.client import EventBudget, EventReader, StreamedReply, TransportError
from gateway.protocols.rcrt.breadcrumbs import MAX_DEPTH, Breadcrumb, decode_event, request_id_in
from gateway.protocols.rcrt.client import RcrtClient, Timings
from gateway.upstream.replica_url import USER_AGENT

log = logging.getLogger("gateway.backends")

QUICK_RECONNECTS = 3
# What a stream may bring, at once and then per second: all that happens in the workspace, in events of three lines.
MOST_BYTES, BYTES_PER_S = 64 * 1024 * 1024, 8 * 1024 * 1024
MOST_LINES, LINES_PER_S = 100_000, 5_000


class StreamError(Exception):
    """A stream that could not be opened or did not last; the text says why."""


def reconnect_wait_s(timings: Timings, attempt: int, lasted_s: float) -> float:
    """How long to wait before an attempt to reconnect, the first being 1.

    The connection before it lasted so long (0: it was never open).
    """
    if attempt > QUICK_RECONNECTS:
        wait_s = max(timings.reconnect_s - lasted_s, timings.backoff_s)
    else:
        wait_s = timings.backoff_s * 2 ** (attempt - 1)
    return jittered(wait_s)


class BreadcrumbStream:
    """Hands every breadcrumb event to `on_event`, and calls `on_gap` whenever some may have been missed."""

    def __init__(
        self, client: RcrtClient, *, on_event: Callable[[Breadcrumb], None], on_gap: Callable[[], None]
    ) -> None:
        self.connection = 0  # counts those that were opened
        self.is_open = False
        self._client = client
        self._timings = client.timings
        self._on_event = on_event
        self._on_gap = on_gap
        self._is_trusted = True  # until an event of our own fails to come
        self._echoes: dict[str, int] = {}  # requests of ours that must come back as events -> on which connection
        self._tried = asyncio.Event()
        self._listening = asyncio.timeout(None)
        self._task: asyncio.Task[None] | None = None
        self._last_reason: str | None = None

    @property
    def is_up(self) -> bool:
        """Whether it is open and there is no reason to think it deaf."""
        return self.is_open and self._is_trusted

    def start(self) -> None:
        """Begins to listen, unless it does already."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def tried(self) -> None:
        """Returns when the first attempt to open it is over, or has had its time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timings.stream_open_s):
                await self._tried.wait()
        self._tried.set()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # The canary: our own request must come back as an event, or the stream is deaf, whatever it still sends.

    def expect_echo(self, request_id: str) -> None:
        """Notes that a request, which is about to go out, must be heard on the connection there is now."""
        if self.is_open:
            self._echoes[request_id] = self.connection

    def time_echo(self, request_id: str, *, stored: bool) -> None:
        """Starts the clock once the request is stored; one that may not be says nothing about the stream."""
        if not stored:
            self._echoes.pop(request_id, None)
        elif request_id in self._echoes:
            asyncio.get_running_loop().call_later(self._timings.canary_s, self._check_echo, request_id)

    def _check_echo(self, request_id: str) -> None:
        """Closes the connection on which the request was to be heard, if it was not and is still the one in use."""
        if self._echoes.pop(request_id, None) == self.connection and self.is_open:
            self._is_trusted = self.is_open = False
            self._listening.reschedule(asyncio.get_running_loop().time())

    # Listening.

    async def _run(self) -> None:
        attempt = 0
        while True:
            opened, started = self.connection, time.monotonic()
            try:
                await self._listen()
            except (StreamError, GatewayError, TransportError) as exc:
                reason = exc.detail or exc.message if isinstance(exc, GatewayError) else str(exc)
            self.is_open = False
            if reason != self._last_reason:  # it may recur every 30 s, all night
                log.warning("an event stream broke off", extra={"backend": self._client.name, "reason": reason})
            self._last_reason = reason
            self._tried.set()
            self._on_gap()  # calls that relied on it are polled for from now on
            lasted_s = time.monotonic() - started if self.connection > opened else 0.0
            attempt = 1 if lasted_s >= self._timings.calm_s else attempt + 1
            await asyncio.sleep(reconnect_wait_s(self._timings, attempt, lasted_s))

    async def _listen(self) -> NoReturn:
        """Opens the stream and reads it to its end, which always comes as an exception."""
        credentials = await self._client.tokens.headers()
        headers = (*credentials, (b"accept", b"text/event-stream"), USER_AGENT)
        target = self._client.server.target("/events/stream")
        async with self._client.server.pool.stream(
            b"GET", target, headers, b"", timeout_s=inf, idle_s=self._timings.idle_s, max_body=None
        ) as reply:
            if reply.head.status == 401:
                self._client.tokens.reject(credentials)
                self._client.tokens.check_issued(credentials)
            if reply.head.status != 200:
                raise StreamError(f"status {reply.head.status}")
            if not is_event_stream(reply.head.header(b"content-type")):
                raise StreamError("the answer is no event stream")
            self.connection += 1
            self.is_open = True
            self._last_reason = None
            self._tried.set()
            log.info("an event stream is open", extra={"backend": self._client.name})
            self._on_gap()  # what happened while there was none is not replayed
            try:
                async with asyncio.timeout(None) as self._listening:
                    await self._read(reply)
            except TimeoutError:
                raise StreamError("our own request did not come back as an event") from None
            finally:
                self.is_open = False
            raise StreamError("the server ended it")

    async def _read(self, reply: StreamedReply) -> None:
        size = self._client.max_response_bytes
        budget = EventBudget(
            most_bytes=MOST_BYTES + size,
            bytes_per_s=BYTES_PER_S,
            most_lines=MOST_LINES,
            lines_per_s=LINES_PER_S,
        )
        queue = self._client.server.pool.parse_queue
        with contextlib.closing(EventReader(reply, size, budget, queue, self._on_gap)) as events:
            async for event in events:
                self._take(event.data)

    def _take(self, data: bytes) -> None:
        if jsontext.is_wide(data):
            self._on_gap()  # a poll reads it in another process
            return
        try:
            crumb = decode_event(jsontext.decode_answer(data, MAX_DEPTH))
        except jsontext.JsonError:
            self._on_gap()  # it may have been a response, which a poll reads with more care
            return
        if crumb is not None:
            self._is_trusted = True
            if (request_id := request_id_in(crumb)) is not None:
                self._echoes.pop(request_id, None)
            self._on_event(crumb)
