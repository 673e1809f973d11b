"""Calls without an id: an identical one joins a call that waits for its user."""

from __future__ import annotations

import pytest

from gateway.state.memory import MemoryState
from gateway.state.port import Created, Exists, State, StateLimits
from tests.contract.state.conftest import Clock, OpenReplica, OpenState
from tests.support.stored_calls import ACCEPTED, AWAITING_USER, DONE, began, begins, call, joined, until_gone

pytestmark = pytest.mark.anyio

SHORT_S = 0.6  # of real time in Redis, where several operations come before it is over


async def key_for(state: State, question: str | None) -> str:
    """The key of the call that a new one with this question is taken for."""
    begun = await state.begin(call(question=question))
    assert isinstance(begun, Created | Exists)
    return begun.record.key


async def test_a_call_is_joined_by_its_question_only_while_it_waits_for_its_user(state: State) -> None:
    waiting = await began(state, call(question="q"), ACCEPTED)
    assert await begins(state, call(question="q"))
    await state.advance(waiting.key, [ACCEPTED], AWAITING_USER, note=b"challenge")
    again = await joined(state, call(question="q"))
    assert (again.key, again.state, again.note) == (waiting.key, AWAITING_USER, b"challenge")
    assert await key_for(state, "q") == waiting.key
    for other in ("another", None):
        assert await begins(state, call(question=other))


async def test_a_call_with_an_id_joins_no_other_but_is_joined(state: State) -> None:
    named = await began(state, call(question="q", joins=False), AWAITING_USER)
    assert await begins(state, call(question="q", joins=False))
    assert await key_for(state, "q") == named.key
    await state.settle(named.key, b"outcome")
    assert await begins(state, call(question="q", joins=False))
    assert await key_for(state, "q") == named.key
    assert await key_for(state, "q") != named.key


async def test_an_identical_call_gets_the_newest_note_of_the_call_that_waits_for_its_user(state: State) -> None:
    one, two = [await began(state, call(question="q", joins=False), AWAITING_USER) for _ in range(2)]
    assert await key_for(state, "q") == two.key
    assert await state.advance(one.key, [ACCEPTED, AWAITING_USER], AWAITING_USER, note=b"newer")
    again = await joined(state, call(question="q"))
    assert (again.key, again.state, again.note) == (one.key, AWAITING_USER, b"newer")
    assert again == await state.get(one.key)
    await state.settle(one.key, b"outcome")
    assert not await state.advance(one.key, [AWAITING_USER], AWAITING_USER, note=b"too late")
    assert await key_for(state, "q") == one.key


async def test_the_result_of_a_joined_call_is_delivered_once(state: State) -> None:
    waiting = await began(state, call(question="q"), AWAITING_USER)
    await state.settle(waiting.key, b"outcome")
    found = await joined(state, call(question="q"))
    assert (found.key, found.state, found.outcome) == (waiting.key, DONE, b"outcome")
    assert await begins(state, call(question="q"))
    assert await state.get(waiting.key) == found


async def test_a_result_marked_delivered_is_not_joined_again(state: State) -> None:
    waiting = await began(state, call(question="q"), AWAITING_USER)
    await state.settle(waiting.key, b"outcome")
    await state.mark_delivered(waiting.key)
    assert await begins(state, call(question="q"))


async def test_a_forgotten_call_is_not_joined(state: State) -> None:
    await state.forget((await began(state, call(question="q"), AWAITING_USER)).key)
    assert await begins(state, call(question="q"))


async def test_of_two_calls_with_the_same_question_the_later_one_is_joined(state: State) -> None:
    one, two = [await began(state, call(question="q"), ACCEPTED) for _ in range(2)]
    for waiting in (one, two):
        await state.advance(waiting.key, [ACCEPTED], AWAITING_USER)
    await state.settle(one.key, b"outcome")
    await state.mark_delivered(one.key)
    assert await key_for(state, "q") == two.key


@pytest.mark.parametrize("settled", [False, True])
async def test_an_expired_call_is_not_joined(open_state: OpenState, *, settled: bool) -> None:
    state = await open_state(StateLimits(pending_ttl_s=SHORT_S, result_ttl_s=SHORT_S))
    waiting = await began(state, call(question="q"), AWAITING_USER)
    if settled:
        await state.settle(waiting.key, b"outcome")
    await until_gone(state, waiting.key)
    assert await begins(state, call(question="q"))


async def test_a_call_is_joined_on_every_replica_and_delivered_on_one(open_replica: OpenReplica) -> None:
    one, two = await open_replica(), await open_replica()
    waiting = await began(one, call(question="q"), ACCEPTED)
    assert await two.advance(waiting.key, [ACCEPTED], AWAITING_USER)  # the callback arrived there
    for state in (one, two):
        assert await key_for(state, "q") == waiting.key
    await two.settle(waiting.key, b"outcome")
    assert await key_for(one, "q") == waiting.key
    assert await key_for(two, "q") != waiting.key


async def test_memory_keeps_no_question_longer_than_its_call() -> None:
    clock = Clock()
    state = MemoryState(StateLimits(), clock)
    for end in (state.forget, lambda key: state.settle(key, b"")):
        await end((await began(state, call(question="q"), AWAITING_USER)).key)
    assert "q" in state._open
    clock.now += StateLimits().result_ttl_s
    await state.get("unknown")
    assert "q" not in state._open
