"""One call's place at a backend, and the replica it was given to.

A replica has a breaker of its own, and one for each tool that fails there. Its own counts what went wrong before there
was an answer. What a tool does wrong counts for that tool alone, so that a tool that crashes is shut and the others are
not; only when two tools fail and nothing succeeds in between, their failures count for the replica, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from gateway.admission.breaker import CLOSED, Breaker

log = logging.getLogger("gateway.admission")

T = TypeVar("T")
# Failing tools that a replica keeps a breaker for, 0.3 KB each. With one more, the one that began to fail first starts
# anew: the names are the tool server's, and it may list others every minute.
MAX_FAILING_TOOLS = 1024


class Replica(Generic[T]):
    """One of several servers that do the same. `target` is how it is reached, `name` what operators know it by.

    `tools` has the breakers of the tools that have failed here and not succeeded since. It is empty as long as all is
    well, and a call looks no further then.
    """

    __slots__ = ("_backend", "_failing", "_new_breaker", "breaker", "in_flight", "name", "target", "tools")

    def __init__(self, backend: str, name: str, target: T, new_breaker: Callable[[], Breaker]) -> None:
        self.name = name
        self.target = target
        self.breaker = new_breaker()
        self.tools: dict[str, Breaker] = {}
        self.in_flight = 0
        self._backend = backend
        self._new_breaker = new_breaker
        self._failing: set[str] = set()  # tools that failed since anything succeeded; two are all that matters

    def obstacles(self, tool: str) -> list[Breaker]:
        """The breakers that are not closed to a call of a tool: its own, the replica's, or both."""
        own = self.tools.get(tool)
        breakers = [self.breaker] if own is None else [self.breaker, own]
        return [breaker for breaker in breakers if breaker.state is not CLOSED]

    def admits(self, tool: str, now: float) -> bool:
        """Whether a call of a tool may be sent, be it as a probe."""
        return all(breaker.admits(now) for breaker in self.obstacles(tool))

    def tools_shut(self, now: float) -> tuple[str, ...]:
        """The tools whose calls are refused here, unless the replica itself takes none."""
        return tuple(tool for tool, own in self.tools.items() if not own.admits(now))

    def settle(self, lease: Lease[T]) -> bool:
        """Tells the breakers how an attempt went, and the operator what comes of that.

        Returns whether the replica gets no more calls from now on.
        """
        own = self.tools.get(lease.tool)
        if lease.answered:
            self._succeeded(lease, own)
            return False
        if lease.answered is False and lease.by_tool:
            return self._tool_failed(lease, own)
        if own is not None:
            own.came_to_nothing(lease.tool_since)
        if lease.answered is None:
            self.breaker.came_to_nothing(lease.since)
            return False
        return self._failed(lease)

    def _succeeded(self, lease: Lease[T], own: Breaker | None) -> None:
        if lease.since == self.breaker.generation:
            self._failing.clear()
        if own is not None:
            if own.succeeded(lease.tool_since):
                log.info("a tool takes calls again", extra=self._extra(tool=lease.tool))
            if own.state is CLOSED:
                del self.tools[lease.tool]
        if self.breaker.succeeded(lease.since):
            log.info("a tool server takes calls again", extra=self._extra())

    def _tool_failed(self, lease: Lease[T], own: Breaker | None) -> bool:
        """Counts for the tool; for the replica from the second tool on that fails with no success in between."""
        if not self.breaker.can_open:
            return False
        if own is None:
            if len(self.tools) >= MAX_FAILING_TOOLS:
                del self.tools[next(iter(self.tools))]
            own = self.tools[lease.tool] = self._new_breaker()
        if own.failed(lease.tool_since):
            extra = self._extra(tool=lease.tool) | {"failures": own.failures, "reason": lease.reason}
            log.warning("a tool gets no more calls for now", extra=extra)
        if len(self._failing) < 2:
            self._failing.add(lease.tool)
        if len(self._failing) < 2:
            self.breaker.came_to_nothing(lease.since)
            return False
        return self._failed(lease)

    def _failed(self, lease: Lease[T]) -> bool:
        if not self.breaker.failed(lease.since):
            return False
        extra = self._extra() | {"failures": self.breaker.failures, "reason": lease.reason}
        log.warning("a tool server gets no more calls for now", extra=extra)
        return True

    def _extra(self, **more: object) -> dict[str, object]:
        return {"backend": self._backend, "replica": self.name, **more}


class Lease(Struct, Generic[T]):
    """A call that was admitted. `answered` tells the breakers how it went; None says nothing about anybody.

    A Struct because one is made for every call, and this is the cheapest object there is.
    """

    replica: Replica[T]
    since: int  # the generation of the replica's breaker
    tool: str
    tool_since: int = 0  # the generation of the tool's breaker; 0 if there was none
    answered: bool | None = None
    by_tool: bool = False  # the failure is the tool's
    reason: str = ""  # of a failure, for the log
    tried: tuple[Replica[T], ...] = ()  # those that could not be reached

    def failed(self, reason: str) -> None:
        """The replica failed: it cannot be reached, broke off, or a proxy says that nobody is there."""
        self.answered, self.by_tool, self.reason = False, False, reason

    def tool_failed(self, reason: str) -> None:
        """The tool failed at the replica: it crashed, was too slow, or answered nonsense."""
        self.answered, self.by_tool, self.reason = False, True, reason
