"""How long an RCRT backend waits for what, each with its reason, and how many workflows it starts at once.

Workflows have a limit because their steps wait for places in the very runner in which the workflow itself holds one. A
runner of November 2025 has five places; four workflows at once were seen to block each other until all timed out.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass

from gateway.admission import DispatchGate
from gateway.dialects.rcrt import WORKFLOW
from gateway.errors import unavailable

WORKFLOWS_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The waits of one backend, in seconds."""

    # A breadcrumb is stored in milliseconds; a server that takes longer is asked what became of it.
    create_s: float = 10.0
    # Before each further look for a request that may not have been stored, doubling from first to last; all four
    # take 4 s. A loaded server, or one behind a proxy, stores what it was sent within some seconds or never.
    look_s: tuple[float, float] = (0.25, 2.0)
    looks: int = 4
    # Lists and records; only background tasks wait for them.
    read_s: float = 10.0
    # How long a call waits for the first attempt to open the stream before it goes out without.
    stream_open_s: float = 2.0
    # The server pings every 5 s: three of them missed, and some room.
    idle_s: float = 17.0
    # Our own request comes back as an event in some milliseconds, unless the stream is deaf.
    canary_s: float = 5.0
    # Before the first three reconnects, doubling; they follow an ordinary restart.
    backoff_s: float = 0.5
    # Between later ones: each connection costs the server a thread for ever, of the 512 it has.
    reconnect_s: float = 30.0
    # After a stream that lasted as long, the quick reconnects start again.
    calm_s: float = 60.0
    # Between two polls for one call: the first and the last of a rising series, without a stream and beside one.
    poll_s: tuple[float, float] = (1.0, 5.0)
    insurance_s: tuple[float, float] = (5.0, 60.0)
    # Between two looks at all responses without a tag, which only an unknown tool gets.
    untagged_s: float = 10.0
    # How long the outcome of a call is looked for: as long as a call is kept while it is not over.
    watch_s: float = 24 * 3600.0
    # How long a request breadcrumb is kept; a runner acts on it at once or never.
    request_ttl_s: float = 3600.0
    # How long a tool seen in the workspace is taken to be there.
    seen_s: float = 30.0
    # Changes of tools come in bursts; one listing answers a whole one.
    change_s: float = 1.0
    # A workflow is stopped after 300 s; a permit whose response was lost is free again some time later.
    workflow_s: float = 360.0


class Workflows:
    """At most two workflows at a time from this process; other tools pass freely."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._permits = asyncio.Semaphore(WORKFLOWS_AT_ONCE)

    async def enter(self, tool: str, timeout_s: float, gate: DispatchGate | None) -> WorkflowPermit | None:
        """Waits for a permit, which is held for the limit at the most. None: the tool needs none.

        Raises BACKEND_UNAVAILABLE, and what its `gate` raises.
        """
        if tool != WORKFLOW:
            return None
        has_to_wait = self._permits.locked()
        if gate is not None and has_to_wait:
            await gate.on_queued()
        try:
            async with asyncio.timeout(timeout_s):
                await self._permits.acquire()
        except TimeoutError:
            raise unavailable("too many workflows run") from None
        permit = WorkflowPermit(self._permits, self._limit_s)
        with ExitStack() as unless_entered:
            unless_entered.callback(permit.release)
            if gate is not None and has_to_wait:
                await gate.before_send()
            unless_entered.pop_all()
        return permit


class WorkflowPermit:
    """Allows one workflow, until it is released or its time is up."""

    def __init__(self, permits: asyncio.Semaphore, limit_s: float) -> None:
        self._permits = permits
        self._timer = asyncio.get_running_loop().call_later(limit_s, self.release)
        self._is_held = True

    def release(self) -> None:
        """Gives it back. A second call does nothing."""
        if self._is_held:
            self._is_held = False
            self._timer.cancel()
            self._permits.release()
