"""Calls over a state in memory that can be away, and tool servers that answer when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Literal

from gateway.calls.execution import CallRequest
from gateway.calls.outcomes import OutcomeRecorder, Run
from gateway.calls.preference import NO_PREFERENCE, Preference
from gateway.calls.registry import Calls
from gateway.calls.status import CallView
from gateway.core.errors import GatewayError, StateUnavailable
from gateway.core.model import CallContext, CallKey, Invocation, JsonObject, Listing, ToolCall, ToolRef, ToolResult
from gateway.core.ports import Caller, DispatchGate
from gateway.core.sealing import Digester
from gateway.state.memory import MemoryState
from gateway.state.port import BeginResult, CallState, NewCall, Record, StateLimits
from tests.unit.published import published

ADA = Caller(principal="jwt:i:ada")
BOB = Caller(principal="jwt:i:bob")
DONE = ToolResult(value={"it": "is done"})
TIMEOUT_S = 10.0  # of a route, for what takes milliseconds on an idle machine


class _Scripted:
    """A tool server that does what a test says. `dispatched` are the calls it took."""

    name: str
    dialect = "test"

    def __init__(self) -> None:
        self.dispatched: list[Invocation] = []
        self.callback_urls: list[str] = []
        self.cancelled: list[tuple[CallKey, str]] = []
        self.resumed: list[tuple[CallKey, str]] = []
        self.at_once: ToolResult | Exception | None = None
        self.on_dispatch: Callable[[CallKey], Awaitable[object]] | None = None
        self.on_resume: Callable[[CallKey], Awaitable[object]] | None = None
        self.on_cancel: Callable[[], Awaitable[object]] | None = None
        self.took = asyncio.Event()
        self.queued: asyncio.Queue[None] | None = None  # then each call waits for an item of it before it is taken

    async def _take(self, invocation: Invocation, callback_url: str, gate: DispatchGate | None) -> ToolResult | None:
        if self.queued is not None and gate is not None:
            await gate.on_queued()
            await self.queued.get()
            await gate.before_send()
        self.dispatched.append(invocation)
        self.callback_urls.append(callback_url)
        self.took.set()
        if self.on_dispatch is not None:
            await self.on_dispatch(invocation.key)
        if isinstance(self.at_once, Exception):
            raise self.at_once
        return self.at_once

    async def list_tools(self) -> Listing:
        raise AssertionError

    async def challenge_status(self, check_url: str) -> str:
        raise AssertionError

    async def aclose(self) -> None: ...


class Later(_Scripted):
    """Takes calls; their outcomes come when a test says so."""

    name = "later"
    deferred: Literal[True] = True
    receiver = None
    open_calls = 0
    stream_up = None

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        return await self._take(invocation, callback_url, gate)

    async def resume(self, key: CallKey, run: str) -> None:
        if self.on_resume is not None:
            await self.on_resume(key)
        self.resumed.append((key, run))
        self.took.set()

    async def cancel(self, key: CallKey, run: str, group: str) -> None:
        assert run == next(each.run for each in self.dispatched if each.key == key)
        self.cancelled.append((key, group))
        if self.on_cancel is not None:
            await self.on_cancel()


class Now(_Scripted):
    """Answers each call when it is done, which is when a test opens it."""

    name = "now"
    deferred: Literal[False] = False

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()
        self.hung_up = False

    async def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> ToolResult:
        await self._take(invocation, "", gate)
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.hung_up = True
            raise
        return DONE


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Away(MemoryState):
    """A state whose methods can be away one by one, and in which others leave their calls behind."""

    def __init__(self, limits: StateLimits, clock: Clock) -> None:
        super().__init__(limits, clock)
        self.away: set[str] = set()
        self.moves: list[tuple[str, CallState]] = []
        self.orphans: list[Record] = []
        self.forgets_what_it_holds = False

    def _look(self, method: str) -> None:
        if method in self.away:
            raise StateUnavailable

    async def begin(self, call: NewCall) -> BeginResult:
        self._look("begin")
        return await super().begin(call)

    async def advance(self, key: str, from_states: Collection[CallState], to: CallState, **more: Any) -> bool:
        self._look("advance")
        has_moved = await super().advance(key, from_states, to, **more)
        if has_moved:
            self.moves.append((key, to))
        return has_moved

    async def settle(self, key: str, outcome: bytes) -> bool:
        self._look("settle")
        return await super().settle(key, outcome)

    async def get(self, key: str) -> Record | None:
        self._look("get")
        return super().local_record(key) or await super().get(key)

    def local_record(self, key: str) -> Record | None:
        return None if self.forgets_what_it_holds else super().local_record(key)

    def lose(self, key: str) -> None:
        """Nobody knows any more what became of a call."""
        self._calls[key].state = CallState.UNKNOWN

    def unreadable(self, key: str) -> None:
        """Leaves of a call what is left when its sealing key is gone."""
        call = self._calls[key]
        call.state, call.note = CallState.UNKNOWN, b""

    async def claim_orphans(self, limit: int) -> list[Record]:
        orphans, self.orphans = self.orphans[:limit], self.orphans[limit:]
        return orphans


class Desk:
    """Calls over a state in memory, and who asks."""

    def __init__(self, **limits: Any) -> None:
        self.clock = Clock()
        self.state = Away(StateLimits(**limits), self.clock)
        self.later, self.now = Later(), Now()
        self.ended: list[tuple[Run, ToolResult | GatewayError]] = []
        self.endings = OutcomeRecorder(self.state, lambda run, ending: self.ended.append((run, ending)))
        self.calls = Calls(
            self.state,
            Digester([], "calls"),
            self.endings,
            backends={"later": self.later, "now": self.now},
            callback_url=lambda key, run: f"https://gateway.example/{key}",
        )

    async def ask(
        self,
        call_id: str | None = "k",
        *,
        backend: Later | Now | None = None,
        arguments: JsonObject | None = None,
        caller: Caller = ADA,
        preference: Preference = NO_PREFERENCE,
        timeout_s: float = TIMEOUT_S,
        user_id: str | None = None,
        **route: Any,
    ) -> CallView:
        """Makes a call; further arguments are the route's."""
        backend = backend or self.later
        tool = published("Echo.Say@1.0.0", backend=backend, timeout_s=timeout_s, **route)
        invocation = Invocation(
            call_id="unset",
            tool=tool.definition,
            arguments=arguments or {},
            timeout_s=timeout_s,
            group="g",
            idempotent=tool.route.idempotent,
        )
        call = ToolCall(
            ref=ToolRef(tool="Echo.Say"),
            arguments=arguments or {},
            call_id=call_id,
            context=CallContext(user_id=user_id),
        )
        asked = CallRequest(
            call=call,
            tool=tool,
            caller=caller,
            invocation=invocation,
            preference=preference,
            dialect="oxp",
            wire_version="1.0",
        )
        return await self.calls.run(asked)

    async def status_of_call(self, call_id: str) -> Any:
        """How a call of Ada's is said to stand."""
        kept = await self.calls.stored_calls.view(call_id, ADA)
        assert kept is not None
        return kept.status


@asynccontextmanager
async def desk(**limits: Any) -> AsyncIterator[Desk]:
    """One that is open; `limits` are the state's."""
    it = Desk(**limits)
    await it.calls.start()
    try:
        yield it
    finally:
        it.now.opened.set()
        await it.calls.aclose()
