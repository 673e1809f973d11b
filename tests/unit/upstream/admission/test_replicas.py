"""Which replica a call goes to, which are left out, and how they come back."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import pytest

from gateway.core.errors import ErrorCode
from gateway.upstream.admission import Admission, BreakerRules
from gateway.upstream.admission.breaker import Breaker
from tests.unit.upstream.admission.clock import OPEN_FOR_S, Clock, admission, enter, refusal, succeed

RUNS_OUT_S = 5.0


def fail(entrance: Admission[str]) -> None:
    """One call from beginning to end that breaks off."""
    lease = enter(entrance)
    lease.failed("timeout")
    entrance.leave(lease)


def states(entrance: Admission[str]) -> dict[str, str]:
    return {replica.name: replica.breaker.state for replica in entrance.replicas}


def give_up(entrance: Admission[str], *names: str) -> None:
    """Makes these replicas fail until their breakers are open."""
    while any(states(entrance)[name] == "closed" for name in names):
        lease = enter(entrance)
        if lease.replica.name in names:
            lease.failed("timeout")
        else:
            lease.answered = True
        entrance.leave(lease)


def test_replicas_with_equally_many_calls_take_turns(clock: Clock) -> None:
    entrance = admission("a", "b", "c", clock=clock)
    assert Counter(succeed(entrance) for _ in range(9)) == {"a": 3, "b": 3, "c": 3}


def test_a_call_goes_to_the_replica_with_the_fewest(clock: Clock) -> None:
    entrance = admission("a", "b", "c", clock=clock)
    held = {lease.replica.name: lease for lease in (enter(entrance) for _ in range(6))}
    assert [replica.in_flight for replica in entrance.replicas] == [2, 2, 2]
    entrance.leave(held["b"])
    assert enter(entrance).replica.name == "b"


def test_a_failing_replica_is_left_out(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    entrance = admission("a", "b", "c", clock=clock)
    give_up(entrance, "b")
    assert states(entrance) == {"a": "closed", "b": "open", "c": "closed"}
    assert Counter(succeed(entrance) for _ in range(10)) == {"a": 5, "c": 5}
    (record,) = caplog.records
    assert (record.levelno, record.message) == (logging.WARNING, "a tool server gets no more calls for now")
    assert (record.__dict__["replica"], record.__dict__["reason"]) == ("b", "timeout")


def test_while_all_are_left_out_calls_are_refused_until_the_next_probe(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    give_up(entrance, "a")
    clock.now += 4.5
    give_up(entrance, "b")
    assert (refusal(entrance).code, refusal(entrance).retry_after_s) == (ErrorCode.BACKEND_UNAVAILABLE, 6.0)
    clock.now += 5.0
    assert refusal(entrance).retry_after_s == 1.0
    assert (entrance.breaker, entrance.in_flight) == ("open", 0)


def test_one_call_probes_and_the_others_are_refused_meanwhile(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    entrance = admission(clock=clock)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    probe = enter(entrance)
    assert states(entrance) == {"a": "half_open"}
    assert refusal(entrance).retry_after_s == 1.0
    probe.answered = True
    entrance.leave(probe)
    assert [succeed(entrance) for _ in range(3)] == ["a", "a", "a"]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, "a tool server gets no more calls for now"),
        (logging.INFO, "a tool server takes calls again"),
    ]


def test_failing_probes_are_spaced_and_logged_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    entrance = admission(clock=clock)
    give_up(entrance, "a")
    for _ in range(5):
        assert refusal(entrance).retry_after_s == OPEN_FOR_S
        clock.now += OPEN_FOR_S
        fail(entrance)
    assert len(caplog.records) == 1


def test_a_caller_that_leaves_during_its_probe_leaves_it_to_the_next(clock: Clock) -> None:
    entrance = admission(clock=clock)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    entrance.leave(enter(entrance))
    assert succeed(entrance) == "a"
    assert states(entrance) == {"a": "closed"}


def test_an_attempt_that_shows_nothing_is_not_counted(clock: Clock) -> None:
    entrance = admission(clock=clock)
    for _ in range(20):
        entrance.leave(enter(entrance))
    assert entrance.replicas[0].breaker.failures == 0


def test_a_call_that_was_not_sent_moves_to_each_other_replica_once(clock: Clock) -> None:
    entrance = admission("a", "b", "c", clock=clock)
    lease = enter(entrance)
    visited = [lease.replica.name]
    while entrance.move(lease, reason="connect", counts=True):
        visited.append(lease.replica.name)
    assert sorted(visited) == ["a", "b", "c"]
    assert [replica.in_flight for replica in entrance.replicas if replica.in_flight] == [1]
    entrance.leave(lease)
    assert (entrance.in_flight, sum(replica.in_flight for replica in entrance.replicas)) == (0, 0)
    failures = sorted(replica.breaker.failures for replica in entrance.replicas)
    assert failures == [0, 1, 1]  # the last is for the caller to count


def test_a_replica_that_is_only_busy_is_passed_without_blame(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    lease = enter(entrance)
    assert entrance.move(lease, reason="busy", counts=False)
    entrance.leave(lease)
    assert [replica.breaker.failures for replica in entrance.replicas] == [0, 0]


def test_without_a_check_a_call_probes_although_there_are_others(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    assert succeed(entrance) == "a"
    assert states(entrance) == {"a": "closed", "b": "closed"}


class Checked:
    """Answers checks when a test calls `say`."""

    def __init__(self, entrance: Admission[str]) -> None:
        self.entrance = entrance
        self.asked: list[str] = []
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entrance.check = self

    async def __call__(self, target: str) -> str | None:
        self.asked.append(target)
        return None if await self.answer else "status 500"

    async def say(self, answer: bool) -> None:
        self.answer.set_result(answer)
        async with asyncio.timeout(RUNS_OUT_S):
            while states(self.entrance)["a"] == "half_open":  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0)


@pytest.mark.anyio
async def test_with_others_left_no_call_is_risked_before_the_replica_answers_something(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    checked = Checked(entrance)
    give_up(entrance, "a")
    assert {succeed(entrance) for _ in range(4)} == {"b"}
    assert checked.asked == []
    clock.now += OPEN_FOR_S
    assert {succeed(entrance) for _ in range(4)} == {"b"}
    await asyncio.sleep(0)
    assert (checked.asked, states(entrance)["a"]) == (["a"], "half_open")
    await checked.say(True)
    probe = enter(entrance)
    assert (probe.replica.name, states(entrance)["a"]) == ("a", "half_open")
    assert {succeed(entrance) for _ in range(4)} == {"b"}
    probe.answered = True
    entrance.leave(probe)
    assert states(entrance) == {"a": "closed", "b": "closed"}
    await entrance.aclose()


@pytest.mark.anyio
async def test_a_check_that_fails_keeps_the_replica_out_for_as_long_again(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    checked = Checked(entrance)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    succeed(entrance)
    await checked.say(False)
    clock.now += OPEN_FOR_S - 1.0
    assert {succeed(entrance) for _ in range(4)} == {"b"}
    assert checked.asked == ["a"]
    await entrance.aclose()


@pytest.mark.anyio
async def test_a_check_that_is_cut_off_does_not_leave_the_replica_out_for_ever(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    Checked(entrance)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    succeed(entrance)
    await asyncio.sleep(0)
    await entrance.aclose()
    assert states(entrance)["a"] == "open"


@pytest.mark.anyio
async def test_once_no_other_is_left_a_call_is_risked_without_a_check(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    checked = Checked(entrance)
    give_up(entrance, "a")
    give_up(entrance, "b")
    clock.now += OPEN_FOR_S
    assert succeed(entrance) in ("a", "b")
    assert checked.asked == []
    assert entrance.breaker == "closed"


def test_replicas_that_take_calls_come_first(clock: Clock) -> None:
    entrance = admission("a", "b", "c", clock=clock)
    give_up(entrance, "b")
    firsts = {entrance.by_preference()[0].name for _ in range(6)}
    assert firsts == {"a", "c"}
    assert {entrance.by_preference()[-1].name for _ in range(6)} == {"b"}


def test_the_health_document_describes_admission(clock: Clock) -> None:
    entrance = admission("a", "b", clock=clock)
    give_up(entrance, "a")
    held = enter(entrance)
    none = {"count": 0, "first": []}
    assert entrance.as_json() == {
        "in_flight": 1,
        "queued": 0,
        "breaker": "closed",
        "replicas": [
            {"url": "a", "up": False, "breaker": "open", "failures": 3, "in_flight": 0, "tools_shut": none},
            {"url": "b", "up": True, "breaker": "closed", "failures": 0, "in_flight": 1, "tools_shut": none},
        ],
    }
    entrance.leave(held)


@pytest.mark.parametrize(("pick", "factor"), [(min, 0.9), (max, 1.1)])
def test_the_time_to_the_next_probe_varies_by_a_tenth(clock: Clock, pick: Callable[..., float], factor: float) -> None:
    breaker = Breaker(BreakerRules(failures=1, open_for_s=OPEN_FOR_S), clock, pick)
    assert breaker.record_failure(breaker.generation)
    assert breaker.probe_at - clock.now == pytest.approx(factor * OPEN_FOR_S)


def test_calls_from_before_the_breaker_opened_do_not_count(clock: Clock) -> None:
    entrance = admission(clock=clock)
    good, bad = enter(entrance), enter(entrance)
    give_up(entrance, "a")
    clock.now += OPEN_FOR_S
    probe = enter(entrance)
    good.answered = True
    entrance.leave(good)
    bad.failed("timeout")
    entrance.leave(bad)
    assert states(entrance) == {"a": "half_open"}
    probe.answered = True
    entrance.leave(probe)
    assert states(entrance) == {"a": "closed"}
