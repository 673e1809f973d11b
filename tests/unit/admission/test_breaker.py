"""The breaker of one replica: what opens it, who probes, what closes it."""

from __future__ import annotations

import pytest

from gateway.admission.breaker import Breaker, BreakerRules
from tests.unit.admission.clock import OPEN_FOR_S, Clock, middle

FAILURES = 3


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(BreakerRules(failures=FAILURES, open_for_s=OPEN_FOR_S), clock, middle)


def opened(breaker: Breaker) -> Breaker:
    for _ in range(FAILURES):
        breaker.record_failure(breaker.generation)
    assert breaker.state == "open"
    return breaker


def test_the_time_it_stays_open_differs_between_gateways(clock: Clock) -> None:
    rules = BreakerRules(failures=1, open_for_s=OPEN_FOR_S)
    low, high = (opened_at_once(Breaker(rules, clock, pick)) for pick in (min, max))
    assert low.probe_at - clock.now == pytest.approx(0.9 * OPEN_FOR_S)
    assert high.probe_at - clock.now == pytest.approx(1.1 * OPEN_FOR_S)


def opened_at_once(breaker: Breaker) -> Breaker:
    assert breaker.record_failure(0)
    return breaker


def test_attempts_from_before_it_opened_change_nothing_any_more(breaker: Breaker) -> None:
    old = breaker.generation
    opened(breaker)
    assert breaker.record_success(old) is False
    assert state_of(breaker) == "open"
    probe = breaker.begin_probe()
    breaker.record_success(old)
    breaker.record_nothing(old)
    assert state_of(breaker) == "half_open"
    breaker.record_success(probe)
    for _ in range(FAILURES):
        breaker.record_failure(old)
    assert state_of(breaker) == "closed"


def state_of(breaker: Breaker) -> str:
    return breaker.state


def test_a_replica_that_answers_something_is_due_at_once_but_not_trusted(breaker: Breaker, clock: Clock) -> None:
    opened(breaker).note_alive()
    assert (breaker.state, breaker.probe_at, breaker.checked) == ("open", clock.now, True)
    assert breaker.record_failure(breaker.begin_probe()) is False
    assert (breaker.probe_at, breaker.checked) == (clock.now + OPEN_FOR_S, False)


def test_a_sign_of_life_changes_nothing_while_it_is_closed_or_half_open(breaker: Breaker) -> None:
    breaker.record_failure(0)
    breaker.note_alive()
    assert (breaker.state, breaker.failures, breaker.generation) == ("closed", 1, 0)
    probe = opened(breaker).begin_probe()
    breaker.note_alive()
    assert (breaker.state, breaker.generation) == ("half_open", probe)


def test_with_no_failures_to_count_it_never_opens(clock: Clock) -> None:
    breaker = Breaker(BreakerRules(failures=0, open_for_s=OPEN_FOR_S), clock, middle)
    assert not any(breaker.record_failure(0) for _ in range(1000))
    assert breaker.state == "closed"
