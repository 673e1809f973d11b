"""Several replicas of one callback tool server: who gets a call, and who is told that it is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.core.jsontext import encode
from gateway.core.model import CallKey, Invocation
from gateway.net.client import Origin, Pool
from gateway.offload import ChildTasks
from gateway.protocols.rap.backend import CallbackBackend
from gateway.protocols.rap.targets import REMEMBERED, CallbackTargets
from gateway.upstream.admission import Admission, BreakerRules
from gateway.upstream.replica_url import Server
from tests.unit.net.client.scripted import Peer, listening, serving, until
from tests.unit.protocols.rap.calling_back import CALLBACK_URL, INVOCATION, LONE, Ends, Toolset, message
from tests.unit.upstream.admitting import admission, context_of, settings_of
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

LASTING = BreakerRules(failures=2, open_for_s=600.0)


@dataclass
class Fleet:
    """A backend, its way in, and the toolsets of its replicas; None: nothing listens there."""

    toolsets: Sequence[Toolset | None]
    backend: CallbackBackend = field(init=False)
    way_in: Admission[Server] = field(init=False)

    @property
    def states(self) -> list[str]:
        return [replica.breaker.state for replica in self.way_in.replicas]

    def noted(self, path: str) -> list[int]:
        """How often each replica was posted to at a path."""
        return [sum(to == path for to, _ in toolset.noted) if toolset else 0 for toolset in self.toolsets]

    async def dispatch(self, *call_ids: str, group: str | None = None) -> None:
        for call_id in call_ids:
            assert await self.backend.dispatch(run(call_id, group), CALLBACK_URL) is None


def run(call_id: str, group: str | None) -> Invocation:
    return replace(INVOCATION, call_id=call_id, key=CallKey(call_id.removeprefix("tg-")), group=group or LONE + call_id)


@asynccontextmanager
async def fleet(*toolsets: Toolset | None) -> AsyncIterator[Fleet]:
    """A backend that knows its tools, in front of the replicas."""
    async with AsyncExitStack() as stack:
        of, urls = Fleet(toolsets), list[str]()
        for toolset in toolsets:
            if toolset is None:
                async with serving(listening) as server:
                    urls.append(server.url)
            else:
                urls.append((await stack.enter_async_context(serving(toolset))).url)
        of.way_in = admission(*urls, breaker=LASTING)
        context = context_of(of.way_in, outcomes=Ends(), offload=ChildTasks())
        of.backend = await stack.enter_async_context(
            aclosing(CallbackBackend("builds", settings_of("callback", urls[0]), context))
        )
        await of.backend.list_tools()
        yield of
        assert of.way_in.in_flight == 0


async def test_replicas_take_turns_and_one_that_is_gone_costs_no_call() -> None:
    async with fleet(Toolset(), None, Toolset()) as of:
        await of.dispatch(*(f"tg-{number}" for number in range(10)))
        gone, *there = sorted(of.noted("/invoke"))
        assert (gone, sum(there)) == (0, 10)
        assert min(there) > 1
        assert of.states == ["closed", "open", "closed"]


async def test_the_calls_of_a_conversation_go_to_one_replica_while_it_takes_calls() -> None:
    async with fleet(Toolset(), Toolset(), Toolset()) as of:
        for group in ("grp-a", "grp-b", "grp-c", "grp-d", "grp-e", "grp-f"):
            before = of.noted("/invoke")
            await of.dispatch("tg-1", "tg-2", "tg-3", group=group)
            taken = [now - then for then, now in zip(before, of.noted("/invoke"), strict=True)]
            assert sorted(taken) == [0, 0, 3]
        last = taken.index(3)
        for _ in range(LASTING.failures):
            of.way_in.replicas[last].breaker.record_failure(0)
        before = of.noted("/invoke")
        await of.dispatch("tg-1", group=group)
        assert (sum(of.noted("/invoke")), of.noted("/invoke")[last]) == (sum(before) + 1, before[last])


async def test_a_call_that_no_replica_can_be_sent_is_refused() -> None:
    async with fleet(Toolset(), Toolset()) as of:
        for replica in of.way_in.replicas:
            await replica.target.pool.aclose()
        error = await refusal(of.backend.dispatch(INVOCATION, CALLBACK_URL))
        assert (error.code, sum(of.noted("/invoke"))) == (ErrorCode.BACKEND_UNAVAILABLE, 0)


async def test_a_call_that_may_have_arrived_goes_to_no_other_replica() -> None:
    async def hang_up(peer: Peer) -> None:
        raise ConnectionResetError

    async with fleet(Toolset(hang_up), Toolset(hang_up)) as of:
        await of.dispatch("tg-1")
        assert sum(of.noted("/invoke")) == 1


async def test_the_replica_that_took_a_call_is_told_of_its_end_and_no_other() -> None:
    async with fleet(Toolset(), Toolset()) as of:
        await of.dispatch("tg-1", "tg-2", "tg-3")
        taken = of.noted("/invoke")
        await of.backend.cancel(CallKey("1"), "", LONE + "tg-1")
        ended = message("tool_result", text="done") | {"id": "tg-2", "group_id": LONE + "tg-2"}
        await of.backend.receiver.receive(CallKey("2"), LONE + "tg-2", encode(ended), "application/json")
        await of.backend.cancel(CallKey("3"), "", LONE + "tg-3")
        await until(lambda: of.noted("/close_thread") == taken and sum(of.noted("/cancel_tool_call")) == 2)
        for toolset in of.toolsets:
            assert toolset is not None
            called = {body["id"] for path, body in toolset.noted if path == "/invoke"}
            told = {body["tool_call_id"] for path, body in toolset.noted if path == "/cancel_tool_call"}
            assert told == called - {"tg-2"}


async def test_where_it_is_not_known_who_took_a_call_every_replica_that_is_up_is_told() -> None:
    async with fleet(Toolset(), None, Toolset()) as of:
        await of.dispatch(*(f"tg-{number}" for number in range(6)))
        assert of.states == ["closed", "open", "closed"]
        await of.backend.cancel(CallKey("of-another-process"), "", "grp-1")
        await until(lambda: of.noted("/cancel_tool_call") == [1, 0, 1])


ENDPOINTS: list[tuple[str, list[str]]] = [
    ("http://one:1/a/invoke?x=1", ["http://one:1 /a/invoke?x=1", "http://two:2 /b/invoke?x=1"]),
    ("http://two:2/b/invoke", ["http://one:1 /a/invoke", "http://two:2 /b/invoke"]),
    ("http://two:2/tools", ["http://one:1 /tools", "http://two:2 /tools"]),  # beside its URL
    ("http://front:3/tools", ["http://front:3 /tools", "http://front:3 /tools"]),
    ("http://elsewhere/tools", []),
]


@pytest.mark.parametrize(("named", "expected"), ENDPOINTS)
def test_an_endpoint_is_the_same_path_below_the_url_of_each_replica(named: str, expected: list[str]) -> None:
    replicas = admission("http://one:1/a", "http://two:2/b").replicas
    front = Origin.parse("http://front:3")
    endpoints = CallbackTargets(replicas, {front: Pool(front)}).endpoints(named)
    assert [f"{pool.origin} {target.decode()}" for pool, target in endpoints.values()] == expected


def test_runs_that_nothing_is_heard_of_are_forgotten() -> None:
    replicas = admission("http://one", "http://two").replicas
    targets, (one, two) = CallbackTargets(replicas, {}), [replica.target for replica in replicas]
    for number in range(REMEMBERED + 1):
        targets.note_sent(str(number), two)
    assert [targets.release(run_id) for run_id in ("0", "1", "1")] == [[one, two], [two], [one, two]]
