"""Tool servers that take calls at once and call back later, early, twice or only when asked three times; and others
that answer in the same exchange. They count what they run.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.core.errors import unavailable
from gateway.core.model import CallKey, Invocation, Listing, ToolFailure, ToolResult
from gateway.core.ports import DispatchGate
from gateway.protocols.rap.messages import invocation_id
from gateway.protocols.rap.receiver import CallbackReceiver
from gateway.upstream.admission import Admission, AdmissionLimits
from tests.simulation.loop import HERE, NETWORK, on
from tests.simulation.servers import Stream

ACK_TIMEOUT_S = 10.0
BUSY = ToolResult(failure=ToolFailure(message="Busy.", can_retry=True, retry_after_ms=100))
BROKEN_OFF = ToolResult(failure=ToolFailure(message="The tool server broke off.", outcome="unknown"))


@dataclass
class Plan:
    """What a tool server does with a call, and what it has done.

    `runs` are the runs that began, `told` when and of which run a gateway has taken the outcome (200), `refused` those
    of whose call no gateway knew. `refuses` is how often it says first that it is busy.
    """

    name: str
    works_s: float = 1.0
    acknowledges: Literal["at once", "late", "never"] = "at once"
    calls_back: int = 1  # how many times, each at another replica
    refuses: int = 0
    is_idempotent: bool = False
    runs: list[str] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)


def planned(name: str, chance: random.Random) -> Plan:
    """A call like those that there are."""
    return Plan(
        name,
        works_s=chance.choice((0.0, 0.001, 0.3, 3.0, 12.0, 20.0)),
        acknowledges=chance.choices(("at once", "late", "never"), (8, 2, 1))[0],
        calls_back=chance.choice((1, 1, 2)),
        refuses=chance.choice((0, 0, 0, 1)),
        is_idempotent=chance.random() < 0.15,
    )


class _LostError(Exception):
    """The exchange broke off; `sent`: the request may have arrived."""

    def __init__(self, *, sent: bool) -> None:
        self.sent = sent


class _Backend:
    """What one gateway has of a tool server: as the real adapters do, over a simulated network."""

    dialect = "simulated"

    def __init__(self, name: str, world: Any) -> None:
        self.name = name
        self.world = world
        limits = AdmissionLimits(concurrency=world.concurrency)
        self._admission: Admission[None] = Admission(name, [("only", None)], limits)

    async def _exchange(self, invocation: Invocation, url: str, gate: DispatchGate | None, timeout_s: float) -> Any:
        tool = invocation.tool.remote_id
        lease = self._admission.enter(tool) or await self._admission.wait(tool, invocation.timeout_s, gate)
        try:
            reply = await self._send(invocation, url, timeout_s)
            lease.answered = True
            return reply
        except _LostError as exc:
            if exc.sent and gate is not None and await gate.is_answered():
                return None
            if not exc.sent:
                raise unavailable("nothing listens there") from exc
            raise
        finally:
            self._admission.leave(lease)

    async def _send(self, invocation: Invocation, url: str, timeout_s: float) -> Any:
        world, here = self.world, HERE.get()
        if world.chance.random() < 0.03:
            raise _LostError(sent=False)
        arrives: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        stream, back = (Stream(world.network, here.name, self.name) for _ in range(2))

        def answer(reply: Any) -> None:
            back.send(lambda: None if arrives.done() else arrives.set_result(reply))

        stream.send(lambda: on(NETWORK, self._take(invocation, url, answer)))
        try:
            async with asyncio.timeout(timeout_s):
                reply = await arrives
        except TimeoutError as exc:
            raise _LostError(sent=True) from exc
        if isinstance(reply, _LostError):
            raise reply
        return reply

    async def _take(self, invocation: Invocation, url: str, answer: Any) -> None:
        raise NotImplementedError

    async def list_tools(self) -> Listing:
        raise AssertionError

    async def challenge_status(self, check_url: str) -> str:
        raise AssertionError

    async def aclose(self) -> None: ...

    def _plan(self, invocation: Invocation) -> Plan:
        assert isinstance(invocation.arguments, dict)
        plan: Plan = self.world.plans[invocation.arguments["name"]]
        return plan


class Now(_Backend):
    """Answers in the same exchange."""

    deferred: Literal[False] = False

    async def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> ToolResult:
        try:
            result = await self._exchange(invocation, "", gate, invocation.timeout_s)
        except _LostError:
            return BROKEN_OFF
        assert isinstance(result, ToolResult)
        return result

    async def _take(self, invocation: Invocation, url: str, answer: Any) -> None:
        plan = self._plan(invocation)
        if plan.refuses:
            plan.refuses -= 1
            answer(BUSY)
            return
        plan.runs.append(f"run {len(plan.runs)}")
        self.world.note(f"{self.name} runs {plan.name}")
        value = {"call": plan.name, "run": plan.runs[-1]}
        await asyncio.sleep(plan.works_s)
        answer(_LostError(sent=True) if plan.acknowledges == "never" else ToolResult(value=value))


class Later(_Backend):
    """Acknowledges, and calls back: at any gateway, and again until one has taken the outcome."""

    deferred: Literal[True] = True
    open_calls = 0
    stream_up = None

    def __init__(self, name: str, world: Any, outcomes: Any) -> None:
        super().__init__(name, world)
        self.receiver = CallbackReceiver(name, outcomes, checker=None)  # type: ignore[arg-type]

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        timeout_s = min(ACK_TIMEOUT_S, invocation.timeout_s)
        try:
            result: ToolResult | None = await self._exchange(invocation, callback_url, gate, timeout_s)
        except _LostError:
            return None
        return result

    async def resume(self, key: CallKey, run: str) -> None: ...

    async def cancel(self, key: CallKey, run: str, group: str) -> None: ...

    async def _take(self, invocation: Invocation, url: str, answer: Any) -> None:
        plan, id_ = self._plan(invocation), invocation_id(invocation.key, invocation.run)
        if plan.refuses:
            plan.refuses -= 1
            answer(BUSY)
            return
        run = f"run {len(plan.runs)}"
        plan.runs.append(run)
        self.world.note(f"{self.name} runs {plan.name}")
        if plan.acknowledges == "at once":
            answer(None)
        await asyncio.sleep(plan.works_s)
        for _ in range(plan.calls_back):
            on(NETWORK, self._call_back(plan, run, id_, url, invocation.group))
        await asyncio.sleep(0.5)
        if plan.acknowledges == "late":
            answer(None)

    async def _call_back(self, plan: Plan, run: str, id_: str, url: str, group: str) -> None:
        value = {"call": plan.name, "run": run}
        message = {"type": "tool_result", "id": id_, "group_id": group, "text": json.dumps(value)}
        body = json.dumps(message).encode()
        while True:
            status = await self.world.deliver(url, body)
            if status == 200:
                plan.told.append((self.world.loop.now, run))
                return
            if status is not None and status < 500:
                plan.refused.append((run, status))
                return
            await asyncio.sleep(1.0)
