"""The life of kept calls, towards tool servers that answer later and with a state that comes and goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.calls.preference import Preference
from gateway.calls.status import CallView, ConsentPending
from gateway.core.errors import ErrorCode, GatewayError, StateUnavailable
from gateway.core.model import CallKey, ToolFailure, ToolResult, public_id
from gateway.state.port import MAX_NOTE_BYTES, CallState
from tests.unit.desk import ADA, BOB, DONE, Desk, desk

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
CHALLENGE = {"id": "1", "url": "https://login.example/"}
AT_ONCE = Preference(wait_s=0.0)
REPEATABLE = ToolResult(failure=ToolFailure(message="Busy.", can_retry=True))


@pytest.fixture
async def it() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def refusal(kept: CallView) -> GatewayError:
    assert isinstance(kept.status, GatewayError)
    return kept.status


def failure(standing: object) -> ToolFailure:
    assert isinstance(standing, ToolResult)
    assert standing.failure is not None
    return standing.failure


async def test_a_call_that_outlasts_its_caller_goes_on_and_is_joined(it: Desk) -> None:
    late = await it.ask(timeout_s=0.01)
    assert (late.status, late.is_keyed, late.remembered) == (None, True, True)
    assert (await it.ask(preference=AT_ONCE)).status is None
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        joined = [group.create_task(it.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        assert await it.calls.settle(late.key, DONE)
    assert [(await task).status for task in joined] == [DONE] * 3
    assert (await it.ask()).status == await it.status_of_call("k") == DONE
    assert len(it.later.dispatched) == 1


async def test_what_a_tool_server_is_told_of_a_call(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE, config_ids=frozenset({"6f1c"}))
    [invocation] = it.later.dispatched
    assert (invocation.call_id, invocation.group, kept.metadata.group) == (kept.id, "g", "g")
    assert invocation.config_ids == {"6f1c"}
    assert it.later.callback_urls == [f"https://gateway.example/{kept.key}"]


async def test_a_call_without_an_id_is_a_new_one_each_time(it: Desk) -> None:
    first, second = [await it.ask(None, preference=AT_ONCE) for _ in range(2)]
    assert (first.is_keyed, first.metadata.call_id, first.id != second.id) == (False, first.id, True)
    assert await it.calls.settle(first.key, DONE)
    assert await it.status_of_call(first.id) == DONE
    assert await it.status_of_call(second.id) is None


async def test_an_outcome_arrives_once(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    assert await it.calls.settle(kept.key, DONE)
    assert not await it.calls.settle(kept.key, ToolResult(value="another"))
    assert not await it.calls.settle(CallKey("unknown"), DONE)
    assert await it.status_of_call("k") == DONE


async def test_a_failure_that_may_be_repeated_reaches_who_waits_and_is_not_kept(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        joined = [group.create_task(it.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        assert await it.calls.settle(kept.key, REPEATABLE)
    assert [((await task).status, (await task).remembered) for task in joined] == [(REPEATABLE, False)] * 3
    assert len(it.later.dispatched) == 1
    again = await it.ask(preference=AT_ONCE)
    assert (again.status, len(it.later.dispatched)) == (None, 2)


async def test_without_an_id_even_such_a_failure_can_be_asked_for(it: Desk) -> None:
    """That call cannot be repeated, so nothing is pinned."""
    kept = await it.ask(None, preference=AT_ONCE)
    assert await it.calls.settle(kept.key, REPEATABLE)
    looked = await it.calls.stored_calls.view(kept.id, ADA)
    assert looked is not None
    assert (looked.status, looked.remembered) == (REPEATABLE, True)


async def test_a_dispatch_that_is_refused_never_was_and_without_an_id_says_so_later(it: Desk) -> None:
    it.later.at_once = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "Not now.", retry_after_s=1)
    kept = await it.ask()
    assert (refusal(kept).message, kept.remembered) == ("Not now.", False)
    looked = await it.calls.stored_calls.view("k", ADA)
    assert looked is not None
    assert failure(looked.status).message == "The tool did not run: Not now."
    assert await it.calls.stored_calls.view("k", BOB) is None
    it.later.at_once = None
    assert (await it.ask(timeout_s=0.01)).joined is False  # it may be begun once more
    it.later.at_once = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "Not now.", retry_after_s=1)
    kept = await it.ask(None)
    assert refusal(kept).message == "Not now."
    shown = failure(await it.status_of_call(kept.id))
    assert (shown.message, shown.can_retry) == ("The tool did not run: Not now.", True)


async def test_a_call_that_cannot_be_repeated_is_not_sent_again_whatever_its_route_allows(it: Desk) -> None:
    """Should its replica die while it is sent, its outcome may still come."""
    for call_id in ("k", None):
        kept = await it.ask(call_id, preference=AT_ONCE, idempotent=True)
        record = it.state.local_record(kept.key)
        assert record is not None
        assert record.idempotent == (call_id is not None)


async def test_a_bug_of_ours_is_an_outcome_since_the_tool_may_have_run(
    it: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    it.later.at_once = ValueError("a bug")
    assert failure((await it.ask()).status).can_retry is False
    assert failure((await it.ask()).status).message == "The gateway failed; the tool may have run."
    assert len(it.later.dispatched) == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


# Consent.


async def test_a_call_waits_for_its_user_and_its_repetition_gets_the_result(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    assert await it.calls.challenge(kept.key, CHALLENGE)
    assert (await it.ask()).status == await it.status_of_call("k") == ConsentPending(CHALLENGE)
    key = kept.key
    assert await it.calls.consent_status(key) == "pending"
    assert await it.calls.settle(kept.key, DONE)
    assert await it.calls.consent_status(key) == "completed"
    assert (await it.ask()).status == DONE
    assert len(it.later.dispatched) == 1


async def test_a_consent_asked_for_anew_is_shown_to_the_next_caller(it: Desk) -> None:
    """The protocol is silent about it; the address of the first may have expired."""
    newer = {"id": "2", "url": "https://login.example/again"}
    named, nameless = await it.ask(preference=AT_ONCE), await asked_for_consent(it)
    assert await it.calls.challenge(named.key, CHALLENGE)
    for kept in (named, nameless):
        assert await it.calls.challenge(kept.key, newer)
    assert (await it.ask()).status == await it.status_of_call("k") == ConsentPending(newer)
    again = await it.ask(None)
    assert (again.id, again.status) == (nameless.id, ConsentPending(newer))
    for kept in (named, nameless):
        assert await it.calls.settle(kept.key, DONE)
        assert not await it.calls.challenge(kept.key, CHALLENGE)
    assert await it.status_of_call("k") == DONE
    assert (await it.ask(None)).status == DONE


async def asked_for_consent(it: Desk) -> CallView:
    """A call without an id whose user must consent first."""
    before = len(it.later.dispatched)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        asking = group.create_task(it.ask(None))
        while len(it.later.dispatched) == before:  # noqa: ASYNC110 - two tasks of the same loop
            await asyncio.sleep(0)
        await it.calls.challenge(it.later.dispatched[-1].key, CHALLENGE)
    return await asking


async def test_while_it_waits_the_same_question_without_an_id_joins_it(it: Desk) -> None:
    first = await it.ask(None, preference=AT_ONCE)
    second = await it.ask(None, preference=AT_ONCE)
    assert first.id != second.id  # neither waits for its user yet
    await it.calls.challenge(first.key, CHALLENGE)
    again = await it.ask(None)
    assert (again.id, again.status, again.is_keyed) == (first.id, ConsentPending(CHALLENGE), False)
    for others in ({"caller": BOB}, {"user_id": "u"}, {"arguments": {"other": 1}}):
        assert (await it.ask(None, preference=AT_ONCE, **others)).id != first.id
    assert (await it.ask("k", preference=AT_ONCE)).id != first.id
    await it.calls.settle(first.key, DONE)
    joined = await it.ask(None)
    assert (joined.id, joined.status) == (first.id, DONE)
    assert (await it.ask(None, preference=AT_ONCE)).id != first.id  # it was delivered


async def test_it_joins_one_that_has_an_id_too(it: Desk) -> None:
    first = await it.ask("k", preference=AT_ONCE)
    await it.calls.challenge(first.key, CHALLENGE)
    again = await it.ask(None)
    assert (again.id, again.status, again.joined) == (first.id, ConsentPending(CHALLENGE), True)
    await it.calls.settle(first.key, DONE)
    for call_id in ("k", "k"):
        assert (await it.ask(call_id)).status == DONE
    assert (await it.ask(None, preference=AT_ONCE)).id != first.id  # it was delivered


@pytest.mark.parametrize("how", ["look", "cancel"])
async def test_who_was_told_otherwise_is_not_told_again(it: Desk, how: str) -> None:
    asked = await asked_for_consent(it)
    if how == "look":
        await it.calls.stored_calls.view(asked.id, ADA)  # nothing is over yet
        assert (await it.ask(None)).id == asked.id
        await it.calls.settle(asked.key, DONE)
    await (it.calls.stored_calls.view if how == "look" else it.calls.stored_calls.cancel)(asked.id, ADA)
    assert (await it.ask(None, preference=AT_ONCE)).id != asked.id


async def test_an_abandoned_call_is_not_in_the_way_of_a_new_one() -> None:
    async with desk(pending_ttl_s=60.0, seen_ttl_s=60.0) as it:
        asked = await asked_for_consent(it)
        it.clock.now += 61
        again = await it.ask(None, preference=AT_ONCE)
        assert (again.id != asked.id, again.status) == (True, None)


@pytest.mark.parametrize("how", ["failed", "cancelled", "forgotten"])
async def test_a_consent_that_came_to_nothing_has_failed(it: Desk, how: str) -> None:
    kept = await it.ask(preference=AT_ONCE)
    await it.calls.challenge(kept.key, CHALLENGE)
    if how == "failed":
        await it.calls.settle(kept.key, ToolResult(failure=ToolFailure(message="Declined.")))
    elif how == "cancelled":
        await it.calls.stored_calls.cancel("k", ADA)
    else:
        it.clock.now += 100_000
    assert await it.calls.consent_status(kept.key) == "failed"


async def test_a_challenge_too_large_to_be_kept_ends_its_call(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    assert await it.calls.challenge(kept.key, {"id": "1", "url": "https://x.example/" + "x" * MAX_NOTE_BYTES})
    assert "consent" in failure(await it.status_of_call("k")).message


# Ending it from outside.


async def test_only_an_outcome_of_its_latest_run_counts_and_only_until_it_is_over(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    [run] = [invocation.run for invocation in it.later.dispatched]
    assert (await it.calls.is_open(kept.key, run), await it.calls.is_open(kept.key, "another")) == (True, False)
    await it.calls.settle(kept.key, REPEATABLE)
    again = await it.ask(preference=AT_ONCE)
    assert again.id == kept.id
    assert not await it.calls.is_open(kept.key, run)
    run = it.later.dispatched[-1].run
    it.state.away.add("get")
    assert await it.calls.is_open(kept.key, run)
    await it.calls.settle(kept.key, DONE)
    assert not await it.calls.is_open(kept.key, run)
    assert await it.calls.is_open(CallKey("of-another-process"), run)  # unknown here
    it.state.away.clear()
    assert not await it.calls.is_open(CallKey("absent"), run)


async def test_cancelling_tells_the_tool_server_once(it: Desk) -> None:
    kept = await it.ask(preference=AT_ONCE)
    for _ in range(2):
        cancelled = await it.calls.stored_calls.cancel("k", ADA)
        assert cancelled is not None
        assert "cancelled" in failure(cancelled.status).message
    assert it.later.cancelled == [(kept.key, "g")]
    assert not await it.calls.settle(kept.key, DONE)
    assert (await it.calls.stored_calls.cancel("k", BOB), await it.calls.stored_calls.view(kept.id, BOB)) == (
        None,
        None,
    )


@pytest.mark.parametrize("preference", [Preference(), Preference(respond_async=True)])
async def test_a_route_may_have_calls_cancelled_that_outlast_it(it: Desk, preference: Preference) -> None:
    """Whether or not anybody waits."""
    async with asyncio.timeout(DEADLINE_S):
        kept = await it.ask(preference=preference, timeout_s=0.05, cancel_on_timeout=True)
        while not it.later.cancelled:  # noqa: ASYNC110 - the tool server of the test has no event for it
            await asyncio.sleep(0.005)
    shown = failure(kept.status if kept.status is not None else await it.status_of_call("k"))
    assert (shown.message.startswith("The tool took too long"), shown.can_retry) == (True, False)
    assert it.later.cancelled == [(kept.key, "g")]


async def test_a_call_that_waits_for_its_user_does_not_outlast_anything(it: Desk) -> None:
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        asking = group.create_task(it.ask(timeout_s=0.05, cancel_on_timeout=True))
        await it.later.took.wait()
        await it.calls.challenge(it.later.dispatched[0].key, CHALLENGE)
    assert (await asking).status == ConsentPending(CHALLENGE)
    await asyncio.sleep(0.1)
    assert it.later.cancelled == []


async def test_a_caller_that_leaves_hurts_nothing(it: Desk) -> None:
    leaving = asyncio.create_task(it.ask(backend=it.now))
    await it.now.took.wait()
    leaving.cancel()
    joined = asyncio.create_task(it.ask(backend=it.now))
    await asyncio.sleep(0)
    it.now.opened.set()
    async with asyncio.timeout(DEADLINE_S):
        assert (await joined).status == DONE
    assert (leaving.cancelled(), it.now.hung_up, len(it.now.dispatched)) == (True, False, 1)


async def leave(it: Desk, call_id: str | None, *, at: CallState, **asked: Any) -> CallKey:
    """A caller asks and leaves when its call has come so far; returns the key of the call."""
    before = len(it.later.dispatched)
    async with asyncio.timeout(DEADLINE_S):
        leaving = asyncio.create_task(it.ask(call_id, **asked))
        while len(it.later.dispatched) == before:  # noqa: ASYNC110 - two tasks of the same loop
            await asyncio.sleep(0)
        key = it.later.dispatched[-1].key
        if at is CallState.AWAITING_USER:
            await it.calls.challenge(key, CHALLENGE)
            return (await leaving).key
        while (record := it.state.local_record(key)) is None or record.state is not at:  # noqa: ASYNC110
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
    return key


async def settles_down(it: Desk) -> None:
    """Lets what was left to the background be done."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_caller_without_an_id_who_leaves_takes_its_call_along_and_its_tool_server_is_told_once() -> None:
    async with desk(max_pending=1, max_records=1) as it:
        for _ in range(3):
            left = await leave(it, None, at=CallState.ACCEPTED)
            await settles_down(it)
            assert it.later.cancelled.pop() == (left, "g")
            assert not it.later.cancelled
            assert not await it.calls.settle(left, DONE)  # too late
        assert it.state.capacity.used_bytes == 0
        assert [type(ending) for _, ending in it.ended] == [ToolResult] * 3


@pytest.mark.parametrize(
    ("call_id", "asked"),
    [("k", {}), (None, {"preference": Preference(wait_s=5.0, respond_async=True)})],
    ids=["keyed", "to be answered later"],
)
async def test_a_call_that_can_be_asked_for_outlives_its_caller(
    it: Desk, call_id: str | None, asked: dict[str, Any]
) -> None:
    left = await leave(it, call_id, at=CallState.ACCEPTED, **asked)
    await settles_down(it)
    assert not it.later.cancelled
    assert await it.calls.settle(left, DONE)
    assert await it.status_of_call(public_id(left)) == DONE


async def test_a_call_that_waits_for_its_user_outlives_its_caller(it: Desk) -> None:
    left = await leave(it, None, at=CallState.AWAITING_USER)
    again = asyncio.create_task(it.ask(None))
    await asyncio.sleep(0)
    again.cancel()
    await settles_down(it)
    assert not it.later.cancelled
    assert (await it.ask(None)).key == left


async def test_cancelling_hangs_up_on_a_tool_server_that_answers_at_once(it: Desk) -> None:
    async with asyncio.timeout(DEADLINE_S):
        asking = asyncio.create_task(it.ask(backend=it.now))
        await it.now.took.wait()
        await it.calls.stored_calls.cancel("k", ADA)
        assert "cancelled" in failure((await asking).status).message
    assert it.now.hung_up


async def test_at_the_end_calls_that_run_are_given_a_moment() -> None:
    async with asyncio.timeout(DEADLINE_S):
        async with desk() as it:
            asking = asyncio.create_task(it.ask(backend=it.now))
            await it.now.took.wait()
        assert (await asking).status == DONE


# A state that comes and goes.


async def test_without_the_state_nothing_is_begun_and_nothing_is_told(it: Desk) -> None:
    await it.ask(preference=AT_ONCE)
    it.state.away = {"begin", "get"}
    kept = await it.ask("other")
    assert (refusal(kept).code, refusal(kept).retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 1.0)
    for ask in (it.calls.stored_calls.view, it.calls.stored_calls.cancel):
        with pytest.raises(GatewayError) as raised:
            await ask("k", ADA)
        assert raised.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert await it.calls.consent_status(CallKey("key")) == "pending"
    assert len(it.later.dispatched) == 1


async def test_a_call_that_was_begun_is_dispatched_whatever_becomes_of_the_state(it: Desk) -> None:
    it.state.away = {"advance", "wait"}
    assert (await it.ask(preference=AT_ONCE)).status is None
    assert len(it.later.dispatched) == 1


async def test_a_result_is_told_at_once_and_kept_as_soon_as_it_can_be(it: Desk) -> None:
    it.state.away = {"settle"}
    it.now.opened.set()
    assert (await it.ask(backend=it.now)).status == DONE
    assert (await it.ask(backend=it.now, preference=AT_ONCE)).status is None
    it.state.away = set()
    async with asyncio.timeout(DEADLINE_S):
        assert (await it.ask(backend=it.now)).status == DONE
    assert len(it.now.dispatched) == 1


async def test_what_a_tool_server_brings_meanwhile_is_not_lost(it: Desk) -> None:
    first, second = [await it.ask(call_id, preference=AT_ONCE) for call_id in ("k", "k2")]
    it.state.away = {"get", "settle"}
    assert await it.calls.settle(first.key, DONE)
    assert await it.calls.challenge(second.key, CHALLENGE)
    it.state.away = set()
    async with asyncio.timeout(DEADLINE_S):
        assert (await it.ask()).status == DONE
        assert (await it.ask("k2")).status == ConsentPending(CHALLENGE)


async def test_what_cannot_even_be_held_is_told_to_who_brings_it(it: Desk) -> None:
    """So that it is brought again."""
    kept = await it.ask(preference=AT_ONCE)
    it.state.away = {"settle"}
    huge = ToolResult(value="x" * (64 << 20))
    with pytest.raises(StateUnavailable):
        await it.calls.settle(kept.key, huge)
    it.state.away = set()


async def test_an_unreadable_record_is_an_unknown_outcome(it: Desk) -> None:
    """As after its sealing key was taken away."""
    kept = await it.ask(preference=AT_ONCE)
    key = kept.key
    it.state.unreadable(key)
    assert "it is unknown" in failure((await it.ask()).status).message
    assert await it.calls.stored_calls.view("k", ADA) is None
