"""Medians, ratios and verdicts, from samples made up by hand."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from tests.bench import figures, report
from tests.bench.figures import LOAD, Outcome, Round, Sample, Slice, Stream, Sustained, Waiting
from tests.bench.machine import Cores
from tests.bench.plan import FULL
from tests.bench.swarm import Timings
from tests.bench.verdicts import lines

CORES = Cores(frozenset({0}), frozenset({1}))
KEPT = (figures.CALLBACK, figures.CALLBACK_PACED, figures.CALLBACK_REDIS, figures.CALLBACK_REDIS_PACED)


def timings(latency_ns: int, calls: int, handover_ns: int | None = None) -> Timings:
    """Calls that all took as long, in a second."""
    handovers = [] if handover_ns is None else [handover_ns] * calls
    return Timings(1.0, array("q", [latency_ns] * calls), array("q", handovers))


def sample(cpu_us: float, foreign_cores: float = 0.0, *, calls: int = 1000, handover_ns: int | None = None) -> Sample:
    """Calls of 1 ms."""
    return Sample.of([Slice(timings(1_000_000, calls, handover_ns), cpu_us * calls / 1e6, foreign_cores)])


def measured_round(echo_us: float, toolgate_us: float, *, foreign_cores: float = 0.0) -> Round:
    """A round in which all is just within what is owed, but for the figures of Toolgate and echo."""
    samples = {(figures.ECHO, count): sample(echo_us) for count in (1, LOAD)}
    samples |= {(figures.TOOLGATE, count): sample(toolgate_us, foreign_cores) for count in (1, 8, LOAD, 256)}
    relative = {
        figures.KEYED: 1.07,
        figures.TOOLGATE_MANY: 1.0,
        figures.TOOLGATE_EVERY: 1.5,
        figures.REDIS: 1.0,
        figures.REDIS_KEYED: 1.3,
    }
    samples |= {(row, LOAD): sample(toolgate_us * factor) for row, factor in relative.items()}
    samples |= {(row, LOAD): sample(toolgate_us, handover_ns=2_000_000) for row in KEPT}
    return Round({figures.MAIN_SUBJECT: 60_000_000}, samples)


def measured(*rounds: Round) -> Outcome:
    return Outcome(
        rounds=list(rounds),
        waiting=Waiting(10, 32 * 1024),
        waiting_callbacks=Waiting(10, 16 * 1024),
        stream=Stream(1000, 0.5, 100.0),
        sustained=Sustained(1000, 1.0, 6, 100_000_000, 104_000_000),
    )


def verdicts(outcome: Outcome) -> dict[str, bool]:
    return {line.what: line.ok for line in lines(outcome) if line.owed is not None}


def test_a_sample_leaves_out_the_disturbed_slices_but_keeps_their_latencies() -> None:
    calm = Slice(timings(1_000_000, 80), 0.8, 0.0)
    disturbed = Slice(timings(9_000_000, 40), 0.9, 0.7)
    taken = Sample.of([disturbed, calm, calm])
    assert (round(taken.cpu_us), taken.calls_per_s, taken.noisy_slices) == (10_000, 80, 1)
    assert (taken.p50_ms, taken.p99_ms) == (1.0, 9.0)


def test_a_row_is_the_median_of_its_rounds() -> None:
    rounds = [measured_round(20, 40), measured_round(20, 90), measured_round(20, 50)]
    row = next(row for row in figures.rows(measured(*rounds)) if row.connections == 256)
    assert row.subject == figures.TOOLGATE
    assert [round(us) for us in (row.cpu_us, row.cpu_us_min, row.cpu_us_max)] == [50, 40, 90]


def test_ratios_are_taken_within_a_round_so_that_a_slow_round_cancels_out() -> None:
    rounds = [measured_round(20, 40), measured_round(80, 160), measured_round(10, 20)]
    assert lines(measured(*rounds))[0].measured == pytest.approx(2.0)


def test_everything_owed_is_judged() -> None:
    assert list(verdicts(measured(measured_round(20, 59))).values()) == [True] * 13


GOOD = measured(measured_round(20, 59))


@pytest.mark.parametrize(
    ("outcome", "over"),
    [
        (replace(GOOD, rounds=[measured_round(10, 59)]), "CPU of a call / uvicorn echo"),
        (replace(GOOD, waiting=Waiting(10, 33 * 1024)), "memory of a waiting call"),
        (replace(GOOD, waiting_callbacks=Waiting(10, 17 * 1024)), "memory of a waiting callback call"),
        (replace(GOOD, stream=Stream(999, 0.5, 100.0)), "calls at once on one event stream"),
        (replace(GOOD, sustained=Sustained(1000, 1.0, 6, 1000, 1060)), "memory growth under callbacks"),
    ],
)
def test_what_exceeds_the_limit_is_named(outcome: Outcome, over: str) -> None:
    assert [what for what, ok in verdicts(outcome).items() if not ok] == [over]
    assert [line for line in report.text(outcome, FULL, CORES).splitlines() if line.endswith("OVER")]


@pytest.mark.parametrize(
    ("row", "worse", "over"),
    [
        (figures.KEYED, sample(59 * 1.1), "CPU of a keyed call / one without"),
        (figures.REDIS_KEYED, sample(59 * 1.4), "CPU of a keyed call / one without, Redis"),
        (figures.CALLBACK_PACED, sample(59, handover_ns=2_100_000), "from callback to answer, p99"),
        (figures.CALLBACK_REDIS_PACED, sample(59, handover_ns=5_100_000), "from callback to answer, p99, Redis"),
        (figures.CALLBACK_REDIS, sample(59, calls=999), "callback calls on one core, Redis"),
    ],
)
def test_what_is_owed_of_kept_calls_is_judged(row: str, worse: Sample, over: str) -> None:
    whole = measured_round(20, 59)
    outcome = replace(GOOD, rounds=[replace(whole, samples={**whole.samples, (row, LOAD): worse})])
    assert [what for what, ok in verdicts(outcome).items() if not ok] == [over]


def test_what_was_not_measured_is_not_judged() -> None:
    outcome = Outcome([], waiting=Waiting(10, 1024))
    assert verdicts(outcome) == {"memory of a waiting call": True}
    assert "memory of a waiting call" in report.text(outcome, FULL, CORES)


def test_a_noisy_machine_and_a_missing_nginx_are_told() -> None:
    text = report.text(measured(measured_round(20, 40, foreign_cores=0.6)), FULL, CORES)
    assert "The machine was not quiet." in text
    assert "Toolgate, 64 connections: 1 of 1" in text
    assert "nginx is not measured" in text


def test_one_core_is_told() -> None:
    one = Cores(frozenset({0}), frozenset({0}))
    assert "nothing is pinned" in report.text(measured(measured_round(20, 40)), FULL, one)
