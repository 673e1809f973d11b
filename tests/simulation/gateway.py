"""One gateway process: the real state and the real calls layer, on a machine of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

from gateway.calls.execution import CallRequest
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.preference import NO_PREFERENCE, Preference
from gateway.calls.registry import Calls
from gateway.calls.status import CallView
from gateway.core.model import CallContext, Invocation, ToolCall, ToolRef
from gateway.core.ports import Caller
from gateway.core.sealing import Digester
from gateway.core.wire import Head
from gateway.http.edge import CALLBACK_REFUSALS
from gateway.pipeline.callbacks import Callbacks, CallbackTokens
from gateway.pipeline.request import Request
from gateway.protocols.otc.surface import REST
from gateway.state.port import State
from tests.simulation.loop import HERE, NETWORK, Machine, on
from tests.simulation.servers import Stream
from tests.simulation.toolserver import Later, Now
from tests.unit.published import published

KEYS = ["the key of this simulation, of enough characters"]
TIMEOUT_S = 12.0
URL = "https://gateway.example/callbacks/"


class GoneError(Exception):
    """The gateway is not there, or has died before it answered."""


class Gateway:
    """A process that was started on a machine. `ask` is how others reach it."""

    def __init__(self, world: Any, machine: Machine, state: State) -> None:
        self.machine = machine
        self.state = state
        self.is_open = False
        self._world = world
        self._asked: set[asyncio.Future[Any]] = set()
        self._tokens = CallbackTokens(Digester(KEYS, "callbacks"))
        self._outcomes = OutcomeRecorder(state, lambda run, ending: None)
        self.backends: dict[str, Now | Later] = {"now": Now("now", world)}
        self.calls = Calls(
            state,
            Digester(KEYS, "calls"),
            self._outcomes,
            backends=self.backends,
            callback_url=lambda key, run: URL + self._tokens.mint(key, run),
        )
        later = self.backends["later"] = Later("later", world, self.calls)
        self.callbacks = Callbacks(
            state,
            self._tokens,
            receivers={"later": later.receiver},
            published=lambda _tool: None,
            absent=lambda _name: later.receiver,
            backlog=self._outcomes.backlog,
            linked=lambda trace, _: trace,
        )

    @property
    def held_back(self) -> set[str]:
        """The keys of calls whose outcomes wait here for the state."""
        return set(self._outcomes.backlog._held)

    async def start(self) -> None:
        await self.state.start()
        await self.calls.start()
        self.is_open = True

    async def run(self, call: ToolCall, backend: str, principal: str, idempotent: bool, wait_s: float) -> CallView:
        """Runs a call of a caller's that waits so long; 0: it wants no result now, and comes again."""
        tool = published("Echo.Say@1.0.0", backend=self.backends[backend], timeout_s=TIMEOUT_S, idempotent=idempotent)
        preference = NO_PREFERENCE
        if wait_s < TIMEOUT_S:
            preference = Preference(wait_s=wait_s) if wait_s else Preference(respond_async=True)
        invocation = Invocation(
            call_id="unset",
            tool=tool.definition,
            arguments=call.arguments,
            timeout_s=TIMEOUT_S,
            group="g",
            idempotent=idempotent,
            principal=principal,
        )
        request = CallRequest(
            call=call,
            tool=tool,
            caller=Caller(principal=principal),
            invocation=invocation,
            preference=preference,
            dialect="oxp",
            wire_version="1.0",
        )
        return await self.calls.run(request)

    async def receive(self, url: str, body: bytes) -> int:
        request = Request(Head(method="POST", path="/callbacks/", headers={}), REST)
        refused = await self.callbacks.answer(request, url.removeprefix(URL), "application/json", Posted(body))
        return 200 if refused is None else CALLBACK_REFUSALS[refused][0]

    async def ask(self, who: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """What a request from elsewhere is answered with. Raises GoneError."""
        network = self._world.network
        there, back = Stream(network, who, self.machine.name), Stream(network, self.machine.name, who)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def arrived() -> None:
            if self.machine.is_dead or not self.is_open:
                back.send(lambda: _fail(answer))
                return
            self._asked.add(answer)
            task = on(self.machine, work())  # type: ignore[arg-type]
            task.add_done_callback(lambda done: back.send(lambda: _copy(done, answer)), context=ELSEWHERE)

        there.send(arrived)
        try:
            return await answer
        finally:
            self._asked.discard(answer)

    def died(self) -> None:
        """Those who have asked learn of it."""
        for answer in self._asked:
            self._world.loop.call_later(0.001, _fail, answer, context=ELSEWHERE)


class Posted:
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def now(self, holder: str = "") -> bytes:
        return self._body

    async def read(self) -> bytes:
        return self._body


def called(name: str, call_id: str | None) -> ToolCall:
    """A call with this name in its arguments."""
    return ToolCall(ref=ToolRef(tool="Echo.Say"), arguments={"name": name}, call_id=call_id, context=CallContext())


def _fail(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(GoneError())


def _copy(done: asyncio.Task[Any], answer: asyncio.Future[Any]) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.set_exception(GoneError())
    elif (problem := done.exception()) is not None:
        answer.set_exception(problem)
    else:
        answer.set_result(done.result())


ELSEWHERE = copy_context()
ELSEWHERE.run(HERE.set, NETWORK)
