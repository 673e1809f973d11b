"""Tools that fail: each is shut alone, and at which replicas; when they speak against the replica itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.upstream.admission import Admission
from gateway.upstream.admission.replica import MAX_FAILING_TOOLS, MAX_SHOWN
from tests.unit.upstream.admission.clock import OPEN_FOR_S, Clock, admission, enter, refusal, succeed

FAILURES = 3
CRASH, WELL, WORSE = "Crm.Crash@1.0.0", "Crm.Well@1.0.0", "Crm.Worse@1.0.0"


def fail(entrance: Admission[str], *tools: str) -> None:
    """One call of each from beginning to end; the tool fails."""
    for tool in tools:
        lease = enter(entrance, tool)
        lease.tool_failed("status 500")
        entrance.leave(lease)


def shut(entrance: Admission[str]) -> dict[str, tuple[str, ...]]:
    return {replica.name: tuple(replica.tools_shut) for replica in entrance.replicas}


def test_a_tool_that_fails_in_a_row_is_shut_and_no_other(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    entrance = admission(clock=clock)
    fail(entrance, *[CRASH] * FAILURES)
    refused = refusal(entrance, CRASH)
    assert (refused.code, refused.retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, OPEN_FOR_S)
    assert refused.detail == "the tool failed too often lately"
    assert [succeed(entrance, WELL) for _ in range(5)] == ["a"] * 5
    assert (entrance.breaker, shut(entrance), entrance.tools_shut) == ("closed", {"a": (CRASH,)}, 1)
    assert entrance.replicas[0].breaker.failures == 0
    (record,) = caplog.records
    assert (record.levelno, record.message) == (logging.WARNING, "a tool gets no more calls for now")
    logged = record.__dict__
    assert (logged["tool"], logged["failures"], logged["reason"]) == (CRASH, FAILURES, "status 500")


def test_successes_of_other_tools_do_not_hide_one_that_crashes(clock: Clock) -> None:
    entrance = admission(clock=clock)
    for _ in range(FAILURES):
        fail(entrance, CRASH)
        succeed(entrance, WELL)
    assert shut(entrance) == {"a": (CRASH,)}


def test_a_success_of_the_tool_itself_starts_its_count_again_and_leaves_nothing_behind(clock: Clock) -> None:
    entrance = admission(clock=clock)
    for _ in range(FAILURES):
        fail(entrance, *[CRASH] * (FAILURES - 1))
        succeed(entrance, CRASH)
        assert entrance.replicas[0].tools == {}
    assert shut(entrance) == {"a": ()}


def test_one_call_tries_the_tool_and_decides_for_the_others(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    entrance = admission(clock=clock)
    fail(entrance, *[CRASH] * FAILURES)
    clock.now += OPEN_FOR_S
    fail(entrance, CRASH)
    assert refusal(entrance, CRASH).retry_after_s == OPEN_FOR_S
    clock.now += OPEN_FOR_S
    assert shut(entrance) == {"a": ()}  # it may be tried
    probe = enter(entrance, CRASH)
    assert shut(entrance) == {"a": (CRASH,)}
    assert refusal(entrance, CRASH).retry_after_s == 1.0
    succeed(entrance, WELL)
    probe.answered = True
    entrance.leave(probe)
    assert [succeed(entrance, CRASH) for _ in range(3)] == ["a"] * 3
    assert [record.message for record in caplog.records] == [
        "a tool gets no more calls for now",
        "a tool takes calls again",
    ]


def test_a_probe_that_tells_nothing_of_the_tool_leaves_its_place_to_the_next(clock: Clock) -> None:
    entrance = admission(clock=clock)
    fail(entrance, *[CRASH] * FAILURES)
    clock.now += OPEN_FOR_S
    entrance.leave(enter(entrance, CRASH))  # its caller has left
    unreachable = enter(entrance, CRASH)
    unreachable.failed("connect")
    entrance.leave(unreachable)
    succeed(entrance, CRASH)
    assert shut(entrance) == {"a": ()}


def test_calls_from_before_it_was_shut_change_nothing_any_more(clock: Clock) -> None:
    entrance = admission(clock=clock)
    good, bad = enter(entrance, CRASH), enter(entrance, CRASH)
    fail(entrance, *[CRASH] * FAILURES)
    clock.now += OPEN_FOR_S - 1.0
    good.answered = True
    entrance.leave(good)
    bad.tool_failed("timeout")
    entrance.leave(bad)
    assert refusal(entrance, CRASH).retry_after_s == 1.0


def test_two_tools_that_fail_in_a_row_speak_against_the_replica(clock: Clock) -> None:
    entrance = admission(clock=clock, failures=5)
    fail(entrance, CRASH, CRASH, CRASH)
    assert entrance.replicas[0].breaker.failures == 0
    fail(entrance, WORSE, CRASH, WORSE, WORSE)
    assert str(entrance.breaker) == "closed"
    fail(entrance, WORSE)
    assert str(entrance.breaker) == "open"
    assert refusal(entrance, WELL).detail == "its tool server failed too often lately"


def test_two_tools_with_a_success_in_between_do_not(clock: Clock) -> None:
    entrance = admission(clock=clock, failures=5)
    for _ in range(20):
        fail(entrance, CRASH)
        succeed(entrance, WELL)
        fail(entrance, WORSE)
        succeed(entrance, WORSE)
        if entrance.tools_shut:
            break
    assert (entrance.breaker, shut(entrance)) == ("closed", {"a": (CRASH,)})


def test_a_replica_given_up_for_its_tools_is_not_back_when_another_one_fails(clock: Clock) -> None:
    entrance = admission(clock=clock)
    fail(entrance, CRASH, WORSE, CRASH, WORSE)
    assert entrance.breaker == "open"
    clock.now += OPEN_FOR_S
    fail(entrance, WELL)
    assert refusal(entrance, WELL).retry_after_s == OPEN_FOR_S


def test_a_crashing_tool_does_not_keep_a_server_shut_that_was_gone(clock: Clock) -> None:
    entrance = admission(clock=clock)
    for _ in range(FAILURES):
        gone = enter(entrance, WELL)
        gone.failed("connect")
        entrance.leave(gone)
    clock.now += OPEN_FOR_S
    fail(entrance, CRASH)  # the probe reached it, and says no more
    succeed(entrance, WELL)
    assert (entrance.breaker, shut(entrance)) == ("closed", {"a": ()})


def test_a_tool_that_fails_at_one_replica_only_goes_to_the_others(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    for _ in range(2 * FAILURES):
        lease = enter(entrance, CRASH)
        if lease.replica.name == "a":
            lease.tool_failed("timeout")
        else:
            lease.answered = True
        entrance.leave(lease)
    assert (shut(entrance), entrance.tools_shut) == ({"a": (CRASH,), "b": ()}, 0)
    assert {succeed(entrance, CRASH) for _ in range(4)} == {"b"}
    assert {succeed(entrance, WELL) for _ in range(4)} == {"a", "b"}


@pytest.mark.anyio
async def test_with_others_left_no_call_tries_it_before_the_replica_answers_something(clock: Clock) -> None:
    """A replica that is frozen is noticed by a tool first, and must not cost one of its calls every ten seconds."""
    entrance = admission("a", "b", clock=clock, failures=1)
    answers, asked = False, []

    async def check(target: str) -> str | None:
        asked.append(target)
        return None if answers else "status 500"

    entrance.check = check
    fail(entrance, CRASH)
    (frozen,) = [name for name, tools in shut(entrance).items() if tools]
    for round_ in range(1, 3):
        clock.now += OPEN_FOR_S
        assert {succeed(entrance, CRASH) for _ in range(4)} == {"a", "b"} - {frozen}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked == [frozen] * round_
        answers = True
    assert frozen in {succeed(entrance, CRASH) for _ in range(4)}
    assert shut(entrance) == {"a": (), "b": ()}
    await entrance.aclose()


def test_a_call_that_moves_on_is_counted_where_it_ends(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock, failures=1)
    lease = enter(entrance, CRASH)
    first = lease.replica.name
    assert entrance.move(lease, reason="connect", counts=True)
    lease.tool_failed("status 500")
    entrance.leave(lease)
    assert {name: bool(tools) for name, tools in shut(entrance).items()} == {first: False, lease.replica.name: True}


def test_a_call_that_broke_off_may_come_back_when_the_others_are_gone(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    lease = enter(entrance, CRASH)
    first = lease.replica
    assert entrance.move(lease, reason="closed", counts=True, may_return=True)
    assert lease.replica is not first
    assert entrance.move(lease, reason="connect", counts=True)
    assert lease.replica is first
    assert not entrance.move(lease, reason="connect", counts=True)
    entrance.leave(lease)
    assert [replica.in_flight for replica in entrance.replicas] == [0, 0]


@pytest.mark.anyio
async def test_a_waiting_call_is_refused_when_its_tool_is_shut(
    clock: Clock,
) -> None:
    entrance = admission(clock=clock, concurrency=1, queue=4)
    running = [enter(entrance, CRASH)]
    waiting = [asyncio.create_task(entrance.wait(CRASH, 60.0)) for _ in range(FAILURES + 1)]
    await asyncio.sleep(0)
    for _ in range(FAILURES):
        running[-1].tool_failed("status 500")
        entrance.leave(running[-1])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running += [task.result() for task in waiting[len(running) - 1 : len(running)] if not task.exception()]
    late = await asyncio.gather(*waiting[FAILURES - 1 :], return_exceptions=True)
    assert [type(each) for each in late] == [GatewayError, GatewayError]
    succeed(entrance, WELL)
    held = enter(entrance, WELL)
    with pytest.raises(GatewayError, match="temporarily unavailable"):
        await entrance.wait(CRASH, 60.0)
    entrance.leave(held)
    assert (entrance.in_flight, entrance.queued) == (0, 0)


def test_with_no_failures_to_count_nothing_is_remembered(clock: Clock) -> None:
    entrance = admission(clock=clock, failures=0)
    fail(entrance, *[CRASH, WORSE] * 100)
    assert (entrance.breaker, entrance.replicas[0].tools) == ("closed", {})


def test_of_very_many_failing_tools_some_are_remembered_and_few_are_shown(clock: Clock) -> None:
    entrance = admission(clock=clock, failures=1)
    for number in range(MAX_FAILING_TOOLS + 10):
        fail(entrance, f"Crm.Tool{number}@1.0.0")
        succeed(entrance, WELL)
    assert len(entrance.replicas[0].tools) == entrance.tools_shut == MAX_FAILING_TOOLS
    document = entrance.replicas[0].as_json()["tools_shut"]
    assert (document["count"], len(document["first"])) == (MAX_FAILING_TOOLS, MAX_SHOWN)
    fail(entrance, "Crm.Tool0@1.0.0")  # it is not known any more to have failed
