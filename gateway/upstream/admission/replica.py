"""A replica of a tool server with its breakers, and the lease of a call that was admitted to it.

A replica has a breaker of its own, which counts failures before there is an answer, and one for each tool that fails
there. A tool's failures count for that tool alone, so that a crashing tool gets no more calls while the others do. They
count for the replica, too, when a second tool fails with no success in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Generic, TypeVar

from msgspec import Struct

from gateway.core.model import JsonObject
from gateway.upstream.admission.breaker import CLOSED, Breaker

log = logging.getLogger("gateway.upstream.admission")

T = TypeVar("T")
# Failing tools that a replica keeps a breaker for, 0.3 KB each. One more replaces the oldest: the names are the tool
# server's, and it may list others every minute.
MAX_FAILING_TOOLS = 1024
MAX_SHOWN = 20  # tools that are named for each replica; a list for people to read
MAX_NAME = 256  # characters of a name, which a tool server chooses


class Replica(Generic[T]):
    """One of several servers with the same tools. `target` is what calls are sent to, `name` is for operators.

    `tools` holds the breakers of tools that have failed here and not succeeded since; usually it is empty, and a call
    looks no further. `reason` is why it failed when its breaker last opened. `has_listed`: it has answered when it
    was asked for its tools.
    """

    __slots__ = (
        *("_backend", "_failing", "_new_breaker", "breaker", "has_listed"),
        *("in_flight", "name", "reason", "target", "tools"),
    )

    def __init__(self, backend: str, name: str, target: T, new_breaker: Callable[[], Breaker]) -> None:
        self.name = name
        self.target = target
        self.breaker = new_breaker()
        self.reason = ""
        self.tools: dict[str, Breaker] = {}
        self.in_flight = 0
        self.has_listed = False
        self._backend = backend
        self._new_breaker = new_breaker
        self._failing: set[str] = set()  # tools that failed since the last success of any tool; at most two are kept

    def open_breakers(self, tool: str) -> list[Breaker]:
        """The breakers that are not closed for calls of a tool: the replica's, the tool's, or both."""
        own = self.tools.get(tool)
        breakers = [self.breaker] if own is None else [self.breaker, own]
        return [breaker for breaker in breakers if breaker.state is not CLOSED]

    def admits(self, tool: str) -> bool:
        """Whether a call of a tool may be sent, if only as a probe."""
        return all(breaker.admits for breaker in self.open_breakers(tool))

    @property
    def tools_shut(self) -> list[str]:
        """The tools that get no calls here even while the replica is up."""
        return [tool for tool, own in self.tools.items() if not own.admits]

    def as_json(self) -> JsonObject:
        """The entry in the detailed health."""
        shut = self.tools_shut
        return {
            "url": self.name,
            "up": self.breaker.state is CLOSED,
            "breaker": self.breaker.state,
            "failures": self.breaker.failures,
            "in_flight": self.in_flight,
            "tools_shut": {"count": len(shut), "first": [tool[:MAX_NAME] for tool in shut[:MAX_SHOWN]]},
        }

    def record(self, lease: Lease[T]) -> bool:
        """Counts how an attempt went, and logs a breaker that opens or closes.

        Returns whether the breaker of the replica has opened.
        """
        own = self.tools.get(lease.tool)
        if lease.answered:
            self._succeeded(lease, own)
            return False
        if lease.answered is False and lease.by_tool:
            return self._tool_failed(lease, own)
        if own is not None:
            own.record_nothing(lease.tool_generation)
        if lease.answered is None:
            self.breaker.record_nothing(lease.generation)
            return False
        return self._failed(lease)

    def _succeeded(self, lease: Lease[T], own: Breaker | None) -> None:
        if lease.generation == self.breaker.generation:
            self._failing.clear()
        if own is not None:
            if own.record_success(lease.tool_generation):
                log.info("a tool takes calls again", extra=self._extra(tool=lease.tool))
            if own.state is CLOSED:
                del self.tools[lease.tool]
        if self.breaker.record_success(lease.generation):
            log.info("a tool server takes calls again", extra=self._extra())

    def _tool_failed(self, lease: Lease[T], own: Breaker | None) -> bool:
        """Counts for the tool; also for the replica from the second tool that fails with no success in between."""
        if not self.breaker.can_open:
            return False
        if own is None:
            if len(self.tools) >= MAX_FAILING_TOOLS:
                del self.tools[next(iter(self.tools))]
            own = self.tools[lease.tool] = self._new_breaker()
        if own.record_failure(lease.tool_generation):
            extra = self._extra(tool=lease.tool) | {"failures": own.failures, "reason": lease.reason}
            log.warning("a tool gets no more calls for now", extra=extra)
        if len(self._failing) < 2:
            self._failing.add(lease.tool)
        if len(self._failing) < 2:
            self.breaker.record_nothing(lease.generation)
            return False
        return self._failed(lease)

    def _failed(self, lease: Lease[T]) -> bool:
        if not self.breaker.record_failure(lease.generation):
            return False
        self.reason = lease.reason
        extra = self._extra() | {"failures": self.breaker.failures, "reason": lease.reason}
        log.warning("a tool server gets no more calls for now", extra=extra)
        return True

    def _extra(self, **more: object) -> dict[str, object]:
        return {"backend": self._backend, "replica": self.name, **more}


class Lease(Struct, Generic[T]):
    """A call that was admitted. `answered` says how it went: True, False, or None if that shows nothing.

    A Struct because every call makes one, and a Struct is the cheapest object.
    """

    replica: Replica[T]
    generation: int  # of the replica's breaker
    tool: str
    tool_generation: int = 0  # of the tool's breaker; 0 if there was none
    answered: bool | None = None
    by_tool: bool = False  # the failure is the tool's
    reason: str = ""  # of a failure, for the log
    tried: tuple[Replica[T], ...] = ()  # replicas that could not be reached

    def failed(self, reason: str) -> None:
        """The replica failed: it cannot be reached, broke off, or a proxy answered in its place."""
        self.answered, self.by_tool, self.reason = False, False, reason

    def tool_failed(self, reason: str) -> None:
        """The tool failed at the replica: it crashed, was too slow, or its answer is invalid."""
        self.answered, self.by_tool, self.reason = False, True, reason


def replica_of(conversation: str, replicas: Sequence[Replica[T]]) -> Replica[T]:
    """The replica that has a conversation, by rendezvous hashing: every process finds the same, and asks nobody."""
    return max(replicas, key=lambda replica: blake2b(f"{replica.name} {conversation}".encode()).digest())
