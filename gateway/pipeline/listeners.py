"""Callers who listen for changes of the tools that they may use. One timer serves all of them.

A listener is served by the task of its request, which waits here for what is to be sent next. However slowly its
caller reads, at most one piece of each kind is due.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from gateway.catalogue.routing import Router, tool_changes
from gateway.core.errors import RETRY_AFTER_S, ErrorCode, FixedError, GatewayError
from gateway.core.ports import ANONYMOUS, Caller
from gateway.core.surfaces import OpenedListen

BEAT_S = 15.0  # between two signs of life: proxies drop a connection that is silent for 30 to 60 s
TICK_S = 1.0
FULL_RETRY_S = 60.0  # a place is given back when another caller leaves


class TooManyListenersError(FixedError):
    """The refusal of one more listener: the caller has its share, or all places are taken."""

    code = ErrorCode.RATE_LIMITED
    message = "Too many streams are open already."
    reason = "listen"
    retry_after_s = FULL_RETRY_S

    def __init__(self) -> None:
        pass


class ChangeListener:
    """One request that listens; `wire.Events`. `holder` is who it counts for."""

    __slots__ = (
        "_encoder",
        "_has_begun",
        "_has_changed",
        "_is_ending",
        "_is_over",
        "_is_silent",
        "_owner",
        "_waiting",
        "holder",
        "scopes",
        "task",
        "toolkit",
    )

    def __init__(self, owner: Listeners, holder: str, scopes: frozenset[str], opened: OpenedListen) -> None:
        self.holder = holder
        self.scopes = scopes
        self.toolkit = opened.toolkit
        self.task: asyncio.Task[Any] | None = asyncio.current_task()
        self._owner = owner
        self._encoder = opened.encoder
        self._waiting: asyncio.Future[None] | None = None
        self._has_begun = self._has_changed = self._is_silent = self._is_ending = self._is_over = False

    async def next(self) -> bytes | None:
        while (piece := self._due()) == b"":
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return piece

    def _due(self) -> bytes | None:
        if self._is_over:
            return None
        if not self._has_begun:
            self._has_begun = True
            return self._encoder.begun()
        if self._has_changed:
            self._has_changed = False
            if piece := self._encoder.changed():
                return piece
        if self._is_ending:
            self._is_over = True
            return self._encoder.ended()
        is_silent, self._is_silent = self._is_silent, False
        return self._encoder.beat() if is_silent else b""

    def wake(self, *, changed: bool = False, ending: bool = False, silent: bool = False) -> None:
        """Notes what has happened, and continues its task."""
        self._has_changed |= changed
        self._is_ending |= ending
        self._is_silent |= silent
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def close(self) -> None:
        self._is_over = True
        self._owner.remove(self)
        self.wake()


class Listeners:
    """All listeners of this process. `current` is the snapshot of the tools in use."""

    def __init__(self, current: Callable[[], Router], *, beat_s: float = BEAT_S) -> None:
        self._current = current
        self._beat_s = beat_s
        self._seen = Router()
        self._max = self._max_per_caller = 0
        self._is_closed = False
        self._due_s: dict[ChangeListener, float] = {}  # the next beat of each; the soonest is first
        self._held: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._due_s)

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks of their requests, none of which ends by itself."""
        return {listener.task for listener in self._due_s if listener.task is not None}

    def limit(self, at_most: int, per_caller: int) -> None:
        """Sets how many there may be from now on; 0 ends all of them."""
        self._max, self._max_per_caller = at_most, per_caller
        if at_most == 0:
            self._end_all()

    def open(self, caller: Caller, ip: str, opened: OpenedListen) -> ChangeListener:
        """Adds a listener, served by the current task; it has to be closed. Raises RATE_LIMITED, NOT_READY."""
        if self._is_closed:
            raise GatewayError(ErrorCode.NOT_READY, "The gateway is stopping.", retry_after_s=RETRY_AFTER_S)
        holder = ip if caller.principal == ANONYMOUS.principal else caller.principal
        if len(self) >= self._max or self._held[holder] >= self._max_per_caller:
            raise TooManyListenersError
        loop = asyncio.get_running_loop()
        listener = ChangeListener(self, holder, caller.scopes, opened)
        self._held[holder] += 1
        self._due_s[listener] = loop.time() + self._beat_s
        if self._timer is None:
            self._timer = loop.call_later(min(TICK_S, self._beat_s), self._tick)
        return listener

    def remove(self, listener: ChangeListener) -> None:
        """Gives back the place of a listener, once."""
        if self._due_s.pop(listener, None) is None:
            return
        self._held[listener.holder] -= 1
        if not self._held[listener.holder]:
            del self._held[listener.holder]

    def look(self) -> None:
        """Tells those whose tools have changed since this was last called; to be called after every change."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while (router := self._current()) is not self._seen:
            before, self._seen = self._seen, router
            if not self._due_s:
                continue
            # A thread, because two lists of 10,000 tools take some milliseconds to compare, and more if all are new.
            changes = await asyncio.to_thread(tool_changes, before, router)
            for listener in list(self._due_s):
                if any(change.concerns(listener.scopes, listener.toolkit) for change in changes):
                    listener.wake(changed=True)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [listener for listener, due_s in self._due_s.items() if due_s <= now]
        for listener in due:
            del self._due_s[listener]
            self._due_s[listener] = now + self._beat_s
            listener.wake(silent=True)
        self._timer = loop.call_later(min(TICK_S, self._beat_s), self._tick) if self._due_s else None

    def close(self) -> None:
        """Ends all, and takes no more: the gateway is about to stop."""
        self._is_closed = True
        self._end_all()

    def _end_all(self) -> None:
        for listener in list(self._due_s):
            listener.wake(ending=True)

    async def aclose(self) -> None:
        """Stops the timer and the comparison."""
        self.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
